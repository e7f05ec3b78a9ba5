"""The records that every client writes and every client must read back unchanged."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence

from tests.compat.clients.port import Client, Received, Record

MANY_RECORDS = 100_000
MANY_PARTITIONS = 4
MEGABYTE = 1024 * 1024
# An hour back: never in the future by the broker's clock, never near retention.
START_MS = int(time.time() * 1000) - 3_600_000


def varied_records(client: Client) -> list[Record]:
    """Every shape a record can have; only what the writing library itself refuses is left out."""
    shapes: list[Record] = [
        Record(b"key", b"value", (), START_MS),
        Record(None, b"no key", (), START_MS + 1),
        Record(b"tombstone", None, (), START_MS + 2),
        Record(b"", b"an empty key is not a missing one", (), START_MS + 3),
        Record(b"an empty value is no tombstone", b"", (), START_MS + 4),
        Record(b"headers", b"x", (("trace", b"\x00\xff"), ("empty", b"")), START_MS + 5),
        Record(b"one name twice", b"x", (("again", b"1"), ("again", b"2")), START_MS + 6),
        Record("ключ".encode(), "значение".encode(), (("имя", "да".encode()),), START_MS + 7),
        Record(bytes(range(256)), bytes(range(255, -1, -1)), (), START_MS + 8),
        Record(b"the same time as before", b"x", (), START_MS + 8),
        Record(b"earlier than before", b"x" * 5000, (), START_MS + 2),
    ]
    if client.writes_null_headers:
        shapes.append(Record(b"null header", b"x", (("null", None), ("z", b"1")), START_MS + 9))
    return shapes


def many_records() -> list[Record]:
    """MANY_RECORDS over MANY_PARTITIONS, no two alike, the same in every run of a session."""
    chance = random.Random(7)
    filler = chance.randbytes(400)
    records = []
    for index in range(MANY_RECORDS):
        key = None if index % 3 == 0 else b"key-%d" % (index % 1000)
        start = index % 200
        value: bytes | None = b"%d:" % index + filler[start : start + index % 97]
        if key is not None and index % 61 == 1:
            value = None
        headers = (("index", b"%d" % index),) if index % 5 == 0 else ()
        partition = index % MANY_PARTITIONS
        records.append(Record(key, value, headers, START_MS + index, partition))
    return records


def counts(records: Sequence[Record]) -> dict[int, int]:
    """How many records each partition gets."""
    return dict(Counter(record.partition for record in records))


def expected(records: Sequence[Record]) -> dict[int, list[Received]]:
    """What a reader must see in each partition of a topic that was empty: offsets from 0 on."""
    rows: dict[int, list[Received]] = {}
    for record in records:
        partition = rows.setdefault(record.partition, [])
        partition.append(Received(record, len(partition)))
    return rows


def assert_read_back(written: Sequence[Record], received: Sequence[Received]) -> None:
    """Record by record; names the first that differs instead of printing them all."""
    by_partition: dict[int, list[Received]] = {}
    for row in received:
        by_partition.setdefault(row.record.partition, []).append(row)
    for partition, rows in expected(written).items():
        got = by_partition.pop(partition, [])
        for want, have in zip(rows, got, strict=False):
            assert have == want, f"partition {partition}: read {have}, written {want}"
        assert len(got) == len(rows), f"partition {partition} has {len(got)} of {len(rows)}"
    assert not by_partition, f"records in partitions nobody wrote to: {sorted(by_partition)}"


def assert_offsets(written: Sequence[Record], offsets: Sequence[int]) -> None:
    """The offsets that acknowledgements told are the places the records really have."""
    places = {(row.record, row.offset) for rows in expected(written).values() for row in rows}
    acknowledged = set(zip(written, offsets, strict=True))
    assert acknowledged == places, f"for example {sorted(acknowledged ^ places, key=repr)[:2]}"
