from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.errors import ApiError, Error
from moldau.records.batch import HEADER_BYTES, read_header, write_header
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    decode_batch,
    decode_marker,
    encode_batch,
    encode_marker,
    find_timestamp,
    write_checksum,
)
from moldau.records.compression import Codec
from tests.support import seeds

NULLABLE = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=8), NULLABLE), max_size=4).map(tuple)
TIMES = st.integers(-1, 2**62)
ROWS = st.lists(st.tuples(TIMES, NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=30)


def corrupt(buffer: bytes) -> str:
    with pytest.raises(ApiError) as caught:
        decode_batch(buffer)
    assert caught.value.error == Error.CORRUPT_MESSAGE
    return caught.value.message


def altered(batch: bytes, **fields: int) -> bytes:
    changed = bytearray(batch)
    write_header(changed, 0, read_header(changed)._replace(**fields))
    write_checksum(changed)
    return bytes(changed)


@pytest.mark.parametrize("codec", Codec)
@settings(max_examples=seeds.times(40), deadline=None)
@given(ROWS, st.integers(0, 2**60))
def test_records_come_back_as_they_were(codec: Codec, rows: list[tuple], base_offset: int) -> None:  # type: ignore[type-arg]
    records = [Record(base_offset + i, *row) for i, row in enumerate(rows)]
    batch = encode_batch(records, base_offset=base_offset, codec=codec)
    assert decode_batch(batch) == records
    assert decode_batch(b"before" + batch + b"behind", 6) == records
    header = read_header(batch)
    assert header.record_count == len(rows)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)


def test_the_header_carries_producer_and_transaction() -> None:
    batch = encode_batch(
        [Record(), Record()],
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=2**31 - 1,
        transactional=True,
        leader_epoch=3,
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        2**40,
        7,
        2**31 - 1,
    )
    assert header.last_sequence == 0
    assert header.is_transactional
    assert not header.is_control
    assert header.leader_epoch == 3


def test_records_of_a_log_append_time_batch_all_have_its_time() -> None:
    batch = encode_batch([Record(timestamp=1), Record(timestamp=2)], log_append_time_ms=99)
    assert [record.timestamp for record in decode_batch(batch)] == [99, 99]


def test_records_may_keep_their_offsets_and_the_gaps_between_them() -> None:
    records = [Record(offset=103, timestamp=5), Record(offset=108, timestamp=6)]
    batch = encode_batch(records, base_offset=100, keep_offsets=True)
    assert decode_batch(batch) == records
    assert read_header(batch).last_offset == 108


def test_header_keys_that_are_not_utf8_survive() -> None:
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    records = [Record(headers=((key, b"v"),))]
    batch = encode_batch(records)
    assert b"\xff\xfe" in batch
    assert decode_batch(batch) == records


@pytest.mark.parametrize("kind", ControlType)
def test_an_end_marker_comes_back_as_it_was(kind: ControlType) -> None:
    marker = EndMarker(kind, coordinator_epoch=12)
    batch = encode_marker(
        marker, producer_id=5, producer_epoch=6, timestamp=7, base_offset=8, leader_epoch=9
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.leader_epoch, header.max_timestamp) == (8, 9, 7)
    (record,) = decode_batch(batch)
    assert decode_marker(record) == marker


def test_control_records_of_other_kinds_are_passed_over() -> None:
    leader_change = Record(key=struct.pack(">hh", 0, 2), value=b"")
    assert decode_marker(leader_change) is None


@pytest.mark.parametrize(
    "record",
    [Record(), Record(key=b"\0\0\0"), Record(key=struct.pack(">hh", 0, 1), value=b"\0\0")],
)
def test_a_broken_control_record_is_corrupt(record: Record) -> None:
    with pytest.raises(ApiError) as caught:
        decode_marker(record)
    assert caught.value.error == Error.CORRUPT_MESSAGE


def test_a_broken_batch_is_corrupt() -> None:
    batch = encode_batch([Record(value=b"v"), Record(value=b"w")])
    assert "header" in corrupt(batch[: HEADER_BYTES - 1])
    assert "size" in corrupt(batch[:-1])
    assert "checksum" in corrupt(batch[:-1] + b"\x07")
    assert "format" in corrupt(altered(batch, magic=1))
    assert "record 2" in corrupt(altered(batch, record_count=3))
    assert "record 1" in corrupt(altered(batch, record_count=1))
    assert "zstd" in corrupt(altered(batch, attributes=Codec.ZSTD))


def test_a_reader_may_limit_what_a_batch_decompresses_to() -> None:
    batch = encode_batch([Record(value=bytes(10_000))], codec=Codec.ZSTD)
    with pytest.raises(ApiError) as caught:
        decode_batch(batch, limit_bytes=10_000)
    assert caught.value.error == Error.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_a_record_is_found_by_time(codec: Codec) -> None:
    records = [Record(timestamp=t) for t in (10, 30, 20, 30)]
    batch = encode_batch(records, base_offset=100, codec=codec)
    assert find_timestamp(batch, 0, 5) == (10, 100)
    assert find_timestamp(batch, 0, 11) == (30, 101)
    assert find_timestamp(batch, 0, 11, 102) == (20, 102)
    assert find_timestamp(batch, 0, 31) is None
    assert find_timestamp(batch, 0, 5, 104) is None
    assert find_timestamp(batch, 0, 2**63 - 1) is None
    assert find_timestamp(batch, 0, -(2**63)) == (10, 100)


def test_a_record_of_a_log_append_time_batch_is_found_by_the_batchs_time() -> None:
    batch = encode_batch([Record(timestamp=1)] * 3, base_offset=100, log_append_time_ms=50)
    assert find_timestamp(batch, 0, 50) == (50, 100)
    assert find_timestamp(batch, 0, 10, 102) == (50, 102)
    assert find_timestamp(batch, 0, 51) is None
    assert find_timestamp(batch, 0, 10, 103) is None
