"""From fetched bytes to records: which batches count, slices, damage, deserializers, columns."""

from __future__ import annotations

import pickle
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.client.consumer.arrow_tables import table_of
from moldau.client.consumer.consumer_records import ConsumerRecord, TimestampType
from moldau.client.consumer.fetch_buffer import BatchSlice, RecordBuffer
from moldau.client.consumer.subscription_state import Positions
from moldau.client.serialization.fetched_batches import RecordReader, batches_of, body_of
from moldau.client.shared.client_errors import (
    KafkaError,
    RecordDeserializationError,
    SerializationError,
)
from moldau.model.names import TopicPartition
from moldau.records.batch_codec import ControlType, EndMarker, Record, encode_batch, encode_marker
from moldau.records.batch_kernel import scan_batches
from moldau.records.compression import Codec
from moldau.wire.messages.fetch import AbortedTransaction

TP = TopicPartition("t", 0)


def batch(offset: int, *values: str, producer: int = -1, **options: Any) -> bytes:
    records = [Record(timestamp=100 + n, value=v.encode()) for n, v in enumerate(values)]
    transactional = producer >= 0
    return encode_batch(
        records, base_offset=offset, producer_id=producer, transactional=transactional, **options
    )


def marker(offset: int, kind: ControlType, producer: int) -> bytes:
    return encode_marker(
        EndMarker(kind, 0), producer_id=producer, producer_epoch=0, timestamp=0, base_offset=offset
    )


def buffered(data: bytes, offset: int = 0, aborted: Any = None, **options: Any) -> RecordBuffer:
    positions = Positions()
    positions.assign([TP])
    state = positions.of(TP)
    state.seek(offset)
    fetched = batches_of(TP, state.round, memoryview(bytearray(data)), offset, aborted)
    fetcher: Any = SimpleNamespace(ready=deque([fetched]))
    buffer = RecordBuffer(fetcher, positions, RecordReader(**options))
    buffer.positions = positions  # type: ignore[attr-defined]
    return buffer


def taken(buffer: RecordBuffer, count: int = 100) -> list[ConsumerRecord]:
    offer = buffer.take(count)
    buffer.hand_over(offer)
    return offer.taken.get(TP, [])


def table(buffer: RecordBuffer, count: int = 100) -> Any:
    offer = buffer.take_runs(count)
    made = table_of(offer.runs)
    buffer.hand_over(offer)
    return made


def values(buffer: RecordBuffer, count: int = 100) -> str:
    return " ".join(record.value.decode() for record in taken(buffer, count))


def position(buffer: RecordBuffer) -> int | None:
    return buffer.positions.of(TP).position  # type: ignore[attr-defined,no-any-return]


def test_records_are_handed_out_in_slices_and_the_position_follows() -> None:
    buffer = buffered(batch(0, "a", "b", "c") + batch(3, "d"))
    assert values(buffer, 2) == "a b"
    assert position(buffer) == 2
    assert values(buffer, 2) == "c d"
    assert position(buffer) == 4
    assert not buffer.has_records()


def test_a_batch_is_read_from_the_position_on() -> None:
    buffer = buffered(batch(0, "a", "b", "c"), offset=2)
    assert values(buffer) == "c"


def test_a_torn_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    buffer = buffered(batch(0, "a") + batch(1, "b")[:-1])
    assert values(buffer) == "a"
    assert position(buffer) == 1


def test_a_fetch_without_a_whole_batch_names_the_setting() -> None:
    with pytest.raises(KafkaError, match=r"max\.partition\.fetch\.bytes"):
        buffered(batch(0, "a")[:-1])


def test_control_batches_are_passed_over_by_everybody() -> None:
    buffer = buffered(batch(0, "a", producer=1) + marker(1, ControlType.COMMIT, 1))
    assert values(buffer) == "a"
    assert position(buffer) == 2


def test_aborted_records_are_dropped_up_to_the_abort_marker() -> None:
    data = (
        batch(0, "a1", producer=1)
        + batch(1, "b2", producer=2)
        + marker(2, ControlType.ABORT, 1)
        + batch(3, "c1", producer=1)
        + marker(4, ControlType.COMMIT, 2)
        + marker(5, ControlType.COMMIT, 1)
        + batch(6, "plain")
    )
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    assert values(buffered(data, aborted=aborted)) == "b2 c1 plain"
    assert values(buffered(data)) == "a1 b2 c1 plain"


