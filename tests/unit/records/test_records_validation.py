"""Each way a produced batch can be wrong, with the answer Apache Kafka 4.3 gives."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.errors import Error
from moldau.records.batch import HEADER_BYTES, NO_TIMESTAMP, read_header, write_header
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    assemble,
    decode_batch,
    encode_batch,
    encode_marker,
    write_checksum,
)
from moldau.records.batch_validation import (
    INLINE_BYTES_MAX,
    RECORD_ERRORS_MAX,
    LongBatch,
    ProducedBatch,
    ProduceRules,
    RecordsRefused,
    validate_produce,
)
from moldau.records.checksum import crc32c
from moldau.records.compression import Codec, compress
from tests.support import seeds

NOW = 1_700_000_000_000
HOUR = 3_600_000
PLAIN = ProduceRules()
RECORD = Record(timestamp=NOW, key=b"key", value=b"value")
GOOD = encode_batch([RECORD, RECORD, RECORD])


def produce(batch: bytes, rules: ProduceRules = PLAIN) -> ProducedBatch:
    return validate_produce(memoryview(bytearray(batch)), rules, NOW)


def refused(batch: bytes, rules: ProduceRules = PLAIN) -> Error:
    return refusal(batch, rules).error


def refusal(batch: bytes, rules: ProduceRules = PLAIN) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as caught:
        produce(batch, rules)
    assert caught.value.message
    return caught.value


def altered(batch: bytes, **fields: int) -> bytes:
    changed = bytearray(batch)
    write_header(changed, 0, read_header(changed)._replace(**fields))
    write_checksum(changed)
    return bytes(changed)


def with_body(body: bytes, record_count: int, attributes: int = 0) -> bytes:
    header = read_header(GOOD)._replace(
        record_count=record_count, last_offset_delta=record_count - 1, attributes=attributes
    )
    return bytes(assemble(header, body))


def old_message(magic: int) -> bytes:
    timestamp = struct.pack(">q", NOW) if magic else b""
    message = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">ii", -1, 1) + b"v"
    message = struct.pack(">I", zlib.crc32(message)) + message
    return struct.pack(">qi", 0, len(message)) + message


def at_times(times: Sequence[int], codec: Codec = Codec.NONE) -> bytes:
    return encode_batch([Record(timestamp=time, key=b"k") for time in times], codec=codec)


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_is_taken_as_it_is(codec: Codec) -> None:
    batch = encode_batch([Record(timestamp=NOW + t) for t in (3, 9, 5)], codec=codec)
    produced = produce(batch)
    assert bytes(produced.records) == batch
    assert produced.header == read_header(batch)
    assert produced.offset_delta_of_max_timestamp == 1
    assert produced.log_append_time_ms == NO_TIMESTAMP


def test_a_good_uncompressed_batch_is_not_copied() -> None:
    buffer = bytearray(GOOD)
    produced = validate_produce(memoryview(buffer), PLAIN, NOW)
    assert produced.records.obj is buffer


def test_a_wrong_checksum_is_corrupt() -> None:
    assert refused(GOOD[:-1] + b"\x07") == Error.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 4},
        {"record_count": 2},
        {"record_count": 4, "last_offset_delta": 3},
        {"record_count": 2, "last_offset_delta": 1},
        {"record_count": 0},
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": -1, "last_offset_delta": -2},
        {"last_offset_delta": 5},
        {"last_offset_delta": -5},
    ],
)
def test_a_wrong_count_is_invalid(fields: dict[str, int]) -> None:
    assert refused(altered(GOOD, **fields)) == Error.INVALID_RECORD
    packed = encode_batch([RECORD, RECORD, RECORD], codec=Codec.GZIP)
    assert refused(altered(packed, **fields)) == Error.INVALID_RECORD


def test_a_batch_without_records_is_invalid() -> None:
    assert refused(encode_batch([])) == Error.INVALID_RECORD


def test_offsets_must_start_at_zero_and_run_without_gaps() -> None:
    assert refused(altered(GOOD, base_offset=5)) == Error.INVALID_RECORD
    gap = encode_batch([Record(0, NOW), Record(5, NOW)], keep_offsets=True)
    assert refused(altered(gap, last_offset_delta=1)) == Error.INVALID_RECORD


def test_other_formats_are_refused() -> None:
    assert refused(altered(GOOD, magic=3)) == Error.CORRUPT_MESSAGE
    assert refused(altered(GOOD, magic=-1)) == Error.CORRUPT_MESSAGE
    assert refused(altered(GOOD, magic=1)) == Error.INVALID_RECORD
    assert refused(old_message(0)) == Error.INVALID_RECORD
    assert refused(old_message(1)) == Error.INVALID_RECORD


def test_there_must_be_one_whole_batch() -> None:
    for size in (0, 11, 12, 16, 17, 60, 61, len(GOOD) - 1):
        assert refused(GOOD[:size]) == Error.INVALID_RECORD
    assert refused(GOOD + GOOD) == Error.INVALID_RECORD
    assert refused(GOOD + old_message(1)) == Error.INVALID_RECORD


def test_a_length_that_no_batch_can_have_is_corrupt() -> None:
    for length in (-(2**31), -1, 0, 13):
        assert refused(altered(GOOD, batch_length=length)) == Error.CORRUPT_MESSAGE
    for length in (14, 40, 48):
        assert refused(altered(GOOD, batch_length=length)[: length + 12]) == Error.CORRUPT_MESSAGE


def test_a_fragment_behind_the_batch_is_dropped() -> None:
    for fragment in (b"abcde", GOOD[:-1], GOOD[:20]):
        assert bytes(produce(GOOD + fragment).records) == GOOD
    assert refused(GOOD + bytes(40)) == Error.CORRUPT_MESSAGE


def test_a_batch_may_be_as_large_as_the_topic_allows() -> None:
    assert produce(GOOD, ProduceRules(max_message_bytes=len(GOOD)))
    rules = ProduceRules(max_message_bytes=len(GOOD) - 1)
    assert refused(GOOD, rules) == Error.MESSAGE_TOO_LARGE
    # Size comes before content: a batch that is too large need not be read.
    assert refused(GOOD[:-1] + b"\x07", rules) == Error.MESSAGE_TOO_LARGE


def test_clients_may_not_write_control_records() -> None:
    assert refused(altered(GOOD, attributes=0x20)) == Error.INVALID_RECORD
    marker = EndMarker(ControlType.COMMIT, 1)
    batch = encode_marker(marker, producer_id=1, producer_epoch=0, timestamp=NOW)
    assert refused(batch) == Error.INVALID_RECORD


def test_a_producer_id_needs_a_sequence_and_a_transaction_needs_a_producer_id() -> None:
    assert refused(altered(GOOD, producer_id=7)) == Error.INVALID_RECORD
    assert refused(altered(GOOD, producer_id=-7, base_sequence=0)) == Error.INVALID_RECORD
    assert refused(altered(GOOD, attributes=0x10)) == Error.INVALID_RECORD
    assert produce(altered(GOOD, producer_id=7, base_sequence=0))
    assert produce(altered(GOOD, attributes=0x10, producer_id=0, base_sequence=0))


def test_sequences_run_over_from_the_highest_to_zero() -> None:
    produced = produce(altered(GOOD, producer_id=7, base_sequence=2**31 - 1))
    assert produced.header.last_sequence == 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_times_too_far_ahead_are_refused_record_by_record(codec: Codec) -> None:
    limit = NOW + HOUR
    assert produce(at_times([NOW, limit], codec))
    refusal_ = refusal(at_times([NOW, limit + 1, limit, limit + 2], codec))
    assert refusal_.error == Error.INVALID_TIMESTAMP
    assert [index for index, _ in refusal_.record_errors] == [1, 3]
    assert str(limit + 1) in refusal_.record_errors[0][1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_times_too_long_ago_are_refused_record_by_record(codec: Codec) -> None:
    rules = ProduceRules(before_max_ms=1000)
    assert produce(at_times([NOW, NOW - 1000, NO_TIMESTAMP], codec), rules)
    assert produce(at_times([NO_TIMESTAMP], codec), rules)
    refusal_ = refusal(at_times([NOW, NO_TIMESTAMP, NOW - 1001], codec), rules)
    assert refusal_.error == Error.INVALID_TIMESTAMP
    assert [index for index, _ in refusal_.record_errors] == [2]


def test_times_beyond_64_bits_are_refused_whatever_the_topic_allows() -> None:
    rules = ProduceRules(after_max_ms=2**63 - 1)
    assert produce(at_times([2**63 - 1]), rules)
    beyond = altered(at_times([NOW, 2**63 - 1]), base_timestamp=NOW + 1)
    assert refused(beyond, rules) == Error.INVALID_TIMESTAMP


def test_a_producer_may_not_claim_log_append_time() -> None:
    for rules in (PLAIN, ProduceRules(log_append_time=True)):
        assert refused(altered(GOOD, attributes=0x08), rules) == Error.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_compacted_topics_take_no_records_without_a_key(codec: Codec) -> None:
    rules = ProduceRules(keys_required=True)
    assert produce(encode_batch([RECORD, Record(timestamp=NOW, key=b"")], codec=codec), rules)
    keyless = Record(timestamp=NOW, value=b"v")
    refusal_ = refusal(encode_batch([RECORD, keyless, RECORD, keyless], codec=codec), rules)
    assert refusal_.error == Error.INVALID_RECORD
    assert [index for index, _ in refusal_.record_errors] == [1, 3]


def test_a_wrong_time_outweighs_a_missing_key() -> None:
    rules = ProduceRules(keys_required=True)
    batch = encode_batch([Record(timestamp=NOW), Record(timestamp=NOW + 2 * HOUR, key=b"k")])
    refusal_ = refusal(batch, rules)
    assert refusal_.error == Error.INVALID_TIMESTAMP
    assert [index for index, _ in refusal_.record_errors] == [0, 1]


def test_the_number_of_records_named_in_a_refusal_has_a_bound() -> None:
    batch = encode_batch([Record(timestamp=NOW)] * (RECORD_ERRORS_MAX + 5))
    refusal_ = refusal(batch, ProduceRules(keys_required=True))
    assert len(refusal_.record_errors) == RECORD_ERRORS_MAX
    assert str(RECORD_ERRORS_MAX + 5) in refusal_.message


def test_zstd_needs_a_request_version_that_knows_it() -> None:
    batch = encode_batch([RECORD], codec=Codec.ZSTD)
    rules = ProduceRules(zstd_allowed=False)
    assert refused(batch, rules) == Error.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(encode_batch([RECORD], codec=Codec.LZ4), rules)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    assert refused(altered(GOOD, attributes=codec)) == Error.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_that_do_not_decompress_are_invalid(codec: Codec) -> None:
    # The checksum is right, so CORRUPT_MESSAGE would have the client send the same again.
    assert refused(altered(GOOD, attributes=codec)) == Error.INVALID_RECORD
    assert refused(with_body(b"", 1, codec)) == Error.INVALID_RECORD


def test_records_that_decompress_to_too_much_are_too_large() -> None:
    rules = ProduceRules()
    body = bytes(rules.decompressed_bytes_max + 1)
    assert refused(with_body(compress(Codec.ZSTD, body), 1, Codec.ZSTD)) == Error.MESSAGE_TOO_LARGE
    assert ProduceRules(max_message_bytes=10**8).decompressed_bytes_max > 10**9


@pytest.mark.parametrize(
    "body",
    [
        bytes([60]) + GOOD[HEADER_BYTES + 1 :],
        bytes([1]) + GOOD[HEADER_BYTES + 1 :],
        bytes([12, 0, 0, 0, 1, 1, 1]),
        bytes([12, 0, 0, 0, 1, 1, 8]),
        bytes([16, 0, 0, 0, 1, 1, 2, 1, 0]),
        b"",
    ],
)
def test_a_broken_record_is_invalid(body: bytes) -> None:
    assert refused(with_body(body, 1)) == Error.INVALID_RECORD
    packed = with_body(compress(Codec.SNAPPY, body), 1, Codec.SNAPPY)
    assert refused(packed) == Error.INVALID_RECORD


def test_a_long_plain_batch_is_not_checked_where_others_wait() -> None:
    in_a_hurry = ProduceRules(max_message_bytes=INLINE_BYTES_MAX + 9, at_leisure=False)
    room = INLINE_BYTES_MAX - len(encode_batch([Record(0, NOW, None, bytes(INLINE_BYTES_MAX))]))
    longest = encode_batch([Record(0, NOW, None, bytes(INLINE_BYTES_MAX + room))])
    assert produce(longest, in_a_hurry).header.record_count == 1
    longer = encode_batch([Record(0, NOW, None, bytes(INLINE_BYTES_MAX + room + 1))])
    with pytest.raises(LongBatch):
        produce(longer, in_a_hurry)
    assert produce(longer, replace(in_a_hurry, at_leisure=True)).header.record_count == 1
    # What is refused for its size need not be looked at.
    assert refused(longer, ProduceRules(at_leisure=False)) == Error.MESSAGE_TOO_LARGE


def test_a_wrong_max_timestamp_is_put_right() -> None:
    produced = produce(altered(GOOD, max_timestamp=NOW + 100))
    assert bytes(produced.records) == GOOD
    assert produced.header == read_header(GOOD)


def test_a_batch_without_times_has_none_for_its_max() -> None:
    produced = produce(at_times([NO_TIMESTAMP, -7]))
    assert produced.header.max_timestamp == NO_TIMESTAMP
    assert produced.offset_delta_of_max_timestamp == -1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_log_append_time_stamps_the_batch_in_place(codec: Codec) -> None:
    buffer = bytearray(at_times([5, NOW + 9 * HOUR], codec))
    produced = validate_produce(memoryview(buffer), ProduceRules(log_append_time=True), NOW)
    assert produced.records.obj is buffer
    assert produced.log_append_time_ms == NOW
    assert produced.header == read_header(buffer)
    assert produced.header.has_log_append_time
    assert produced.header.max_timestamp == NOW
    assert produced.header.base_timestamp == 5
    assert [record.timestamp for record in decode_batch(buffer)] == [NOW, NOW]


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_a_topics_own_compression_replaces_the_producers(source: Codec, target: Codec) -> None:
    records = [Record(i, NOW, b"k", b"some value", (("h", None),)) for i in range(50)]
    batch = encode_batch(records, codec=source, producer_id=9, producer_epoch=1, base_sequence=4)
    produced = produce(batch, ProduceRules(compression=target))
    assert produced.header.codec == target
    assert decode_batch(produced.records) == records
    assert produced.header == read_header(produced.records)
    assert produced.header.size_bytes == len(produced.records)
    expected = read_header(batch)
    assert produced.header[6:] == expected[6:]
    if source == target:
        assert bytes(produced.records) == batch


def test_recompression_takes_the_topics_level_and_keeps_other_rules() -> None:
    batch = encode_batch([Record(timestamp=1, key=b"k", value=bytes(range(256)) * 40)])
    sizes = [
        len(produce(batch, ProduceRules(compression=Codec.ZSTD, level=level)).records)
        for level in (1, 19)
    ]
    assert sizes[1] < sizes[0] < len(batch) // 4
    rules = ProduceRules(compression=Codec.GZIP, log_append_time=True)
    stamped = produce(batch, rules)
    assert decode_batch(stamped.records)[0].timestamp == NOW


def test_a_batch_that_grows_too_large_by_recompression_is_refused() -> None:
    batch = encode_batch([Record(timestamp=NOW, value=bytes(2000))], codec=Codec.ZSTD)
    rules = ProduceRules(max_message_bytes=1000, compression=Codec.NONE)
    assert refused(batch, rules) == Error.MESSAGE_TOO_LARGE


@settings(max_examples=seeds.times(400), deadline=None)
@given(st.sampled_from(Codec), st.booleans(), st.data())
def test_whatever_arrives_is_taken_with_a_right_checksum_or_refused(
    codec: Codec, resum: bool, data: st.DataObject
) -> None:
    batch = bytearray(encode_batch([RECORD, RECORD, Record(timestamp=NOW)], codec=codec))
    for _ in range(data.draw(st.integers(0, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    del batch[data.draw(st.integers(0, len(batch)) | st.just(len(batch))) :]
    batch += data.draw(st.binary(max_size=30))
    if resum and len(batch) > HEADER_BYTES:
        write_checksum(batch)
    try:
        produced = validate_produce(memoryview(batch), PLAIN, NOW)
    except RecordsRefused as refusal_:
        assert refusal_.error != Error.UNKNOWN_SERVER_ERROR
    else:
        assert crc32c(produced.records[21:]) == produced.header.crc
        assert len(decode_batch(produced.records)) == produced.header.record_count
