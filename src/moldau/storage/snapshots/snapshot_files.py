"""Where snapshots are and what describes them.

Each log directory has its snapshots beside it, on the same disk, for a file can have two names only
there: `<log directory>-snapshots/<name>/data` is a log directory of its own, as a clean stop would
have left it. `manifest.json` stands beside the first `data`; beside the others a file tells which
directory has it. One that is being made, or removed, has a name that ends with `.partial`: a
snapshot begins and ends with the rename of the directory that has the manifest.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.model.names import Millis
from moldau.storage.directories.leftover_snapshots import DIRECTORY_SUFFIX
from moldau.storage.log_files import read_whole, sync_directory
from moldau.storage.storage_faults import CorruptFile, StorageFault

VERSION = 1
PARTIAL_SUFFIX = ".partial"
DATA = "data"
MANIFEST_FILE = "manifest.json"
PART_FILE = "part-of"
NAME_LENGTH_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class PartitionRow(NamedTuple):
    topic: str
    partition: int
    part: int
    """Which of the snapshot's directories it is in."""
    log_start_offset: int
    offset_end: int
    segments: tuple[tuple[int, int], ...]
    """Base offset and bytes of each."""

    @property
    def size_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self.segments)


class Manifest(NamedTuple):
    name: str
    created_ms: Millis
    cluster_id: str
    node_id: int
    software: str
    directories: tuple[str, ...]
    """The log directories that it is of, in their order."""
    settings: Mapping[str, str]
    """What the broker had in force and a fork needs too; no secrets."""
    is_secured: bool
    """Whether clients had to say who they are, or were asked what they may do."""
    partitions: tuple[PartitionRow, ...]
    checksums: Mapping[str, int]
    """CRC-32C of small files that nothing else would protect, by their path in the snapshot."""
    uid: str = ""
    """Of a snapshot of a cluster: its parts have the same."""
    led: Mapping[str, int] = {}
    """Of a cluster's: the partitions that this broker led, and in which leader epoch."""
    members: Sequence[Mapping[str, Any]] = ()
    """Of a cluster's, in the one part that makes it whole: all brokers with their directories."""
    held_us: int = 0
    """For how long answers were held back in a cluster."""

    @property
    def size_bytes(self) -> int:
        return sum(row.size_bytes for row in self.partitions)


def check_name(name: str) -> None:
    """Raises ValueError: the name becomes a directory's."""
    if len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name) or name.endswith(PARTIAL_SUFFIX):
        raise ValueError(
            f"a snapshot cannot be called {name[:NAME_LENGTH_MAX]!r}: use up to {NAME_LENGTH_MAX} "
            f"letters, digits, dots, dashes and underscores, a letter or digit first"
        )


def root_of(log_directory: str) -> str:
    """Where the snapshots of a log directory are."""
    return log_directory.rstrip("/") + DIRECTORY_SUFFIX


def data_of(log_directory: str, name: str) -> str:
    return os.path.join(root_of(log_directory), name, DATA)


def encode_manifest(manifest: Manifest) -> bytes:
    fields: dict[str, Any] = {"version": VERSION, **manifest._asdict()}
    fields["partitions"] = [row._asdict() for row in manifest.partitions]
    return json.dumps(fields, indent=1).encode() + b"\n"


def read_manifest(log_directory: str, name: str) -> Manifest:
    """Raises CorruptFile, also if there is none, and StorageFault."""
    path = os.path.join(root_of(log_directory), name, MANIFEST_FILE)
    content = read_whole(path)
    if content is None:
        raise CorruptFile(path, "there is no such snapshot")
    try:
        fields = json.loads(content)
        if fields.pop("version") != VERSION:
            raise CorruptFile(path, "it was written by a newer Moldau")
        rows = tuple(_row(row) for row in fields.pop("partitions"))
        # The first is where the manifest is, wherever that was moved to.
        fields["directories"] = (os.path.abspath(log_directory), *fields["directories"][1:])
        return Manifest(**fields, partitions=rows)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFile(path, f"it is damaged ({error})") from None


def _row(fields: dict[str, Any]) -> PartitionRow:
    segments = tuple((int(base), int(size)) for base, size in fields.pop("segments"))
    return PartitionRow(**fields, segments=segments)


def names_in(log_directory: str) -> list[str]:
    """Of the snapshots that are complete."""
    return sorted(
        name
        for name, path in _directories(root_of(log_directory))
        if not name.endswith(PARTIAL_SUFFIX) and os.path.exists(os.path.join(path, MANIFEST_FILE))
    )


def remove_unfinished(log_directories: Sequence[str]) -> list[str]:
    """What a crash left half made or half removed; the names of it. A directory that cannot be
    used just now must not be among these: what has its manifest there is left alone."""
    removed = set()
    for log_directory in log_directories:
        for name, path in _directories(root_of(log_directory)):
            if name.endswith(PARTIAL_SUFFIX) or _is_left_over(path, name, log_directories):
                remove_tree(path)
                removed.add(name.removesuffix(PARTIAL_SUFFIX))
    return sorted(removed)


def _is_left_over(path: str, name: str, log_directories: Sequence[str]) -> bool:
    """Whether it is a part of a snapshot that is no more, or never was."""
    content = read_whole(os.path.join(path, PART_FILE))
    if content is None:
        return False
    first = content.decode(errors="surrogateescape")
    manifest = os.path.join(root_of(first), name, MANIFEST_FILE)
    return first in log_directories and not os.path.exists(manifest)


def remove_snapshot(log_directories: Sequence[str], name: str) -> None:
    """The part with the manifest goes first: what is left after a crash is no snapshot."""
    for log_directory in log_directories:
        path = os.path.join(root_of(log_directory), name)
        remove_tree(path + PARTIAL_SUFFIX)
        try:
            os.rename(path, path + PARTIAL_SUFFIX)
            sync_directory(root_of(log_directory))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageFault.of("cannot remove", path, error) from error
        remove_tree(path + PARTIAL_SUFFIX)


def remove_tree(path: str) -> None:
    import shutil  # few need it

    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFault.of("cannot remove", path, error) from error


def _directories(root: str) -> Iterator[tuple[str, str]]:
    try:
        with os.scandir(root) as entries:
            found = [(entry.name, entry.path) for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFault.of("cannot read", root, error) from error
    yield from found
