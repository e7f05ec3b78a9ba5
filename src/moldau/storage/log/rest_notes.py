"""Logs at rest: after a clean stop a log is opened from a note about it, and loaded on first use.

The notes of a directory are one file, written by a clean stop. A note holds what the broker must
know of a log that nobody uses, and a stamp by which the next start sees that its files are still
the same: any change of a name in the partition's directory, or in the segment being written, makes
the stamp void, and the log is loaded at once. So a crash costs only the logs that were in use.
Apache Kafka takes no notice of the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from moldau.model.names import Millis, Offset, TopicId, TopicPartition
from moldau.records.batch import NO_TIMESTAMP
from moldau.storage.log.log_retention import FOREVER
from moldau.storage.log_files import LOG_SUFFIX, offset_file_name, read_whole, write_whole
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.checkpoint_files import decode_checkpoint, encode_checkpoint
from moldau.storage.log_state.leader_epoch_history import EpochStart
from moldau.storage.storage_faults import CorruptFile

if TYPE_CHECKING:
    from moldau.storage.log.partition_log import PartitionLog

REST_FILE = "moldau.rest"


class Stamp(NamedTuple):
    """When names in the directory last changed, and size and last change of its last segment."""

    directory_ns: int
    log_bytes: int
    log_ns: int


class RestNote(NamedTuple):
    topic_id: TopicId
    segment_count: int
    base_offset: Offset
    active_base_offset: Offset
    """Of the segment being written."""
    offset_end: Offset
    size_bytes: int
    oldest_ms: Millis
    """The latest timestamp in the first segment, by which retention goes."""
    epoch: EpochStart
    """The last one."""
    stamp: Stamp


class AtRest(NamedTuple):
    """What a log is opened with instead of its files."""

    note: RestNote
    log_start_offset: Offset

    def may_lose_segments(
        self, now_ms: Millis, log_start_offset: Offset, settings: LogSettings
    ) -> bool:
        """Whether retention has to look at the log; True rather than False where in doubt."""
        note = self.note
        if not note.size_bytes and note.segment_count == 1:
            return False
        if log_start_offset > note.base_offset and note.segment_count > 1:
            return True
        if "delete" not in settings.cleanup_policy:
            return False
        if settings.retention_bytes != FOREVER and note.size_bytes > settings.retention_bytes:
            return True
        is_old = note.oldest_ms < now_ms - settings.retention_ms
        return settings.retention_ms != FOREVER and is_old


def note_of(partition_log: PartitionLog) -> RestNote | None:
    """For a log that was closed; None if the next start had better load it."""
    if partition_log.fault is not None or partition_log.producers.has_transactions:
        return None
    segments = partition_log.segments
    active = segments.active.base_offset
    try:
        oldest_ms = next(iter(segments)).latest_timestamp() if segments.size_bytes else NO_TIMESTAMP
        stamp = read_stamp(partition_log.directory, active)
    except OSError:
        return None
    return RestNote(
        partition_log.topic_id,
        len(segments),
        segments.base_offset,
        active,
        partition_log.offset_end,
        segments.size_bytes,
        oldest_ms,
        partition_log.last_epoch_start,
        stamp,
    )


def read_stamp(directory: str, active_base_offset: Offset) -> Stamp:
    """Raises OSError."""
    segment = os.stat(f"{directory}/{offset_file_name(active_base_offset, LOG_SUFFIX)}")
    return Stamp(os.stat(directory).st_mtime_ns, segment.st_size, segment.st_mtime_ns)


def is_untouched(directory: str, note: RestNote) -> bool:
    try:
        return read_stamp(directory, note.active_base_offset) == note.stamp
    except OSError:
        return False


def write_notes(parent: str, notes: Mapping[TopicPartition, RestNote]) -> None:
    rows = (
        f"{topic} {partition} {note.topic_id.hex()} {' '.join(map(str, note[1:7]))} "
        f"{' '.join(map(str, note.epoch))} {' '.join(map(str, note.stamp))}"
        for (topic, partition), note in notes.items()
    )
    write_whole(os.path.join(parent, REST_FILE), encode_checkpoint(rows))


def read_notes(parent: str) -> dict[TopicPartition, RestNote]:
    """Empty if there are none, or none that can be read: then every log is loaded."""
    path = os.path.join(parent, REST_FILE)
    notes = {}
    try:
        for row in decode_checkpoint(read_whole(path) or b"", path):
            topic, partition, topic_id, *texts = row.split(" ")
            count, base, active, end, size, oldest, *rest = map(int, texts)
            notes[TopicPartition(topic, int(partition))] = RestNote(
                bytes.fromhex(topic_id),
                count,
                base,
                active,
                end,
                size,
                oldest,
                EpochStart(*rest[:2]),
                Stamp(*rest[2:]),
            )
    except (CorruptFile, ValueError, TypeError):
        return {}
    return notes