def test_a_fetch_with_nothing_to_see_still_moves_the_position() -> None:
    data = batch(0, "a1", producer=1) + marker(1, ControlType.ABORT, 1)
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    buffer = buffered(data, aborted=aborted)
    assert taken(buffer) == []
    assert position(buffer) == 2


def test_a_broken_batch_is_told_after_what_comes_before_it() -> None:
    broken = bytearray(batch(1, "b"))
    broken[-2] ^= 1
    buffer = buffered(batch(0, "a") + bytes(broken))
    assert values(buffer) == "a"
    for _ in range(2):
        with pytest.raises(KafkaError, match=r"t-0 at offset 1 is corrupt.*checksum"):
            taken(buffer)
    assert position(buffer) == 1
    assert values(buffered(bytes(broken), 1, check_crcs=False)) == "c"


def test_log_append_time_holds_for_the_whole_batch() -> None:
    buffer = buffered(batch(0, "a", "b", log_append_time_ms=77))
    records = taken(buffer)
    assert [record.timestamp for record in records] == [77, 77]
    assert records[0].timestamp_type is TimestampType.LOG_APPEND_TIME


def test_deserializers_get_what_was_sent_and_may_refuse_it() -> None:
    def number(topic: str, data: bytes | None) -> int:
        assert topic == "t"
        return int(data or b"")

    buffer = buffered(batch(0, "1", "2", "x", "4"), value_deserializer=number)
    assert [record.value for record in taken(buffer)] == [1, 2]
    with pytest.raises(SerializationError, match="t-0 at offset 2"):
        taken(buffer)
    assert position(buffer) == 2


def test_one_take_reads_on_over_batches_of_all_kinds() -> None:
    data = batch(0, "a", "b") + batch(2, "c", codec=Codec.GZIP) + batch(3, "d", "e")
    buffer = buffered(data)
    assert values(buffer, 4) == "a b c d"
    assert position(buffer) == 4
    assert values(buffer) == "e"


def test_a_table_goes_on_where_a_deserializer_failed_further_on() -> None:
    def checked(topic: str, data: bytes | None) -> bytes:
        if data == b"x":
            raise ValueError("x")
        return data or b""

    buffer = buffered(batch(0, "a") + batch(1, "b", "c", "x", "d"), value_deserializer=checked)
    assert values(buffer, 2) == "a b"
    made = table(buffer, 9)
    assert made.column("value").to_pylist() == [b"c", b"x", b"d"]
    assert position(buffer) == 5


def test_a_record_is_a_tuple_with_names_that_can_be_pickled() -> None:
    record = taken(buffered(batch(7, "a", leader_epoch=2)))[0]
    kind = TimestampType.CREATE_TIME
    assert record == ConsumerRecord("t", 0, 7, 100, kind, None, b"a", (), 2)
    assert record.topic_partition == TP
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(record, protocol))
        assert type(again) is ConsumerRecord
        assert again == record
    assert repr(record).startswith("ConsumerRecord(topic='t', partition=0, offset=7,")
    assert record._replace(value=b"z").value == b"z"
    assert hash(record) == hash(tuple(record))


def test_paused_and_stale_fetches_are_not_handed_out() -> None:
    buffer = buffered(batch(0, "a"))
    state = buffer.positions.of(TP)  # type: ignore[attr-defined]
    state.is_paused = True
    assert not buffer.has_records()
    assert taken(buffer) == []
    state.is_paused = False
    assert buffer.has_records()
    state.seek(0)
    assert not buffer.has_records()
    assert taken(buffer) == []


def test_batches_become_a_table_of_columns() -> None:
    headers = (("h", b"x"), ("n", None))
    first = encode_batch(
        [
            Record(0, 1000, b"k", b"v", headers),
            Record(1, 2000, None, b""),
            Record(2, 3000, b"", None, (("é", b""),)),
        ]
    )
    second = batch(3, "d", "e", codec=Codec.GZIP, log_append_time_ms=7000)
    buffer = buffered(first + second)
    made = table(buffer, 100)
    made.validate(full=True)
    rows = made.to_pylist()
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4]
    assert {(row["topic"], row["partition"]) for row in rows} == {("t", 0)}
    assert [row["key"] for row in rows] == [b"k", None, b"", None, None]
    assert [row["value"] for row in rows] == [b"v", b"", None, b"d", b"e"]
    assert [int(row["timestamp"].timestamp() * 1000) for row in rows] == [
        1000,
        2000,
        3000,
        7000,
        7000,
    ]
    assert [[(h["key"], h["value"]) for h in row["headers"]] for row in rows] == [
        [("h", b"x"), ("n", None)],
        [],
        [("é", b"")],
        [],
        [],
    ]
    assert position(buffer) == 5


