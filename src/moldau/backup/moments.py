"""What a backup says of itself: one file for each moment, written last, never changed.

A moment names what it adds to the moments before it, the offsets at which every partition ended,
and what was there besides records. So a backup of which a moment is there has all of its files;
what lies there without a moment is of a run that was cut off, and is taken over or removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from moldau.backup.backup_faults import BackupFault, Damaged
from moldau.backup.batch_files import sync_directory
from moldau.backup.batch_scan import Counts
from moldau.model.names import TopicPartition
from moldau.records.checksum import crc32c

FORMAT = 1
MOMENTS = "moments"
DATA = "data"
_OPENING = "moldau-backup"
_NUMBER_DIGITS = 8
_NAME_MAX = 200


class FileRow(NamedTuple):
    """Batches of one partition from one offset up to another."""

    name: str
    offset_start: int
    offset_end: int
    counts: Counts
    stored_bytes: int
    checksum: int


class Closing(NamedTuple):
    """A transaction that was open in a partition: how it ends in what is restored."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    is_commit: bool


@dataclass(frozen=True, slots=True)
class PartitionRow:
    offset_end: int
    """The cut: what lies behind it was not there yet."""
    log_start: int
    """Of the original, at that moment. A backup keeps what it has copied before."""
    closings: tuple[Closing, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRow:
    name: str
    topic_id: str
    """In hexadecimal; empty if brokers give none."""
    directory: str
    partitions: tuple[PartitionRow, ...]
    configs: Mapping[str, str] = field(default_factory=dict)


class GroupRow(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Moment:
    number: int
    moment_ms: int
    cluster_id: str
    is_exact: bool
    """No transaction was decided while the end offsets were asked for."""
    topics: Mapping[str, TopicRow]
    files: Mapping[str, tuple[FileRow, ...]]
    """New since the moment before, by `directory/partition`."""
    groups: Mapping[str, tuple[GroupRow, ...]]
    pending: Mapping[str, Any] = field(default_factory=dict)
    """What the coordinators' topics hold that is not settled: where the next moment goes on."""
    access: Mapping[str, Any] = field(default_factory=dict)
    before: int = 0
    """The checksum of the moment before."""


class Chain:
    """All moments of a backup, in order."""

    def __init__(self, directory: str, moments: list[Moment], checksum: int) -> None:
        self.directory = directory
        self.moments = moments
        self.checksum = checksum

    @property
    def last(self) -> Moment | None:
        return self.moments[-1] if self.moments else None

    def files(self, upto: int | None = None) -> dict[str, list[FileRow]]:
        """Of each partition in order, as of one moment."""
        found: dict[str, list[FileRow]] = {}
        for moment in self.moments:
            if upto is not None and moment.number > upto:
                break
            for place, rows in moment.files.items():
                found.setdefault(place, []).extend(rows)
        return found

    def add(self, moment: Moment) -> None:
        self.checksum = _write(self.directory, moment)
        self.moments.append(moment)


def read_chain(directory: str) -> Chain:
    """Raises Damaged, which names the file."""
    path = os.path.join(directory, MOMENTS)
    names = sorted(os.listdir(path)) if os.path.isdir(path) else []
    moments: list[Moment] = []
    checksum = 0
    for name in names:
        if not name.endswith(".json"):
            continue
        wanted = os.path.join(path, _name(len(moments) + 1))
        if os.path.basename(wanted) != name:
            raise Damaged(wanted, "is missing")
        moment, own = _read(wanted)
        if moment.before != checksum or moment.number != len(moments) + 1:
            raise Damaged(wanted, "does not follow the moment before it")
        moments.append(moment)
        checksum = own
    return Chain(directory, moments, checksum)


def data_path(directory: str, place: str, name: str = "") -> str:
    return os.path.join(directory, DATA, *place.split("/"), name)


def place_of(topic: TopicRow, partition: int) -> str:
    return f"{topic.directory}/{partition}"


def directory_of(topic: str, topic_id: str) -> str:
    """A topic that was deleted and made again has another one."""
    if len(topic) > _NAME_MAX:
        # A file's name may have 255 bytes.
        topic = f"{topic[: _NAME_MAX - 10]}~{crc32c(topic.encode()):08x}"
    return f"{topic}@{topic_id or '0'}"


def ends_of(moment: Moment) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, partition): row.offset_end
        for topic in moment.topics.values()
        for partition, row in enumerate(topic.partitions)
    }


def total(rows: Iterable[FileRow]) -> Counts:
    counts = Counts()
    for row in rows:
        counts += row.counts
    return counts


def _name(number: int) -> str:
    return f"{number:0{_NUMBER_DIGITS}d}.json"


def _write(directory: str, moment: Moment) -> int:
    """Its checksum. Complete with the rename, and on disk before it."""
    path = os.path.join(directory, MOMENTS, _name(moment.number))
    body = json.dumps(asdict(moment), separators=(",", ":")).encode()
    checksum = crc32c(body)
    content = f"{_OPENING} {FORMAT} {checksum}\n".encode() + body
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".tmp", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        sync_directory(os.path.dirname(path))
        sync_directory(directory)
    except OSError as error:
        raise BackupFault(f"{path} cannot be written: {error.strerror}") from error
    return checksum


def _read(path: str) -> tuple[Moment, int]:
    try:
        with open(path, "rb") as file:
            opening, _, body = file.read().partition(b"\n")
    except FileNotFoundError:
        raise Damaged(path, "is missing") from None
    except OSError as error:
        raise Damaged(path, f"cannot be read: {error.strerror}") from error
    words = opening.split(b" ")
    if len(words) != 3 or words[0] != _OPENING.encode() or not words[2].isdigit():
        raise Damaged(path, "does not begin as a moment of a backup does")
    if words[1] != str(FORMAT).encode():
        raise Damaged(path, f"has the format {words[1].decode(errors='replace')}, not {FORMAT}")
    checksum = crc32c(body)
    if checksum != int(words[2]):
        raise Damaged(path, "is not what was written: its checksum is wrong")
    return _moment(json.loads(body)), checksum


def _moment(node: dict[str, Any]) -> Moment:
    return Moment(
        **{
            **node,
            "topics": {name: _topic(row) for name, row in node["topics"].items()},
            "files": {
                place: tuple(
                    FileRow(row[0], row[1], row[2], Counts(*row[3]), row[4], row[5]) for row in rows
                )
                for place, rows in node["files"].items()
            },
            "groups": {
                group: tuple(GroupRow(*row) for row in rows)
                for group, rows in node["groups"].items()
            },
        }
    )


def _topic(node: dict[str, Any]) -> TopicRow:
    partitions = tuple(
        PartitionRow(
            row["offset_end"], row["log_start"], tuple(Closing(*each) for each in row["closings"])
        )
        for row in node["partitions"]
    )
    return TopicRow(node["name"], node["topic_id"], node["directory"], partitions, node["configs"])
