"""Pages of records over several partitions, forwards and backwards from any place.

A place is an offset in each partition. A page covers in each partition the offsets from `low` to
`high` without a gap, so the page before it ends at `low` and the one after it begins at `high`,
whatever compaction or transactions have left out between. Partitions are merged by time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from moldau.client.consumer.partition_fetch import OutOfRangeError
from moldau.client.shared.client_errors import AuthorizationError, KafkaError
from moldau.console.records.record_reading import COMMITTED, Chunk, Seen, records_of
from moldau.model.names import TopicPartition

PAGE_BYTES_MAX = 8 << 20
"""What one page reads of one partition, give or take a fetch."""
PARTITIONS_AT_ONCE = 8
EMPTY_READS_MAX = 5
WINDOW_OFFSETS_MIN = 64
WINDOW_GROWTH = 4

Place = dict[int, int]
"""An offset for each partition."""


class Reader(Protocol):
    @property
    def tp(self) -> TopicPartition: ...

    async def read(self, offset: int) -> Chunk: ...

    async def start(self) -> int:
        """The first offset of the log."""


class Range(NamedTuple):
    """Offsets from `start` on, up to and without `end`."""

    start: int
    end: int


class Stretch(NamedTuple):
    """Records of one partition in order, and which offsets were looked at for them."""

    rows: list[Seen]
    low: int
    high: int


@dataclass
class Page:
    rows: list[Seen] = field(default_factory=list)
    """The oldest first."""
    low: Place = field(default_factory=dict)
    high: Place = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What is not on the page although it might be, one sentence each."""


