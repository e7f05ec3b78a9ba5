"""Which old segments may go: by age, by the size of the log, by the log start offset.

Only whole segments from the oldest on, and only what lies below the high watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

FOREVER = -1


class RetainedSegment(Protocol):
    @property
    def base_offset(self) -> int: ...
    @property
    def offset_end(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def latest_timestamp(self) -> int: ...


class Expired(NamedTuple):
    """The first `segment_count` segments may go, for this reason."""

    segment_count: int
    reason: str


def expired(
    segments: Sequence[RetainedSegment],
    *,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
    retention_ms: int,
    retention_bytes: int,
    deletes: bool,
) -> Expired:
    """The last of `segments` is the one being written: it may go too (its log then goes on with an
    empty one) unless it is empty. `deletes` is False for a log that is only compacted: there
    nothing goes but what lies before the log start offset."""
    removable = _removable(segments, high_watermark)
    outcomes = [Expired(_before_start(segments, log_start_offset, removable), "log start offset")]
    if deletes and retention_bytes != FOREVER:
        count = _over_size(segments, retention_bytes, removable)
        outcomes.append(Expired(count, f"retention size {retention_bytes} bytes"))
    if deletes and retention_ms != FOREVER:
        count = _too_old(segments, now_ms - retention_ms, removable)
        outcomes.append(Expired(count, f"retention time {retention_ms} ms"))
    return max(outcomes, key=lambda outcome: outcome.segment_count)


def _removable(segments: Sequence[RetainedSegment], high_watermark: int) -> int:
    count = 0
    for segment in segments:
        if segment.offset_end > high_watermark:
            break
        count += 1
    if count == len(segments) and count and not segments[-1].size_bytes:
        count -= 1
    return count


def _before_start(
    segments: Sequence[RetainedSegment], log_start_offset: int, removable: int
) -> int:
    count = 0
    while count < removable and count + 1 < len(segments):
        if segments[count + 1].base_offset > log_start_offset:
            break
        count += 1
    return count


def _over_size(segments: Sequence[RetainedSegment], retention_bytes: int, removable: int) -> int:
    excess = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    while count < removable and excess >= segments[count].size_bytes:
        excess -= segments[count].size_bytes
        count += 1
    return count


def _too_old(segments: Sequence[RetainedSegment], oldest_ms: int, removable: int) -> int:
    count = 0
    while count < removable and segments[count].latest_timestamp() < oldest_ms:
        count += 1
    return count
