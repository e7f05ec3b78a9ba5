"""Names and durable writing of the files in a log directory, as Apache Kafka lays them out.

Paths are plain strings here: a broker opens thousands of files while it starts.
"""

from __future__ import annotations

import contextlib
import os
import re

from moldau.model.names import TopicPartition
from moldau.storage.storage_faults import StorageFault

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"

DELETED_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
STRAY_DIRECTORY_SUFFIX = "-stray"

KRAFT_METADATA_DIRECTORY = "__cluster_metadata-0"
"""Where a KRaft broker keeps the cluster's metadata: no partition of a topic."""

EPOCHS_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
DIRECTORY_NAME_LENGTH_MAX = 255

_OFFSET_NAMED = re.compile(r"(\d{20})(\.[a-z]+)")


def offset_file_name(offset: int, suffix: str) -> str:
    """Zero-padded, so that names sort as offsets do."""
    return f"{offset:020d}{suffix}"


def parse_offset_file_name(name: str) -> tuple[int, str] | None:
    """(offset, suffix) of `00000000000000000000.log` and its kin; None for any other name."""
    match = _OFFSET_NAMED.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def parse_partition_directory(name: str) -> TopicPartition | None:
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))


def departed_directory_name(partition: TopicPartition, unique: str, suffix: str) -> str:
    """The directory of a partition that is not served from there: deleted, a stray, or a copy to
    be. A long topic name is cut so that the whole stays a legal file name."""
    ending = f"-{partition.partition}.{unique}{suffix}"
    return partition.topic[: DIRECTORY_NAME_LENGTH_MAX - len(ending)] + ending


def write_whole(path: str, content: bytes, *, durable: bool = True, mode: int = 0o644) -> None:
    """Replace the file in one step: a crash leaves the old content or the new, never a mixture."""
    temporary = path + TEMPORARY_SUFFIX
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            write_fully(descriptor, content)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        if durable:
            sync_directory(os.path.dirname(path))
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise StorageFault.of("cannot write", path, error) from error


def write_fully(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def read_whole(path: str) -> bytes | None:
    """The content, or None if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size_bytes = os.fstat(descriptor).st_size
            content = b""
            while len(content) < size_bytes:
                piece = os.read(descriptor, size_bytes - len(content))
                if not piece:
                    break
                content += piece
            return content
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFault.of("cannot read", path, error) from error


def sync_directory(path: str) -> None:
    """Make the creations, renames and removals in the directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_ancestors(path: str) -> None:
    """Make the path itself survive a power cut: its name and those of the directories above it."""
    while (parent := os.path.dirname(path)) != path:
        # What we may not even read we have not made.
        with contextlib.suppress(PermissionError):
            sync_directory(parent)
        path = parent


def sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_if_there(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageFault.of("cannot remove", path, error) from error
