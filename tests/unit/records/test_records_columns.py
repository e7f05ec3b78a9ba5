"""Rows and columns of the consumer, compiled and as plain Python: both agree on any bytes."""

from __future__ import annotations

import gc
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records import column_decoding as installed
from moldau.records.batch import HEADER_BYTES
from moldau.records.batch_codec import Record, encode_batch, write_checksum
from moldau.records.batch_kernel import scan_batches
from moldau.records.compression import Codec
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
        rows, body, (0, len(body), 10, 0, count, first, -1), ("t", 0, 0, 5), (tuple, None, None)
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
        kernel.read_rows([], b"abc", (0, 4, 0, 0, 1, 0, -1), (0, 0, 0, 0), (tuple, None, None))


def test_what_a_maker_raises_leaves_the_rows_before_it(kernel: ModuleType) -> None:
    body = body_of([Record(value=b"1"), Record(value=b"x"), Record(value=b"3")])
    rows: list[Any] = []
    with pytest.raises(ValueError, match="x"):
        kernel.read_rows(
            rows,
            body,
            (0, len(body), 0, 0, 3, 0, 99),
            ("t", 0, 0, 0),
            (tuple, lambda key: "k", int),
        )
    assert [(row[3], row[5], row[6]) for row in rows] == [(99, "k", 1)]


class Pair(NamedTuple):
    """Some class of rows; a kernel looks at nothing but that it is a tuple."""

    topic: str
    partition: int


def test_rows_are_of_the_class_that_was_asked_for(kernel: ModuleType) -> None:
    body = body_of([Record(value=b"v")])
    numbers, shared = (0, len(body), 7, 0, 1, 0, -1), ("t", 0, 0, 5)
    rows: list[Any] = []
    kernel.read_rows(rows, body, numbers, shared, (Pair, None, None))
    assert type(rows[0]) is Pair
    assert tuple(rows[0]) == ("t", 0, 7, 0, 0, None, b"v", (), 5)
    with pytest.raises(TypeError):
        kernel.read_rows(rows, body, numbers, shared, (list, None, None))


@pytest.mark.skipif(not installed.COMPILED, reason="plain Python leaves it to the collector")
def test_the_garbage_collector_looks_only_at_rows_that_might_be_in_a_cycle() -> None:
    body = body_of([Record(value=b"v")])
    rows: list[Any] = []
    for make_value in (None, lambda value: [value]):
        numbers = (0, len(body), 0, 0, 1, 0, -1)
        makers = (Pair, None, make_value)
        installed.read_rows(rows, body, numbers, ("t", 0, 0, 0), makers)
    assert [gc.is_tracked(row) for row in rows] == [False, True]


def batches_in(*data: bytes) -> tuple[memoryview, list[Any]]:
    view = memoryview(b"".join(data))
    return view, scan_batches(view, 0, len(view))[::-1]


def read_batches(
    kernel: ModuleType, view: memoryview, batches: list[Any], count: int = 9, first: int = 0
) -> tuple[list[Any], int, Any]:
    rows: list[Any] = []
    limits, shared = (count, first, True), ("t", 0, ("create", "append"))
    fault, taken = kernel.read_batches(rows, view, batches, limits, shared, (tuple, None, None))
    return rows, fault, taken


def test_batches_are_read_until_there_are_enough_rows(kernel: ModuleType) -> None:
    first = encode_batch([Record(timestamp=5, value=b"a"), Record(timestamp=6)], leader_epoch=3)
    second = encode_batch([Record()], base_offset=2, log_append_time_ms=77, leader_epoch=4)
    third = encode_batch([Record()], base_offset=3)
    view, batches = batches_in(first, second, third)
    rows, fault, taken = read_batches(kernel, view, batches, count=2, first=1)
    assert (fault, len(batches), taken[2]) == (-1, 1, 2)
    assert rows == [
        ("t", 0, 1, 6, "create", None, None, (), 3),
        ("t", 0, 2, 77, "append", None, None, (), 4),
    ]


def test_compressed_batches_are_left_to_the_caller(kernel: ModuleType) -> None:
    packed = encode_batch([Record()], base_offset=1, codec=Codec.GZIP)
    view, batches = batches_in(encode_batch([Record()]), packed)
    rows, fault, taken = read_batches(kernel, view, batches)
    assert (len(rows), fault, taken[2], batches[0][2]) == (1, -1, 0, 1)
    assert read_batches(kernel, view, batches) == ([], -1, None)


def test_a_broken_batch_stays_where_it_is_and_gives_no_rows(kernel: ModuleType) -> None:
    good, bad = encode_batch([Record()]), bytearray(encode_batch([Record(), Record()]))
    bad[-1] ^= 1
    view, batches = batches_in(good, bytes(bad))
    rows, fault, taken = read_batches(kernel, view, batches)
    assert (len(rows), fault, taken[0], len(batches)) == (1, kernel.WRONG_CHECKSUM, 0, 1)
    write_checksum(bad)
    view, batches = batches_in(good, bytes(bad))
    rows, fault, taken = read_batches(kernel, view, batches)
    assert (len(rows), fault, taken[0], len(batches)) == (1, 1, 0, 1)


@given(records=RECORDS, wanted=st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_what_is_not_wanted_is_null_and_the_rest_is_as_it_was(
    records: list[Record], wanted: tuple[bool, bool, bool]
) -> None:
    body = body_of(records)
    for kernel in KERNELS:
        whole = kernel.Columns(kernel.measure_records(body, 0, len(body), len(records), 0))
        made = kernel.Columns(
            kernel.measure_records(body, 0, len(body), len(records), 0), bytearray, wanted
        )
        for columns in (whole, made):
            columns.add((body, 0, len(body)), len(records), 0, (10, 0))
        count = whole.rows
        nothing = [None] * count
        for has, ends, data, valid in (
            (wanted[0], "key_ends", "keys", "keys_valid"),
            (wanted[1], "value_ends", "values", "values_valid"),
        ):
            parts = [
                [getattr(each, name) for name in (ends, data, valid)] for each in (whole, made)
            ]
            expected_column = bytes_of(*parts[0], count) if has else nothing
            assert bytes_of(*parts[1], count) == expected_column
        assert list(made.offsets) == list(whole.offsets)
        assert list(made.timestamps) == list(whole.timestamps)
        assert made.headers == (whole.headers if wanted[2] else 0)
        if not wanted[2]:
            assert set(made.header_ends) == {0}
