"""What a log was at a moment: names and numbers, taken on the loop between two steps.

Nothing is copied, here or later. Closed segments never change, so their names and sizes say all of
them; the segment that is being written is closed too: its indexes are completed, and whatever is
appended next goes to a new one. An empty one goes on, so it must never be linked. Of a log at rest
its note says enough.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.model.names import Offset, TopicId, TopicPartition
from moldau.storage.log.log_at_rest import AnyLog, RestingLog
from moldau.storage.log_state.producer_snapshots import encode_snapshot


class CapturedSegment(NamedTuple):
    base_offset: Offset
    size_bytes: int


class CapturedLog(NamedTuple):
    topic_partition: TopicPartition
    topic_id: TopicId
    directory: str
    closed: tuple[CapturedSegment, ...] | None
    """None of a log at rest, which does not know: all that begin before its last."""
    closed_bytes: int
    last: CapturedSegment
    """The segment that was being written."""
    base_offset: Offset
    """Of the first segment."""
    log_start_offset: Offset
    offset_end: Offset
    recovery_point: Offset
    """What lies behind it may be in memory only."""
    high_watermark: Offset
    cleaned_end: Offset
    truncations: int
    """How often the log had been cut back."""
    producers: bytes | None
    """Their state at the end; None if a file beside the log has it."""

    @property
    def was_at_rest(self) -> bool:
        return self.closed is None

    @property
    def size_bytes(self) -> int:
        return self.closed_bytes + self.last.size_bytes


def capture(log: AnyLog, high_watermark: Offset) -> CapturedLog:
    """Raises StorageFault if the log cannot be used."""
    if log.fault is not None:
        raise log.fault.to_keep()
    producers = None
    if isinstance(log, RestingLog):
        note = log.rest.note
        closed = None
        last = CapturedSegment(note.active_base_offset, note.stamp.log_bytes)
    else:
        log.close_active()
        *before, last = (
            CapturedSegment(segment.base_offset, segment.size_bytes) for segment in log.segments
        )
        closed = tuple(before)
        if not log.has_producer_snapshot:
            producers = encode_snapshot(log.producers.entries)
    return CapturedLog(
        log.topic_partition,
        log.topic_id,
        log.directory,
        closed,
        log.size_bytes - last.size_bytes,
        last,
        log.base_offset,
        log.log_start_offset,
        log.offset_end,
        log.recovery_point,
        min(high_watermark, log.offset_end),
        log.cleaned_end,
        0 if isinstance(log, RestingLog) else log.truncations,
        producers,
    )
