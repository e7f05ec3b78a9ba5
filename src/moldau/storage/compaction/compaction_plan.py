"""What to compact, decided from plain numbers: which offsets, which log first, which segments
become one.

The rules are Apache Kafka's. The clean part of a log ends where the last compaction stopped; the
dirty part behind it may be compacted up to the first segment that is being written, not yet stable,
or too young. Always whole segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

RELATIVE_OFFSET_MAX = 0x7FFFFFFF


class PlannedSegment(Protocol):
    @property
    def base_offset(self) -> int: ...
    @property
    def offset_end(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


class TimedSegment(PlannedSegment, Protocol):
    def latest_record_timestamp(self) -> int: ...
    def read_first_timestamp(self) -> int: ...


class Lags(NamedTuple):
    """A topic's rules on when a record may be, and must be, compacted."""

    min_ms: int
    max_ms: int
    dirty_ratio_min: float


class Dirt(NamedTuple):
    """What compaction would find in one log."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool
    """A record has waited for longer than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, lags: Lags) -> bool:
        if self.is_overdue and self.cleanable_bytes > 0:
            return True
        return self.ratio > lags.dirty_ratio_min


def measure_dirt(
    segments: Sequence[TimedSegment],
    *,
    cleaned_end: int,
    log_start_offset: int,
    last_stable_offset: int,
    lags: Lags,
    now_ms: int,
) -> Dirt:
    """The last of `segments` is the one being written. `cleaned_end` is where the last compaction
    stopped; one that lies outside of the log counts for nothing."""
    closed, active = segments[:-1], segments[-1]
    first_dirty = cleaned_end
    if not log_start_offset <= cleaned_end <= active.offset_end:
        first_dirty = log_start_offset
    dirty = [segment for segment in closed if segment.offset_end > first_dirty]
    limit = min(last_stable_offset, active.base_offset)
    if lags.min_ms > 0:
        limit = min(limit, _first_younger_than(dirty, now_ms - lags.min_ms, limit))
    limit = max(limit, first_dirty)
    cleanable = [segment for segment in dirty if segment.offset_end <= limit]
    first_uncleanable = max(cleanable[-1].offset_end if cleanable else first_dirty, first_dirty)
    return Dirt(
        first_dirty,
        first_uncleanable,
        sum(each.size_bytes for each in closed if each.base_offset < first_dirty),
        sum(each.size_bytes for each in cleanable),
        _has_older_than(dirty, now_ms - lags.max_ms),
    )


def _first_younger_than(segments: Sequence[TimedSegment], oldest_ms: int, none: int) -> int:
    for segment in segments:
        if segment.latest_record_timestamp() > oldest_ms:
            return segment.base_offset
    return none


def _has_older_than(segments: Sequence[TimedSegment], oldest_ms: int) -> bool:
    return oldest_ms > 0 and any(
        0 < segment.read_first_timestamp() < oldest_ms for segment in segments
    )


class SourceSegment(NamedTuple):
    """A closed segment as compaction sees it: names and numbers, so that a thread may have it."""

    path: str
    base_offset: int
    offset_end: int
    """Where the next segment starts."""
    size_bytes: int
    index_bytes: int
    time_index_bytes: int


def group_segments(
    segments: Sequence[SourceSegment], *, segment_bytes: int, index_bytes: int
) -> list[list[SourceSegment]]:
    """Neighbours that together are no larger than one segment may be become one. Their offsets must
    be within 32 bits of the first's; an empty one needs no index and so joins any group."""
    groups: list[list[SourceSegment]] = []
    sizes = (0, 0, 0)
    for segment in segments:
        grown = (
            sizes[0] + segment.size_bytes,
            sizes[1] + segment.index_bytes,
            sizes[2] + segment.time_index_bytes,
        )
        fits = (
            groups
            and grown[0] <= segment_bytes
            and max(grown[1:]) <= index_bytes
            and (
                not segment.size_bytes
                or segment.offset_end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if fits:
            groups[-1].append(segment)
            sizes = grown
        else:
            groups.append([segment])
            sizes = (segment.size_bytes, segment.index_bytes, segment.time_index_bytes)
    return groups
