"""What old producers send becomes one batch, or is refused with Kafka's own error."""

from __future__ import annotations

import random

import pytest

from moldau.model.errors import Error
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from moldau.records.batch_validation import LongBatch, ProduceRules, RecordsRefused
from moldau.records.compression import Codec, compress
from moldau.records.old_formats.old_produce_requests import validate_old_produce
from tests.support.old_messages import LOG_APPEND_TIME, Old, compressed, message, plain, recode

NOW = 1_000_000
RULES = ProduceRules()
OLDS = [Old(b"a", b"one", NOW), Old(None, b"two", NOW - 5), Old(b"c", None, -1)]
SOME = [old._replace(timestamp=NOW) for old in OLDS]


def stored(records: bytes, rules: ProduceRules = RULES) -> list[Record]:
    produced = validate_old_produce(memoryview(bytearray(records)), rules, NOW)
    assert produced is not None
    assert produced.header.producer_id == -1
    return decode_batch(produced.records)


def gzipped(messages: bytes) -> bytes:
    return compress(Codec.GZIP, messages)


def refusal(records: bytes, rules: ProduceRules = RULES) -> Error:
    with pytest.raises(RecordsRefused) as refused:
        validate_old_produce(memoryview(bytearray(records)), rules, NOW)
    return refused.value.error


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_are_stored_as_one_batch_in_the_producers_codec(magic: int, codec: Codec) -> None:
    sent = compressed(OLDS, magic, codec, 33) if codec else plain(OLDS, magic, 33)
    produced = validate_old_produce(memoryview(bytearray(sent)), RULES, NOW)
    assert produced is not None
    assert produced.header.codec == codec
    assert produced.header.max_timestamp == (NOW if magic else -1)
    assert decode_batch(produced.records) == [
        Record(at, old.timestamp if magic else -1, old.key, old.value)
        for at, old in enumerate(OLDS)
    ]


def test_a_topics_codec_and_its_time_hold_for_old_producers_too() -> None:
    rules = ProduceRules(compression=Codec.ZSTD, log_append_time=True)
    produced = validate_old_produce(memoryview(bytearray(plain(OLDS, 1))), rules, NOW + 9)
    assert produced is not None
    assert produced.header.codec == Codec.ZSTD
    assert produced.log_append_time_ms == NOW + 9
    assert {record.timestamp for record in decode_batch(produced.records)} == {NOW + 9}


def test_a_fragment_behind_the_last_message_is_dropped_and_alone_it_is_nothing() -> None:
    whole = plain(OLDS, 1)
    assert len(stored(whole + whole[:30])) == 3
    for nothing in (b"", whole[:10], whole[:20]):
        assert validate_old_produce(memoryview(bytearray(nothing)), RULES, NOW) is None


def test_damage_is_told_as_such() -> None:
    whole = bytearray(plain(OLDS, 1))
    whole[-1] ^= 1
    assert refusal(bytes(whole)) == Error.CORRUPT_MESSAGE
    inner = bytearray(plain(SOME, 1))
    inner[-5] ^= 1
    wrapped = message(Old(None, gzipped(bytes(inner)), NOW), 1, 2, Codec.GZIP)
    assert refusal(wrapped) == Error.CORRUPT_MESSAGE
    short = plain(OLDS, 1)[:8] + (3).to_bytes(4, "big") + bytes(30)
    assert refusal(short) == Error.CORRUPT_MESSAGE
    unknown = bytearray(plain(OLDS, 1))
    unknown[16] = 3
    assert refusal(bytes(unknown)) == Error.CORRUPT_MESSAGE


