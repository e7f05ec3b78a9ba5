"""A search over partitions of a topic: where it stands, what it has looked at, what it found.

It goes through fixed ranges of offsets, partition by partition, with one fetch ahead. Where it
stands is plain data that survives as text in a link, so that any search can be stopped at any
time and gone on with later. Whatever it could not look at is said.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from moldau.client.consumer.partition_fetch import OutOfRangeError
from moldau.client.shared.client_errors import KafkaError
from moldau.console.records.batch_search import Query, Searched, search_chunk
from moldau.console.records.paging import Range, Reader
from moldau.console.records.record_reading import Chunk, Seen

STALL_SECONDS_MAX = 10.0
STALL_PAUSE_SECONDS = 0.1
STANDING_CHARACTERS_MAX = 60_000


class StandingError(ValueError):
    """The text is no standing of a search."""


@dataclass(frozen=True)
class Standing:
    """What is left to be searched, and what was done so far."""

    left: Mapping[int, Range]
    """Of each partition; those that are done have an empty range."""
    offsets_total: int
    records: int = 0
    bytes_read: int = 0
    found: int = 0

    @classmethod
    def at_start(cls, ranges: Mapping[int, Range]) -> Standing:
        total = sum(max(each.end - each.start, 0) for each in ranges.values())
        return cls(dict(ranges), total)

    @property
    def offsets_left(self) -> int:
        return sum(max(each.end - each.start, 0) for each in self.left.values())

    @property
    def offsets_done(self) -> int:
        return self.offsets_total - self.offsets_left

    @property
    def is_done(self) -> bool:
        return self.offsets_left == 0

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.offsets_done / self.offsets_total if self.offsets_total else 1.0

    def text(self) -> str:
        """For a link; `from_text` reads it."""
        numbers = (self.offsets_total, self.records, self.bytes_read, self.found)
        ranges = (f"{p}-{each.start}-{each.end}" for p, each in sorted(self.left.items()))
        return ".".join([*map(str, numbers), *ranges])

    @classmethod
    def from_text(cls, text: str) -> Standing:
        """StandingError if it is none."""
        try:
            if len(text) > STANDING_CHARACTERS_MAX or not text.isascii():
                raise ValueError
            total, records, bytes_read, found, *ranges = text.split(".")
            left = {}
            for each in ranges:
                partition, start, end = map(int, each.split("-"))
                left[partition] = Range(start, end)
            standing = cls(left, int(total), int(records), int(bytes_read), int(found))
        except ValueError:
            raise StandingError("This is no place in a search: begin the search anew") from None
        if not 0 <= standing.offsets_left <= standing.offsets_total:
            raise StandingError("This is no place in a search: begin the search anew")
        return standing


class News(NamedTuple):
    """One step of a search."""

    standing: Standing
    found: list[Seen]
    notes: list[str]
    """What was not searched, and why."""


class Limits(NamedTuple):
    found: int
    """How many matches are enough."""
    seconds: float = float("inf")


@dataclass
class TopicSearch:
    reader_of: Callable[[int], Reader]
    query: Query
    limits: Limits
    standing: Standing
    _until: float = field(default=0.0, init=False)

    async def run(self) -> AsyncIterator[News]:
        """News after every fetch, until all is searched or a limit is reached."""
        self._until = time.monotonic() + self.limits.seconds
        for partition in sorted(self.standing.left):
            try:
                async for news in self._partition(partition):
                    yield news
            except KafkaError as fault:
                # The range stays, so that going on tries it again.
                note = f"Partition {partition} could not be searched further: {fault.message}"
                yield News(self.standing, [], [note])
            if self.is_at_limit:
                return

    @property
    def is_at_limit(self) -> bool:
        return self.standing.found >= self.limits.found or time.monotonic() >= self._until

    async def _partition(self, partition: int) -> AsyncIterator[News]:
        reader = self.reader_of(partition)
        start, end = self.standing.left[partition]
        stalled_at = time.monotonic() + STALL_SECONDS_MAX
        ahead: asyncio.Task[Chunk] | None = None
        try:
            while start < end and not self.is_at_limit:
                task, ahead = ahead or asyncio.create_task(reader.read(start)), None
                try:
                    chunk = await task
                except OutOfRangeError:
                    first = await reader.start()
                    to = min(first, end) if first > start else end
                    yield self._moved(partition, to, "are not in the log any more")
                    start = to
                    continue
                except asyncio.CancelledError:
                    task.cancel()
                    raise
                if chunk.next_offset <= start:
                    if time.monotonic() > stalled_at:
                        yield self._moved(partition, end, "were not given by the broker in time")
                        return
                    await asyncio.sleep(STALL_PAUSE_SECONDS)
                    continue
                stalled_at = time.monotonic() + STALL_SECONDS_MAX
                if chunk.next_offset < end:
                    ahead = asyncio.create_task(reader.read(chunk.next_offset))
                wanted = self.limits.found - self.standing.found
                searched = await asyncio.to_thread(search_chunk, chunk, self.query, end, wanted)
                start = searched.next_offset
                yield self._after(partition, chunk, searched)
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.wait((ahead,))

    def _after(self, partition: int, chunk: Chunk, searched: Searched) -> News:
        standing = self.standing
        left = {**standing.left}
        left[partition] = Range(searched.next_offset, left[partition].end)
        self.standing = replace(
            standing,
            left=left,
            records=standing.records + searched.records,
            bytes_read=standing.bytes_read + chunk.size_bytes,
            found=standing.found + len(searched.found),
        )
        notes = [f"Not searched: {each}" for each in searched.damaged]
        return News(self.standing, searched.found, notes)

    def _moved(self, partition: int, to: int, why: str) -> News:
        """What is left of a partition cannot be had."""
        left = {**self.standing.left}
        start = left[partition].start
        left[partition] = Range(to, left[partition].end)
        self.standing = replace(self.standing, left=left)
        note = f"Not searched: offsets {start} to {to - 1} of partition {partition} {why}"
        return News(self.standing, [], [note])
