"""Rows and columns of the consumer, compiled and as plain Python: both agree on any bytes."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records import columns as installed
from moldau.records.batch import HEADER_BYTES
from moldau.records.codec import Record, encode_batch
from tests.support.uncompiled import uncompiled

PLAIN = uncompiled(installed)
KERNELS = [PLAIN, installed] if installed.COMPILED else [PLAIN]

BLOB = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(0, 2**50),
        key=BLOB,
        value=BLOB,
        headers=st.lists(st.tuples(st.text(max_size=5), BLOB), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@pytest.fixture(params=KERNELS, ids=lambda module: "compiled" if module.COMPILED else "plain")
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def body_of(records: list[Record]) -> bytes:
    return encode_batch(records)[HEADER_BYTES:]


def rows_of(kernel: ModuleType, body: bytes, count: int, first: int = 0) -> tuple[Any, int]:
    rows: list[Any] = []
    fault = kernel.read_rows(
        rows, body, body, (10, 0, count, first, -1), ("t", 0, 0, 5), (tuple, None, None)
    )
    return rows, fault


def bytes_of(ends: Any, data: Any, valid: Any, count: int) -> list[bytes | None]:
    """A column of bytes, read as Arrow reads it."""
    ends, data, valid = memoryview(ends), bytes(memoryview(data)), memoryview(valid)
    return [
        data[ends[i] : ends[i + 1]] if valid[i >> 3] >> (i & 7) & 1 else None for i in range(count)
    ]


def columns_of(kernel: ModuleType, body: bytes, count: int, first: int = 0) -> list[Any]:
    measure = kernel.measure_records(body, 0, len(body), count, first)
    assert measure[0] == -1
    made = kernel.Columns(measure)
    made.add((body, 0, len(body)), count, first, (10, 0))
    assert made.rows == measure[1]
    keys = bytes_of(made.key_ends, made.keys, made.keys_valid, made.rows)
    values = bytes_of(made.value_ends, made.values, made.values_valid, made.rows)
    every = bytes([255]) * (made.headers // 8 + 1)
    names = bytes_of(made.header_key_ends, made.header_keys, every, made.headers)
    notes = bytes_of(
        made.header_value_ends, made.header_values, made.header_values_valid, made.headers
    )
    pairs = [
        (name.decode(), note) for name, note in zip(names, notes, strict=True) if name is not None
    ]
    ends = list(memoryview(made.header_ends))
    headers = [tuple(pairs[a:b]) for a, b in pairwise(ends)]
    offsets, stamps = list(memoryview(made.offsets)), list(memoryview(made.timestamps))
    return list(zip(offsets, stamps, keys, values, headers, strict=True))


def expected(records: list[Record], first: int = 0) -> list[Any]:
    base = records[0].timestamp
    return [
        (10 + n, row.timestamp - base, row.key, row.value, row.headers)
        for n, row in enumerate(records)
        if n >= first
    ]


@given(records=RECORDS, first=st.integers(0, 3))
def test_rows_and_columns_hold_what_was_written(records: list[Record], first: int) -> None:
    body = body_of(records)
    wanted = expected(records, first)
    for kernel in KERNELS:
        assert columns_of(kernel, body, len(records), first) == wanted
        rows, fault = rows_of(kernel, body, len(records), first)
        assert fault == -1
        assert [(row[2], row[3], *row[5:8]) for row in rows] == wanted
        assert {(row[0], row[1], row[4], row[8]) for row in rows} <= {("t", 0, 0, 5)}


@given(records=RECORDS, data=st.data())
def test_broken_bodies_are_found_and_both_kernels_agree(records: list[Record], data: Any) -> None:
    body = bytearray(body_of(records))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    broken = bytes(body[: data.draw(st.integers(0, len(body)))])
    found = [
        (
            kernel.measure_records(broken, 0, len(broken), len(records), 0),
            outcome(kernel, broken, len(records)),
        )
        for kernel in KERNELS
    ]
    assert all(each == found[0] for each in found)
    measure, rows = found[0]
    assert measure[0] == rows[1]


def outcome(kernel: ModuleType, body: bytes, count: int) -> Any:
    rows, fault = rows_of(kernel, body, count)
    return len(rows), fault


def test_columns_refuse_records_they_were_not_made_for(kernel: ModuleType) -> None:
    small, large = body_of([Record(value=b"v")]), body_of([Record(key=b"k" * 99, value=b"v" * 99)])
    for measured, added in ((small, large), (small, body_of([Record(headers=(("h", b"x"),))]))):
        made = kernel.Columns(kernel.measure_records(measured, 0, len(measured), 1, 0))
        with pytest.raises(IndexError):
            made.add((added, 0, len(added)), 1, 0, (0, 0))
    made = kernel.Columns(kernel.measure_records(small, 0, len(small), 1, 0))
    made.add((small, 0, len(small)), 1, 0, (0, 0))
    with pytest.raises(IndexError):
        made.add((small, 0, len(small)), 1, 0, (0, 0))


def test_a_range_outside_the_buffer_is_a_bug_of_the_caller(kernel: ModuleType) -> None:
    with pytest.raises(IndexError):
        kernel.measure_records(b"abc", 0, 4, 1, 0)
    with pytest.raises(IndexError):
        kernel.read_rows([], b"a", b"abc", (0, 0, 1, 0, -1), (0, 0, 0, 0), (tuple, None, None))


def test_what_a_maker_raises_leaves_the_rows_before_it(kernel: ModuleType) -> None:
    body = body_of([Record(value=b"1"), Record(value=b"x"), Record(value=b"3")])
    rows: list[Any] = []
    with pytest.raises(ValueError, match="x"):
        kernel.read_rows(
            rows, body, body, (0, 0, 3, 0, 99), ("t", 0, 0, 0), (tuple, lambda key: "k", int)
        )
    assert [(row[3], row[5], row[6]) for row in rows] == [(99, "k", 1)]
