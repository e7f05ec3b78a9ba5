"""Looks for records in what one fetch brought: whole batches are passed over unopened.

Pure. A batch is opened unless its newest record is too old or the bytes that a match must have
are not in it. Checksums are looked at in every batch that counts as searched; what is damaged is
said and not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from moldau.client.serialization.fetched_batches import body_of
from moldau.client.shared.client_errors import KafkaError
from moldau.console.records.byte_search import ByteSearch
from moldau.console.records.filter_matching import Clause, Matcher
from moldau.console.records.record_reading import COMMITTED, CONTROL, Chunk, Seen, rows_of
from moldau.records.batch import CODEC_MASK
from moldau.records.batch_kernel import BatchRow, intact_end

COUNT_PLACE = 57
"""Where a batch says how many records it has."""


class Query(NamedTuple):
    matcher: Matcher
    since_ms: int | None = None
    until_ms: int | None = None
    """Records from `since_ms` on and before `until_ms`."""
    is_committed: bool = True

    def is_in_time(self, timestamp: int) -> bool:
        if self.since_ms is not None and timestamp < self.since_ms:
            return False
        return self.until_ms is None or timestamp < self.until_ms


class Searched(NamedTuple):
    found: list[Seen]
    next_offset: int
    """Everything before it, from the chunk's offset on, was looked at."""
    records: int
    damaged: list[str]
    """What could not be looked at, one sentence each."""


def search_chunk(chunk: Chunk, query: Query, end: int, limit: int) -> Searched:
    """At most `limit` matches before the offset `end`, in order."""
    found: list[Seen] = []
    damaged: list[str] = []
    records = 0
    next_offset = min(chunk.next_offset, end)
    content = chunk.view
    intact = intact_end(content, content, 0, len(content))
    needles = _Needles(content, query.matcher.best_clauses)
    for batch, mark in chunk.batches:
        position, size, base_offset = batch[:3]
        if base_offset >= end:
            break
        if mark == CONTROL or (query.is_committed and mark != COMMITTED):
            continue
        is_suspect = position + size > intact
        if not is_suspect and not _may_match(batch, query, needles):
            records += _count(content, batch, chunk.offset, end)
            continue
        try:
            rows = _opened(chunk, batch, query, needles)
        except KafkaError as fault:
            damaged.append(fault.message)
            continue
        for record in rows:
            if record.offset >= end or not query.is_in_time(record.timestamp):
                continue
            if query.matcher.matches(record):
                found.append(Seen(record, mark))
                if len(found) == limit:
                    records += _count(content, batch, chunk.offset, record.offset + 1)
                    return Searched(found, record.offset + 1, records, damaged)
        records += _count(content, batch, chunk.offset, end)
    return Searched(found, next_offset, records, damaged)


def _count(content: memoryview, batch: BatchRow, start: int, end: int) -> int:
    """How many of a batch's records lie in the range; as many as fit in, where it is cut."""
    position, _, base_offset, last_offset = batch[:4]
    count = content[position + COUNT_PLACE : position + COUNT_PLACE + 4]
    room = min(last_offset + 1, end) - max(base_offset, start)
    return min(int.from_bytes(count, "big"), room)


def _may_match(batch: BatchRow, query: Query, needles: _Needles) -> bool:
    position, size, _, _, max_timestamp, _, _, attributes = batch
    if query.since_ms is not None and max_timestamp < query.since_ms:
        return False
    return bool(attributes & CODEC_MASK) or needles.are_in(position, position + size)


def _opened(chunk: Chunk, batch: BatchRow, query: Query, needles: _Needles) -> list[Any]:
    """The batch's records; none if a packed batch turns out to have nothing of what matters."""
    header, body = body_of(chunk.tp, chunk.view, batch, True)
    if batch[7] & CODEC_MASK and not needles.are_inside(body):
        return []
    return list(rows_of(chunk, header, body))


class _Needles:
    """Where the bytes of clauses occur; asked for places in rising order, each byte is looked at
    once for each text."""

    def __init__(self, content: memoryview, clauses: Sequence[Clause]) -> None:
        self._search = ByteSearch(content)
        self._clauses = [dict.fromkeys(clause, -1) for clause in clauses]
        """For each text, where it was found last."""

    def are_in(self, start: int, end: int) -> bool:
        """Whether of every clause one text begins between the two places."""
        return all(self._is_any_in(places, start, end) for places in self._clauses)

    def _is_any_in(self, places: dict[bytes, int], start: int, end: int) -> bool:
        for needle, place in places.items():
            if place < start:
                place = places[needle] = self._search.find(needle, start)
            if place < end:
                return True
        return False

    def are_inside(self, body: Any) -> bool:
        """The same of a body that was decompressed."""
        content = memoryview(body)
        search = ByteSearch(content)
        return all(
            any(search.find(needle, 0) < len(content) for needle in places)
            for places in self._clauses
        )
