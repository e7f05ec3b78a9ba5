"""One round of compaction in words: what it is to do, with how much memory, what it has done.

Plain numbers, copied from the log when the round began, so that a thread or another process can
have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.storage.compaction.compaction_filter import LastRecord
from moldau.storage.compaction.compaction_plan import SourceSegment, group_segments
from moldau.storage.log.transaction_index import AbortedTransaction


class Round(NamedTuple):
    """What one round is to do, as the loop saw the log when it began."""

    directory: str
    segments: Sequence[SourceSegment]
    """From the first of the log to the last that may be compacted."""
    first_dirty: int
    first_uncleanable: int
    aborted: Sequence[AbortedTransaction]
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int

    def groups(self, offset_end: int) -> list[list[SourceSegment]]:
        """The segments up to there, those that become one together."""
        return group_segments(
            [segment for segment in self.segments if segment.base_offset < offset_end],
            segment_bytes=self.segment_bytes,
            index_bytes=self.segment_index_bytes,
        )

    def pack(self) -> tuple[Any, ...]:
        """Without types of our own, for another process."""
        return tuple(
            self._replace(
                segments=[tuple(each) for each in self.segments],  # type: ignore[misc]
                aborted=[tuple(each) for each in self.aborted],  # type: ignore[misc]
                last_records={key: tuple(each) for key, each in self.last_records.items()},  # type: ignore[misc]
            )
        )

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> Round:
        what = cls(*packed)
        return what._replace(
            segments=[SourceSegment(*each) for each in what.segments],
            aborted=[AbortedTransaction(*each) for each in what.aborted],
            last_records={key: LastRecord(*each) for key, each in what.last_records.items()},
        )


class Limits(NamedTuple):
    """How much memory a round may use."""

    map_bytes: int
    map_load_factor: float
    buffer_bytes: int


class Refused(Exception):
    """This log cannot be compacted, now or later: the message says why."""


class Counts:
    """What a round has done, for the log line."""

    __slots__ = ("bytes_read", "bytes_written", "map_bytes_read", "records_read", "records_written")
    bytes_read: int
    bytes_written: int
    map_bytes_read: int
    records_read: int
    records_written: int

    def __init__(self, *values: int) -> None:
        for name, value in zip(self.__slots__, values or (0,) * len(self.__slots__), strict=True):
            setattr(self, name, value)

    def pack(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)
