"""Reading with the client library's consumer in tests, a few records at a time."""

from __future__ import annotations

from typing import Any

from moldau import Consumer
from tests.support.eventually import eventually

COUNT = 300
"""Records in each of the partitions that the fixture `two` fills."""


def some(consumer: Consumer, count: int = 1) -> list[Any]:
    """The next records, at most so many, all of one poll."""
    records: list[Any] = []

    def poll() -> bool:
        records.extend(consumer.poll(1.0, max_records=count))
        return bool(records)

    eventually(poll)
    return records


def offsets(consumer: Consumer, count: int) -> list[int]:
    """The offsets of the next so many records."""
    found: list[int] = []

    def poll() -> bool:
        found.extend(record.offset for record in consumer.poll(1.0))
        return len(found) >= count

    eventually(poll)
    return found


def has_fetched_ahead(consumer: Consumer) -> bool:
    return bool(consumer._client._engine.fetcher.ready)
