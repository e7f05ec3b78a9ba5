"""New records as they arrive, at a pace that a page can take.

Nothing is queued: whoever takes the news slowly finds more of them next time, and what is too
much for one step is left out and said.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from moldau.client.consumer.partition_fetch import OutOfRangeError
from moldau.console.records.batch_search import Query, search_chunk
from moldau.console.records.paging import EMPTY_READS_MAX, Place, Range
from moldau.console.records.record_reading import Seen
from moldau.console.records.topic_reading import TopicReading

STEP_SECONDS = 0.5
STEP_RECORDS_MAX = 100
STEP_OFFSETS_MAX = 20_000
"""Of one partition that one step looks through; with a filter far more than it shows."""
STEP_BYTES_MAX = 4 << 20
TAIL_SECONDS_MAX = 30 * 60


class Step(NamedTuple):
    found: list[Seen]
    skipped: int
    """Offsets that were passed over because more came than can be shown."""
    place: Place


async def follow(
    reading: TopicReading, partitions: list[int], query: Query, *, is_filtered: bool
) -> AsyncIterator[Step]:
    """From the ends of now on; a step without news is a sign of life."""
    bounds = await reading.bounds(partitions)
    place = {p: limits.end for p, limits in bounds.items()}
    ends_at = time.monotonic() + TAIL_SECONDS_MAX
    yield Step([], 0, place)
    while time.monotonic() < ends_at:
        await asyncio.sleep(STEP_SECONDS)
        bounds = await reading.bounds(partitions)
        found: list[Seen] = []
        skipped = 0
        for partition, limits in bounds.items():
            # A topic that was made anew begins at 0 again.
            place[partition] = min(place[partition], limits.end)
            some, passed = await _news(reading, partition, place, limits, query, is_filtered)
            found += some
            skipped += passed
        found.sort(key=lambda each: each.record.timestamp)
        left_out = found[:-STEP_RECORDS_MAX]
        yield Step(found[-STEP_RECORDS_MAX:], skipped + len(left_out), dict(place))


async def _news(
    reading: TopicReading,
    partition: int,
    place: Place,
    limits: Range,
    query: Query,
    is_filtered: bool,
) -> tuple[list[Seen], int]:
    offsets_max = STEP_OFFSETS_MAX if is_filtered else STEP_RECORDS_MAX
    first = max(place[partition], limits.start, limits.end - offsets_max)
    skipped = first - place[partition]
    reader = reading.reader(partition)
    found: list[Seen] = []
    offset, bytes_left, empty_reads = first, STEP_BYTES_MAX, 0
    while offset < limits.end and bytes_left > 0 and empty_reads < EMPTY_READS_MAX:
        try:
            chunk = await reader.read(offset)
        except OutOfRangeError:
            skipped += limits.end - offset
            offset = limits.end
            break
        empty_reads = 0 if chunk.next_offset > offset else empty_reads + 1
        bytes_left -= chunk.size_bytes
        searched = await asyncio.to_thread(search_chunk, chunk, query, limits.end, offsets_max)
        found += searched.found
        offset = max(searched.next_offset, offset)
    place[partition] = offset
    return found, skipped