def test_what_is_no_sane_set_of_messages_is_an_invalid_record() -> None:
    one = compressed(SOME, 1, Codec.GZIP)
    assert refusal(one + one) == Error.INVALID_RECORD
    assert refusal(plain(SOME, 1) + one) == Error.INVALID_RECORD
    assert refusal(plain(SOME, 0) + plain(SOME, 1)) == Error.INVALID_RECORD
    assert refusal(compressed([], 1, Codec.GZIP)) == Error.INVALID_RECORD
    misnumbered = Old(None, gzipped(plain(SOME, 1, 7)), NOW)
    assert refusal(message(misnumbered, 1, 3, Codec.GZIP)) == Error.INVALID_RECORD
    assert len(stored(message(misnumbered, 1, 0, Codec.GZIP))) == 3
    nested = compressed([Old(None, b"x", NOW)], 1, Codec.GZIP)
    assert refusal(message(Old(None, nested, NOW), 1, 0, Codec.ZSTD)) == Error.INVALID_RECORD
    garbage = message(Old(None, b"no gzip", NOW), 1, 0, Codec.GZIP)
    assert refusal(garbage) == Error.INVALID_RECORD
    assert refusal(message(Old(None, None, NOW), 1, 0, Codec.GZIP)) == Error.INVALID_RECORD
    torn = bytearray(message(Old(b"key", b"value", NOW), 1))
    torn[26:30] = (99).to_bytes(4, "big")
    assert refusal(recode(bytes(torn))) == Error.INVALID_RECORD


def test_the_topics_rules_hold() -> None:
    compacted = ProduceRules(keys_required=True)
    assert refusal(plain(SOME, 1), compacted) == Error.INVALID_RECORD
    assert len(stored(plain(SOME[:1], 1), compacted)) == 1
    early = ProduceRules(before_max_ms=100)
    late = [Old(b"k", b"v", NOW - 200)]
    assert refusal(plain(late, 1), early) == Error.INVALID_TIMESTAMP
    assert len(stored(plain(late, 0), early)) == 1
    assert refusal(plain([Old(b"k", b"v", -7)], 1)) == Error.INVALID_TIMESTAMP
    stamping = ProduceRules(log_append_time=True)
    marked = message(SOME[0], 1, 0, LOG_APPEND_TIME)
    assert refusal(marked, stamping) == Error.INVALID_TIMESTAMP
    assert len(stored(marked)) == 1


def test_the_limit_holds_for_each_message_and_for_what_is_stored() -> None:
    rules = ProduceRules(max_message_bytes=500)
    big = [Old(None, random.Random(1).randbytes(600), NOW)]
    assert refusal(plain(big, 1), rules) == Error.MESSAGE_TOO_LARGE
    many = [Old(None, b"x" * 100, NOW)] * 10
    assert refusal(plain(many, 1), rules) == Error.MESSAGE_TOO_LARGE
    assert len(stored(compressed(many, 1, Codec.GZIP), rules)) == 10


def test_many_messages_are_not_checked_where_others_wait() -> None:
    in_a_hurry = ProduceRules(at_leisure=False)
    many = plain([Old(None, b"x" * 1_000, NOW)] * 2_100, 1)
    with pytest.raises(LongBatch):
        validate_old_produce(memoryview(bytearray(many)), in_a_hurry, NOW)
    assert refusal(many) == Error.MESSAGE_TOO_LARGE
    assert len(stored(many[: len(many) // 4], in_a_hurry)) == 525


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = compressed([Old(None, bytes(70 << 20), NOW)], 1, Codec.GZIP)
    assert refusal(bomb) == Error.MESSAGE_TOO_LARGE


def test_batches_may_come_in_old_requests_one_at_a_time() -> None:
    batch = encode_batch([Record(0, NOW, b"k", b"v")], codec=Codec.ZSTD)
    assert len(stored(batch)) == 1
    assert refusal(batch + batch) == Error.INVALID_RECORD
    assert refusal(plain(SOME, 1) + batch) == Error.INVALID_RECORD
    assert refusal(batch + plain(SOME, 1)) == Error.INVALID_RECORD
    assert refusal(batch * 20_000) == Error.INVALID_RECORD
    assert len(stored(batch + batch[:30])) == 1