def test_a_table_starts_where_records_were_taken_before() -> None:
    buffer = buffered(batch(0, "a", "b", "c") + batch(3, "d"))
    assert values(buffer, 1) == "a"
    made = table(buffer, 2)
    assert made.column("value").to_pylist() == [b"b", b"c"]
    assert position(buffer) == 3
    assert table(buffer, 2).column("offset").to_pylist() == [3]


def test_a_table_takes_whole_batches_until_there_are_enough() -> None:
    buffer = buffered(batch(0, "a", "b") + batch(2, "c", "d"))
    assert table(buffer, 1).num_rows == 2
    assert buffer.has_records()


def test_single_batches_become_a_table_too() -> None:
    data = memoryview(batch(5, "a", "b", log_append_time_ms=9) + batch(7, "c", codec=Codec.GZIP))
    slices = [
        BatchSlice(TP, *body_of(TP, data, row, True), 6) for row in scan_batches(data, 0, len(data))
    ]
    made = table_of(slices)
    made.validate(full=True)
    assert made.column("offset").to_pylist() == [6, 7]
    assert made.column("value").to_pylist() == [b"b", b"c"]
    assert made.column("timestamp").cast("int64").to_pylist() == [9, 100]


def test_header_keys_that_are_not_utf8_are_readable_in_a_table() -> None:
    data = encode_batch([Record(headers=(("\udcff", b"x"),))])
    rows = table(buffered(data), 1).column("headers").to_pylist()
    assert rows == [[{"key": "\ufffd", "value": b"x"}]]


def test_the_record_that_cannot_be_read_is_named_by_its_own_offset() -> None:
    """Compaction leaves gaps in a batch: the position is before the gap, the record behind it."""

    def checked(topic: str, data: bytes | None) -> bytes:
        if data == b"x":
            raise KeyError("x")
        return data or b""

    for codec in (Codec.NONE, Codec.GZIP):
        records = [
            Record(10, 100, None, b"a"),
            Record(15, 100, b"k", b"x", (("h", b"v"),)),
            Record(19, 100, None, b"b"),
        ]
        data = encode_batch(records, base_offset=10, codec=codec, keep_offsets=True)
        buffer = buffered(data, 10, value_deserializer=checked)
        assert [record.offset for record in taken(buffer)] == [10]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match="t-0 at offset 15") as told:
                taken(buffer)
        assert (told.value.topic_partition, told.value.offset) == (TP, 15)
        assert (told.value.key, told.value.value) == (b"k", b"x")
        assert told.value.headers == (("h", b"v"),)
        assert position(buffer) == 11
        again = pickle.loads(pickle.dumps(told.value))
        assert (again.offset, str(again)) == (15, str(told.value))


def test_a_table_holds_what_comes_before_a_broken_batch_and_the_batch_is_told_next() -> None:
    broken = bytearray(batch(2, "c"))
    broken[-3] = 0x7E
    for more in (batch(3, "d"), b""):
        buffer = buffered(batch(0, "a") + batch(1, "b") + broken + more, check_crcs=False)
        assert table(buffer).column("offset").to_pylist() == [0, 1]
        assert position(buffer) == 2
        for _ in range(2):
            with pytest.raises(KafkaError, match="t-0 at offset 2 is corrupt: record 0 is broken"):
                table(buffer)
        assert position(buffer) == 2


def test_an_offer_moves_nothing_until_it_is_handed_over() -> None:
    buffer = buffered(batch(0, "a", "b", "c") + batch(3, "d"))
    state = buffer.positions.of(TP)  # type: ignore[attr-defined]
    state.fetch_offset = 4
    buffer.take(2)
    assert position(buffer) == 0
    assert buffer.has_offer
    assert not buffer.has_records()
    round = state.round
    buffer.mend()
    assert state.fetch_offset == 0
    assert state.round != round
    assert not buffer.has_offer


def test_an_offer_that_a_seek_overtook_moves_nothing() -> None:
    buffer = buffered(batch(0, "a", "b"))
    offer = buffer.take(2)
    buffer.positions.of(TP).seek(1)  # type: ignore[attr-defined]
    buffer.hand_over(offer)
    assert position(buffer) == 1


def test_no_record_is_handed_out_that_does_not_begin_at_the_position() -> None:
    buffer = buffered(batch(0, "a", "b"))
    state = buffer.positions.of(TP)  # type: ignore[attr-defined]
    state.position = 1
    assert not buffer.has_records()
    assert taken(buffer) == []
