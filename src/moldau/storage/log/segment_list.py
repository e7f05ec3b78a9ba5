"""All segments of a log in the order of their offsets; the last one is being written.

Of the closed ones only the few that were read last hold a descriptor and maps. `OpenSegments`
bounds what the logs of a broker hold open together.
"""

from __future__ import annotations

import contextlib
import logging
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator

from moldau.storage.log.segment import Segment, Span
from moldau.storage.log.segment_file import TornTail
from moldau.storage.log.transaction_index import AbortedTransaction
from moldau.storage.log_files import LOG_SUFFIX, SEGMENT_SUFFIXES, offset_file_name, remove_if_there
from moldau.storage.log_settings import LogSettings
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LocalLog")

WARM_SEGMENTS_MAX = 4
"""Closed segments that stay open for the next reader, for each log."""


class OpenSegments:
    """The segments of all logs that hold files open, at most `most`: beyond that the ones opened
    first are cooled. Nobody may go on with a descriptor's number across the opening of another
    segment; whoever has to keeps the `SegmentFile`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._opened: deque[Segment] = deque()

    def add(self, segment: Segment) -> None:
        self._opened.append(segment)
        if len(self._opened) > self._most:
            first = self._opened.popleft()
            if first is not segment:
                first.cool()


class Segments:
    __slots__ = ("_list", "_warm", "active", "opened")

    def __init__(
        self, segments: list[Segment], opened: Callable[[Segment], None] | None = None
    ) -> None:
        """`opened(segment)` hears of each whose files have been opened, and may cool others."""
        self._list = segments
        self._warm: list[Segment] = []
        self.active = segments[-1]
        self.opened = opened
        for segment in segments:
            segment.report_to(opened)

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def as_list(self) -> list[Segment]:
        """A copy: it stays as it is while segments come and go."""
        return list(self._list)

    @property
    def base_offset(self) -> int:
        return self._list[0].base_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._list)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` and all after it."""
        index = bisect_right(self._list, offset, key=_base_offset) - 1
        return self._list[max(index, 0) :]

    def add(self, segment: Segment) -> None:
        """Go on in `segment`; the one written so far is closed."""
        closed = self.active
        segment.report_to(self.opened)
        self._list.append(segment)
        self.active = segment
        closed.close_at(segment.base_offset)
        self._keep_warm(closed)

    def remove_first(self, count: int) -> list[Segment]:
        assert count < len(self._list), "the segment being written must stay"
        removed = self._list[:count]
        del self._list[:count]
        self._warm = [segment for segment in self._warm if segment not in removed]
        return removed

    def remove_after(self, offset: int) -> list[Segment]:
        """Take out the segments that start after `offset`; the last one left is written next."""
        index = max(1, bisect_right(self._list, offset, key=_base_offset))
        removed = self._list[index:]
        del self._list[index:]
        self._warm = [segment for segment in self._warm if segment in self._list]
        self.active = self._list[-1]
        if self.active in self._warm:
            self._warm.remove(self.active)
        return removed

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Let `new` take the place of the closed segments `old`, which are neighbours."""
        first = self._list.index(old[0])
        assert self._list[first : first + len(old)] == old, "the segments are not neighbours"
        assert old[-1] is not self.active, "the segment being written must stay"
        new.report_to(self.opened)
        self._list[first : first + len(old)] = [new]
        self._warm = [segment for segment in self._warm if segment not in old]

    def span(
        self, offset: int, max_bytes: int, offset_limit: int, min_one_batch: bool
    ) -> tuple[Segment, Span] | None:
        """As `Segment.span`, in the first segment that has a batch ending after `offset`:
        compaction may have emptied the one that `offset` belongs to."""
        for segment in self.from_offset(offset):
            start = max(offset, segment.base_offset)
            span = segment.span(start, max_bytes, offset_limit, min_one_batch)
            if span is not None:
                if segment is not self.active:
                    self._keep_warm(segment)
                return segment, span
            if segment.locate(start) is not None:
                # There is a batch, it just does not fit.
                return None
        return None

    def aborted_transactions(self, offset_start: int, offset_end: int) -> list[AbortedTransaction]:
        """Those that touch the range, by first offset. A transaction is indexed where its marker
        is, which may be segments later."""
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(offset_start):
            aborted, complete = segment.txn_index.overlapping(offset_start, offset_end)
            found += aborted
            if complete:
                break
        return sorted(found, key=lambda transaction: transaction.first_offset)

    def cool(self) -> None:
        for segment in self._list:
            segment.cool()
        self._warm.clear()

    def _keep_warm(self, segment: Segment) -> None:
        if segment in self._warm:
            return
        self._warm.append(segment)
        if len(self._warm) > WARM_SEGMENTS_MAX:
            self._warm.pop(0).cool()


def create_segment(directory: str, base_offset: int, settings: LogSettings, now_ms: int) -> Segment:
    """All of its files or none: one left behind would soon lie in the middle of other batches."""
    path = os.path.join(directory, offset_file_name(base_offset, LOG_SUFFIX))
    with contextlib.suppress(OSError):
        if size_bytes := os.stat(path).st_size:
            log.warning(
                "Newly rolled segment file %s already exists; deleting its %d bytes first",
                path,
                size_bytes,
            )
    try:
        return Segment(directory, base_offset, settings, now_ms, create=True)
    except StorageFault:
        for suffix in SEGMENT_SUFFIXES:
            path = os.path.join(directory, offset_file_name(base_offset, suffix))
            try:
                if os.path.isfile(path):
                    remove_if_there(path)
            except StorageFault as fault:
                raise TornTail(fault.doing, path, fault.errno) from fault
        raise


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
