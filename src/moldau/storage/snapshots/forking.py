"""A fork: log directories that begin as a snapshot and go their own way.

Files of closed segments get one more name, so a fork costs no room and next to no time, whatever
the size; on another disk they are copied. What says whose directory it is is written anew. The mark
of a clean stop comes last: what was not finished is not taken for a fork.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.model.names import TopicPartition
from moldau.storage.directories.log_directory import (
    CLEAN_SHUTDOWN_CONTENT,
    CLEAN_SHUTDOWN_FILE,
)
from moldau.storage.directories.meta_properties import (
    FILE_NAME,
    MetaProperties,
    random_id,
    write_meta_properties,
)
from moldau.storage.log.shared_files import copy_beginning
from moldau.storage.log_files import sync_directory
from moldau.storage.snapshots.cluster_forking import gather
from moldau.storage.snapshots.snapshot_files import Manifest, data_of
from moldau.storage.storage_faults import StorageFault

NOT_TAKEN_OVER = frozenset({CLEAN_SHUTDOWN_FILE, FILE_NAME})


class Fork(NamedTuple):
    cluster_id: str
    """A new one: nobody should take it for the original."""
    directories: tuple[str, ...]
    linked_files: int
    copied_bytes: int
    leader_epochs: Mapping[TopicPartition, int] = {}
    """Of a cluster's snapshot: those that the partitions had."""


def fork_into(manifest: Manifest, target: str, copied: Callable[[int], None]) -> Fork:
    """`copied(bytes)` hears of each file that had to be copied. Raises StorageFault."""
    cluster_id = random_id()
    linked = copied_bytes = 0

    def take(source: str, path: str) -> None:
        nonlocal linked, copied_bytes
        size_bytes = _link_or_copy(source, path)
        if size_bytes is None:
            linked += 1
        else:
            copied_bytes += size_bytes
            copied(size_bytes)

    if manifest.members:
        return _fork_cluster(manifest, target, cluster_id, take, lambda: (linked, copied_bytes))
    directories = tuple(_part_of(target, part) for part in range(len(manifest.directories)))
    try:
        for original, directory in zip(manifest.directories, directories, strict=True):
            os.makedirs(directory)
            _take_over(data_of(original, manifest.name), directory, take)
            meta = MetaProperties(manifest.node_id, cluster_id, None)
            write_meta_properties(directory, meta)
    except OSError as error:
        raise StorageFault.of("cannot fork into", target, error) from error
    return Fork(cluster_id, directories, linked, copied_bytes)


def _fork_cluster(
    manifest: Manifest,
    target: str,
    cluster_id: str,
    take: Callable[[str, str], None],
    counts: Callable[[], tuple[int, int]],
) -> Fork:
    directory = _part_of(target, 0)

    def take_over(source: str, path: str) -> None:
        _take_over(source, path, take)

    def take_small(source: str, path: str) -> None:
        if os.path.basename(source) not in NOT_TAKEN_OVER:
            take(source, path)

    try:
        os.makedirs(directory)
        epochs = gather(manifest, directory, take_over, take_small)
        write_meta_properties(directory, MetaProperties(manifest.node_id, cluster_id, None))
    except OSError as error:
        raise StorageFault.of("cannot fork into", target, error) from error
    return Fork(cluster_id, (directory,), *counts(), epochs)


def leave_whole(fork: Fork) -> None:
    """Now it may be started. Raises StorageFault."""
    for directory in fork.directories:
        path = os.path.join(directory, CLEAN_SHUTDOWN_FILE)
        try:
            with open(path, "wb") as file:
                file.write(CLEAN_SHUTDOWN_CONTENT)
            sync_directory(directory)
        except OSError as error:
            raise StorageFault.of("cannot write", path, error) from error


def _part_of(target: str, part: int) -> str:
    return os.path.join(target, "data" if not part else f"data-{part}")


def _take_over(source: str, target: str, take: Callable[[str, str], None]) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            path = os.path.join(target, entry.name)
            if entry.is_dir():
                os.mkdir(path)
                _take_over(entry.path, path, take)
            elif entry.name not in NOT_TAKEN_OVER:
                take(entry.path, path)


def _link_or_copy(source: str, path: str) -> int | None:
    """The bytes that were copied; None if it is a link. What is no segment's file is small, and
    may be changed in place: it is always copied."""
    if os.path.basename(source)[:1].isdigit():
        try:
            os.link(source, path)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
        else:
            return None
    size_bytes = os.stat(source).st_size
    copy_beginning(source, path, size_bytes)
    with contextlib.suppress(OSError):
        os.chmod(path, os.stat(source).st_mode & 0o777)
    return size_bytes
