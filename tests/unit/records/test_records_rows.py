"""Columns to bodies of batches, compiled and as plain Python: both are read back the same."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records import batch_kernel as records_kernel
from moldau.records import column_encoding as installed
from moldau.records.batch_codec import Record
from moldau.records.partitioner import partition_for_key
from tests.support.uncompiled import uncompiled

PLAIN = uncompiled(installed)
KERNELS = [PLAIN, installed] if installed.COMPILED else [PLAIN]

BLOB = st.none() | st.binary(max_size=150)
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


def field(kernel: ModuleType, blobs: Sequence[bytes | None], skipped: int = 3) -> Any:
    """As a slice of an Arrow column has it: bits and bytes of other rows come first."""
    content, ends, bits = bytearray(b"zzz"), array("i", [3]), bytearray(b"\xff" * 40)
    for row, blob in enumerate(blobs):
        content += blob or b""
        ends.append(len(content))
        if blob is None:
            bits[(row + skipped) >> 3] &= ~(1 << ((row + skipped) & 7)) & 0xFF
    return kernel.Field(memoryview(ends), bytes(content), bytes(bits), skipped)


def rows_of(kernel: ModuleType, records: Sequence[Record]) -> Any:
    stamps = memoryview(array("q", [record.timestamp for record in records]))
    keys = field(kernel, [record.key for record in records])
    rows = kernel.Rows(keys, field(kernel, [record.value for record in records]), stamps)
    ends = array("i", [0])
    for record in records:
        ends.append(ends[-1] + len(record.headers))
    names = [name.encode() for record in records for name, _ in record.headers]
    contents = [content for record in records for _, content in record.headers]
    rows.add_headers(memoryview(ends), field(kernel, names), field(kernel, contents))
    return rows


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda m: "compiled" if m.COMPILED else "plain")
@given(records=RECORDS, limit_bytes=st.integers(1, 800))
def test_what_is_written_of_columns_is_read_back_as_records(
    kernel: ModuleType, records: list[Record], limit_bytes: int
) -> None:
    rows = rows_of(kernel, records)
    order = memoryview(array("i", reversed(range(len(records)))))
    start, found = 0, []
    while start < len(records):
        body, end, base, highest = rows.write(order, start, len(records), limit_bytes)
        assert end == start + 1 or len(body) <= limit_bytes
        read, broken = records_kernel.read_records(body, bytes(body), 0, base, end - start)
        assert broken == -1
        assert [row[0] for row in read] == list(range(end - start))
        assert highest == max(row[1] for row in read)
        found += [row[1:] for row in read]
        start = end
    assert found == [record[1:] for record in reversed(records)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda m: "compiled" if m.COMPILED else "plain")
@given(keys=st.lists(BLOB, min_size=1, max_size=30), count=st.integers(1, 9), own=st.integers(0, 8))
def test_keys_go_where_the_producer_sends_them_unless_a_row_has_its_own_partition(
    kernel: ModuleType, keys: list[bytes | None], count: int, own: int
) -> None:
    own, keyless = own % count, (own + 1) % count
    out = memoryview(array("i", [-1] * len(keys)))
    out[0] = own
    kernel.choose_partitions(field(kernel, keys), count, keyless, out)
    expected = [keyless if key is None else partition_for_key(key, count) for key in keys]
    assert list(out) == [own, *expected[1:]]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda m: "compiled" if m.COMPILED else "plain")
@given(partitions=st.lists(st.integers(0, 4), max_size=40))
def test_rows_are_ordered_by_partition_and_keep_their_order_within_one(
    kernel: ModuleType, partitions: list[int]
) -> None:
    order = memoryview(array("i", [0] * len(partitions)))
    ends = memoryview(array("i", [0] * 5))
    kernel.order_rows(memoryview(array("i", partitions)), len(partitions), ends, order)
    assert list(order) == sorted(range(len(partitions)), key=lambda row: partitions[row])
    assert list(ends) == [sum(p <= each for p in partitions) for each in range(5)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda m: "compiled" if m.COMPILED else "plain")
def test_ends_outside_of_the_bytes_are_refused_before_anything_is_read(kernel: ModuleType) -> None:
    with pytest.raises(IndexError, match="inside"):
        kernel.Field(memoryview(array("i", [0, 9])), b"12345678")
    with pytest.raises(IndexError, match="bits"):
        kernel.Field(memoryview(array("i", [0] * 20)), b"", b"\xff")
    values = field(kernel, [b"a"])
    with pytest.raises(IndexError, match="fewer rows"):
        kernel.Rows(values, values, memoryview(array("q", [1, 2])))
    rows = kernel.Rows(values, values, memoryview(array("q", [1])))
    for order, end in ((array("i", [1]), 1), (array("i", [0]), 2)):
        with pytest.raises(IndexError):
            rows.write(memoryview(order), 0, end, 100)
    with pytest.raises(IndexError, match="7"):
        one = memoryview(array("i", [7]))
        kernel.order_rows(one, 1, memoryview(array("i", [0])), memoryview(array("i", [0])))