class _Walk:
    """One partition's part of one page: counts what it reads."""

    def __init__(self, reader: Reader, bounds: Range, *, is_committed: bool) -> None:
        self._reader = reader
        self._bounds = bounds
        self._is_committed = is_committed
        self.bytes_left = PAGE_BYTES_MAX

    async def forward(self, at: int, count: int) -> Stretch:
        rows: list[Seen] = []
        offset, empty_reads = at, 0
        while offset < self._bounds.end and len(rows) < count and self.bytes_left > 0:
            chunk = await self._read(offset)
            empty_reads = 0 if chunk.next_offset > offset else empty_reads + 1
            if empty_reads >= EMPTY_READS_MAX:
                break
            rows += self._rows(chunk, self._bounds.end)
            offset = min(chunk.next_offset, self._bounds.end)
        if len(rows) > count:
            return Stretch(rows[:count], at, rows[count].record.offset)
        return Stretch(rows, at, offset)

    async def backward(self, at: int, count: int) -> Stretch:
        """Reads windows before `at`, wider ones as long as they hold too little."""
        rows: list[Seen] = []
        low, window = at, max(count, WINDOW_OFFSETS_MIN)
        while low > self._bounds.start and len(rows) < count:
            if self.bytes_left <= 0 and low < at:
                break
            first = max(self._bounds.start, low - window)
            found = await self._window(first, low, is_whole=low == at and window == 1)
            if found is None and low < at:
                break
            if found is None:
                window = max(window // WINDOW_GROWTH**2, 1)
                continue
            rows = found.rows + rows
            low = found.low
            window *= WINDOW_GROWTH
        if len(rows) > count:
            rows = rows[-count:]
            low = rows[0].record.offset
        return Stretch(rows, low, at)

    async def _window(self, first: int, end: int, *, is_whole: bool) -> Stretch | None:
        """All from `first` to `end`, and what else the first batch has; None if that is more
        than may be read, unless the page would stay empty."""
        rows: list[Seen] = []
        low, offset, empty_reads = first, first, 0
        while offset < end:
            if self.bytes_left <= 0 and not is_whole:
                self.bytes_left = PAGE_BYTES_MAX // WINDOW_GROWTH
                return None
            chunk = await self._read(offset)
            if offset == first and chunk.batches:
                low = max(self._bounds.start, min(first, chunk.batches[0][0][2]))
                chunk = chunk._replace(offset=low)
            empty_reads = 0 if chunk.next_offset > offset else empty_reads + 1
            if empty_reads >= EMPTY_READS_MAX:
                break
            rows += self._rows(chunk, end)
            offset = chunk.next_offset
        return Stretch(rows, low, end)

    async def _read(self, offset: int) -> Chunk:
        chunk = await self._reader.read(offset)
        self.bytes_left -= chunk.size_bytes
        return chunk

    def _rows(self, chunk: Chunk, end: int) -> list[Seen]:
        return [
            Seen(record, mark)
            for batch, mark in chunk.batches
            if batch[2] < end and (mark == COMMITTED or not self._is_committed)
            for record in records_of(chunk, batch)
            if record.offset < end
        ]


async def read_page(
    readers: Mapping[int, Reader],
    bounds: Mapping[int, Range],
    at: Mapping[int, int],
    count: int,
    *,
    is_forward: bool,
    is_committed: bool,
) -> Page:
    """At most `count` records from the place on, or before it. What cannot be read is noted."""
    page = Page()
    found: dict[int, Stretch] = {}
    gate = asyncio.Semaphore(PARTITIONS_AT_ONCE)

    async def look(partition: int) -> None:
        limits = bounds[partition]
        walk = _Walk(readers[partition], limits, is_committed=is_committed)
        place = min(max(at[partition], limits.start), limits.end)
        page.low[partition] = page.high[partition] = place
        async with gate:
            try:
                step = walk.forward if is_forward else walk.backward
                found[partition] = await step(place, count)
            except OutOfRangeError:
                page.notes.append(
                    f"Partition {partition} was cut while it was read: load the page again"
                )
            except AuthorizationError:
                # Of the topic, so there is no page at all.
                raise
            except KafkaError as fault:
                page.notes.append(f"Partition {partition} could not be read: {fault.message}")

    await asyncio.gather(*map(look, sorted(at)))
    (_merge_forward if is_forward else _merge_backward)(page, found, bounds, count)
    return page


def _merge_forward(
    page: Page, found: Mapping[int, Stretch], bounds: Mapping[int, Range], count: int
) -> None:
    taken = dict.fromkeys(found, 0)
    while len(page.rows) < count:
        heads = [
            (part.rows[taken[p]].record.timestamp, p)
            for p, part in found.items()
            if taken[p] < len(part.rows)
        ]
        if not heads or _is_cut_off(found, bounds, taken, is_forward=True):
            break
        _, partition = min(heads)
        page.rows.append(found[partition].rows[taken[partition]])
        taken[partition] += 1
    for partition, part in found.items():
        left = part.rows[taken[partition] :]
        page.high[partition] = left[0].record.offset if left else part.high
    _note_unread(page, found, bounds, taken, is_forward=True)


def _merge_backward(
    page: Page, found: Mapping[int, Stretch], bounds: Mapping[int, Range], count: int
) -> None:
    taken = dict.fromkeys(found, 0)
    while len(page.rows) < count:
        heads = [
            (part.rows[-1 - taken[p]].record.timestamp, p)
            for p, part in found.items()
            if taken[p] < len(part.rows)
        ]
        if not heads or _is_cut_off(found, bounds, taken, is_forward=False):
            break
        _, partition = max(heads)
        page.rows.append(found[partition].rows[-1 - taken[partition]])
        taken[partition] += 1
    page.rows.reverse()
    for partition, part in found.items():
        left = part.rows[: len(part.rows) - taken[partition]]
        page.low[partition] = left[-1].record.offset + 1 if left else part.low
    _note_unread(page, found, bounds, taken, is_forward=False)


def _is_cut_off(
    found: Mapping[int, Stretch],
    bounds: Mapping[int, Range],
    taken: Mapping[int, int],
    *,
    is_forward: bool,
) -> bool:
    """Whether a partition was not read far enough to know whose turn it is."""
    return any(
        taken[p] and taken[p] == len(part.rows) and not _is_done(part, bounds[p], is_forward)
        for p, part in found.items()
    )


def _is_done(part: Stretch, limits: Range, is_forward: bool) -> bool:
    return part.high >= limits.end if is_forward else part.low <= limits.start


def _note_unread(
    page: Page,
    found: Mapping[int, Stretch],
    bounds: Mapping[int, Range],
    taken: Mapping[int, int],
    *,
    is_forward: bool,
) -> None:
    for partition, part in found.items():
        if not part.rows and not _is_done(part, bounds[partition], is_forward):
            page.notes.append(
                f"Partition {partition} has no record to show from offset {part.low} up to"
                f" {part.high}, and was not read further for this page: go on to the next one"
            )
