"""Checkpoint files: a version line, a count line, one row a line.

The offset checkpoints of a log directory (rows `topic partition offset`) and the leader epochs of
a partition (rows `epoch offset`) share the form. A file that breaks it is reported, not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.model.names import TopicPartition
from moldau.storage.log_files import read_whole, write_whole
from moldau.storage.log_state.leader_epoch_history import EpochStart
from moldau.storage.storage_faults import CorruptFile

if TYPE_CHECKING:
    from moldau.storage.log.log_at_rest import AnyLog

VERSION = 0
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
CHECKPOINT_FILES = (RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE)


def encode_checkpoint(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in [str(VERSION), str(len(lines)), *lines]).encode()


def decode_checkpoint(content: bytes, path: str) -> list[str]:
    """The rows. An empty file, as a crash may leave it, has none; one that was torn is an error,
    also if only the last digits are missing."""
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise CorruptFile(path, "not a text file") from None
    if not content:
        return []
    if not content.endswith(b"\n") or len(lines) < 2:
        raise CorruptFile(path, "the last line is not complete")
    version, count, *rows = lines
    if version != str(VERSION):
        raise CorruptFile(path, f"version {version!r}, expected {VERSION}")
    if count != str(len(rows)):
        raise CorruptFile(path, f"{count!r} rows announced, found {len(rows)}")
    return rows


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    rows = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    write_whole(path, encode_checkpoint(rows))


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Empty if there is no such file."""
    offsets = {}
    for row in decode_checkpoint(read_whole(path) or b"", path):
        try:
            topic, partition, offset = row.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CorruptFile(path, f"malformed row {row!r}") from None
    return offsets


def rows_of(
    logs: Mapping[TopicPartition, AnyLog], high_watermarks: Mapping[TopicPartition, int]
) -> dict[str, dict[TopicPartition, int]]:
    """What the checkpoints of a directory with these logs are to say, by file name."""
    return {
        RECOVERY_POINT_FILE: {p: each.recovery_point for p, each in logs.items()},
        # Only where it is not the first segment's, which its file name says.
        LOG_START_FILE: {
            p: each.log_start_offset
            for p, each in logs.items()
            if each.log_start_offset > each.base_offset
        },
        HIGH_WATERMARK_FILE: {
            p: min(high_watermarks.get(p, 0), each.offset_end) for p, each in logs.items()
        },
    }


def encode_epochs(entries: Iterable[EpochStart]) -> bytes:
    return encode_checkpoint(f"{entry.epoch} {entry.offset_start}" for entry in entries)


def read_epochs(path: str) -> list[EpochStart]:
    entries = []
    for row in decode_checkpoint(read_whole(path) or b"", path):
        try:
            epoch, offset = row.split(" ")
            entries.append(EpochStart(int(epoch), int(offset)))
        except ValueError:
            raise CorruptFile(path, f"malformed row {row!r}") from None
    return entries
