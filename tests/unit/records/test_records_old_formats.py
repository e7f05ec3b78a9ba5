"""Messages of magic 0 and 1: up to batches and down again, by us and as kafka-python has them."""

from __future__ import annotations

import random
import warnings
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.errors import ApiError, Error
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    decode_batch,
    encode_batch,
    encode_marker,
)
from moldau.records.compression import Codec
from moldau.records.old_formats import down_conversion
from moldau.records.old_formats import old_messages as installed
from moldau.records.old_formats.down_conversion import for_old_readers
from moldau.records.old_formats.old_lz4_frames import xxh32
from moldau.records.old_formats.up_conversion import first_offset, is_old, read_old, to_batches
from tests.support import seeds
from tests.support.old_messages import LOG_APPEND_TIME, Old, compressed, message, plain
from tests.support.uncompiled import uncompiled

with warnings.catch_warnings():
    # kafka-python reads its schemas through a deprecated function while it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.legacy_records import LegacyRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

PLAIN = uncompiled(installed)
KERNELS = [PLAIN, installed] if installed.COMPILED else [PLAIN]
OLD_CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
OLDS = [
    Old(b"a", b"one", 1000),
    Old(None, b"two" * 50, 1500),
    Old(b"", None, 1200),
    Old(None, b"", -1),
]


def records_of(buffer: bytes) -> list[Record]:
    found = []
    for position, _ in batches_in(buffer):
        found += decode_batch(buffer, position)
    return found


def batches_in(buffer: bytes) -> list[tuple[int, int]]:
    from moldau.records.batch import whole_headers

    return [(position, header.size_bytes) for position, header in whole_headers(buffer)]


def count_of_messages(buffer: bytes) -> int:
    """A compressed one that holds others counts once."""
    position = count = 0
    while position < len(buffer):
        position += 12 + int.from_bytes(buffer[position + 8 : position + 12], "big")
        count += 1
    return count


def expected(magic: int, offset: int = 0) -> list[Record]:
    return [
        Record(offset + at, old.timestamp if magic else -1, old.key, old.value)
        for at, old in enumerate(OLDS)
    ]


def read_by_kafka_python(buffer: bytes) -> list[Record]:
    found = []
    records = MemoryRecords(buffer)
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for each in batch:
            timestamp = -1 if each.timestamp is None else each.timestamp
            found.append(Record(each.offset, timestamp, each.key, each.value))
    return found


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_become_one_batch_with_their_offsets_and_times(magic: int) -> None:
    upgraded = to_batches(plain(OLDS, magic, 70))
    assert len(batches_in(upgraded)) == 1
    assert records_of(upgraded) == expected(magic, 70)


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_becomes_a_batch_of_what_it_holds(magic: int, codec: Codec) -> None:
    stored = compressed(OLDS, magic, codec, 70)
    assert records_of(to_batches(stored)) == expected(magic, 70)
    assert first_offset(stored) == 70
    assert read_old(stored)[-1].offset == 73


# Without another package kafka-python cannot make lz4's broken checksum.
FOREIGN = [(magic, codec) for magic in (0, 1) for codec in range(4) if (magic, codec) != (0, 3)]


@pytest.mark.parametrize(("magic", "codec"), FOREIGN)
def test_what_kafka_python_writes_is_read(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for at, old in enumerate(OLDS):
        builder.append(at, timestamp=old.timestamp, key=old.key, value=old.value, headers=[])
    assert records_of(to_batches(bytes(builder.build()))) == expected(magic)


def test_formats_may_follow_one_another_in_a_log() -> None:
    stored = (
        plain(OLDS, 0, 0)
        + compressed(OLDS, 1, Codec.GZIP, 4)
        + plain(OLDS, 1, 8)
        + encode_batch(expected(1), base_offset=12)
    )
    found = records_of(to_batches(stored + stored[:20]))
    assert [record.offset for record in found] == list(range(16))
    assert is_old(stored)
    assert not is_old(encode_batch(OLDS_AS_RECORDS))


OLDS_AS_RECORDS = [Record(0, old.timestamp, old.key, old.value) for old in OLDS]


def test_the_time_that_a_broker_gave_stays_the_brokers() -> None:
    given_time = [Old(b"k", b"v", 7000), Old(b"k", b"w", 7000), Old(b"k", b"x", 8000)]
    stored = b"".join(message(old, 1, at, LOG_APPEND_TIME) for at, old in enumerate(given_time))
    upgraded = to_batches(stored)
    assert [record.timestamp for record in records_of(upgraded)] == [7000, 7000, 8000]
    assert len(batches_in(upgraded)) == 2
    wrapped = compressed(OLDS, 1, Codec.GZIP, 5, LOG_APPEND_TIME, timestamp=9000)
    assert {record.timestamp for record in read_old(wrapped)} == {9000}


@pytest.mark.parametrize("codec", [Codec.NONE, *OLD_CODECS])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_goes_down_and_kafka_python_reads_it(magic: int, codec: Codec) -> None:
    rows = [row._replace(headers=(("h", b"x"),)) for row in OLDS_AS_RECORDS]
    batch = encode_batch(rows, base_offset=70, codec=codec)
    down, offset_end = for_old_readers(batch, magic, 70)
    assert offset_end == 74
    assert {down[16]} == {magic}
    if (magic, codec) in FOREIGN:
        assert read_by_kafka_python(down) == expected(magic, 70)
    assert records_of(to_batches(down)) == expected(magic, 70)


def test_plain_messages_begin_where_they_were_asked_for_and_compressed_ones_are_whole() -> None:
    for codec, first in ((Codec.NONE, 72), (Codec.GZIP, 70)):
        batch = encode_batch(OLDS_AS_RECORDS, base_offset=70, codec=codec)
        found = records_of(to_batches(for_old_readers(batch, 1, 72).messages))
        assert [record.offset for record in found] == list(range(first, 74))


def test_a_log_append_time_goes_down_to_magic_1() -> None:
    for codec in (Codec.NONE, Codec.LZ4):
        batch = encode_batch(OLDS_AS_RECORDS, codec=codec, log_append_time_ms=5000)
        down = for_old_readers(batch, 1, 0).messages
        assert down[17] & LOG_APPEND_TIME
        assert {record.timestamp for record in read_by_kafka_python(down)} == {5000}


def test_markers_vanish_and_the_reader_is_told_how_far_they_went() -> None:
    marker = encode_marker(
        EndMarker(ControlType.COMMIT, 0),
        producer_id=1,
        producer_epoch=0,
        timestamp=1,
        base_offset=4,
    )
    assert for_old_readers(marker, 1, 4) == (b"", 5)
    both = marker + encode_batch(OLDS_AS_RECORDS, base_offset=5)
    assert read_by_kafka_python(for_old_readers(both, 1, 4).messages)[0].offset == 5


def test_zstd_is_refused_or_comes_with_the_next_fetch() -> None:
    zstd = encode_batch(OLDS_AS_RECORDS, base_offset=4, codec=Codec.ZSTD)
    with pytest.raises(ApiError) as refused:
        for_old_readers(zstd, 1, 4)
    assert refused.value.error == Error.UNSUPPORTED_COMPRESSION_TYPE
    before = encode_batch(OLDS_AS_RECORDS)
    assert len(records_of(to_batches(for_old_readers(before + zstd, 1, 0).messages))) == 4


def test_old_messages_are_passed_on_to_those_who_know_them_and_go_down_for_the_others() -> None:
    stored = compressed(OLDS, 1, Codec.SNAPPY, 4) + plain(OLDS, 0, 8)
    assert for_old_readers(stored, 1, 4).messages == stored
    down = read_by_kafka_python(for_old_readers(stored, 0, 4).messages)
    # Recompressed they may take a little more room, which is not given.
    assert len(down) > 4
    assert down == [*expected(0, 4), *expected(0, 8)][: len(down)]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_of_many_records_goes_down_piece_by_piece(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(down_conversion, "RECORDS_PER_PIECE", 100)
    rows = [Record(0, 1000 + n, None, b"%d" % n) for n in range(350)]
    batch = encode_batch(rows, base_offset=70, codec=Codec.GZIP)
    down, offset_end = for_old_readers(batch, magic, 70)
    assert offset_end == 420
    assert count_of_messages(down) == 4
    found = records_of(to_batches(down))
    assert [(row.offset, row.value) for row in found] == [(70 + n, b"%d" % n) for n in range(350)]
    assert read_by_kafka_python(down) == found


def test_plain_messages_of_one_batch_end_where_the_limit_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(down_conversion, "RECORDS_PER_PIECE", 100)
    batch = encode_batch([Record(0, 1, None, b"x")] * 1_000)
    down, offset_end = for_old_readers(batch, 1, 0)
    assert len(down) <= len(batch)
    rest, all_of_it = for_old_readers(batch, 1, offset_end, 1 << 20)
    offsets = [row.offset for row in records_of(to_batches(down + rest))]
    assert (offsets, all_of_it) == (list(range(1_000)), 1_000)


def test_an_answer_grows_no_larger_than_its_batches_or_the_first_of_them() -> None:
    small = [Record(0, 1, None, b"x")] * 200
    batches = [encode_batch(small, base_offset=200 * at) for at in range(10)]
    whole = b"".join(batches)
    down, offset_end = for_old_readers(whole, 1, 0)
    assert len(for_old_readers(whole, 1, 0, 1 << 20).messages) > len(whole)
    first = for_old_readers(batches[0], 1, 0).messages
    assert len(first) > len(batches[0])
    assert len(first) <= len(down) <= len(whole)
    assert read_by_kafka_python(down)[-1].offset == offset_end - 1


def test_the_checksum_of_magic_0_in_lz4_is_the_broken_one() -> None:
    # XXH32 of b"" and b"abc" with seed 0, from the algorithm's own test vectors.
    assert (xxh32(b""), xxh32(b"abc")) == (0x02CC5D05, 0x32D153FF)
    assert xxh32(b"Nobody inspects the spammish repetition") == 0xE2293B2F
    right, broken = (compressed(OLDS, magic, Codec.LZ4) for magic in (1, 0))
    frame = (right.index(b"\x04\x22\x4d\x18"), broken.index(b"\x04\x22\x4d\x18"))
    assert right[frame[0] : frame[0] + 6] == broken[frame[1] : frame[1] + 6]
    assert right[frame[0] + 6] != broken[frame[1] + 6]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda module: str(module.COMPILED))
def test_a_damaged_message_is_told_and_ends_the_scan(kernel: ModuleType) -> None:
    stored = plain(OLDS, 1)
    size = len(message(OLDS[0], 1))
    damaged = bytearray(stored)
    damaged[size + 30] ^= 1
    assert len(kernel.scan_messages(stored, stored, 0, len(stored), True)) == 4
    assert len(kernel.scan_messages(damaged, damaged, 0, len(damaged), True)) == 1
    assert len(kernel.scan_messages(damaged, damaged, 0, len(damaged), False)) == 4
    run = (1, True, 0, 1000)
    fault = kernel.upgrade_messages(damaged, damaged, 0, len(damaged), bytearray(), run)
    assert fault[:2] == (kernel.BAD_CHECKSUM, 1)
    with pytest.raises(IndexError):
        kernel.scan_messages(stored, stored, 0, len(stored) + 1, False)


def test_a_message_is_found_by_its_offset() -> None:
    stored = plain(OLDS, 1, 10)
    for kernel in KERNELS:
        found = kernel.find_message(stored, 0, len(stored), 11)
        assert found == (True, len(message(OLDS[0], 1)))
        assert kernel.find_message(stored, 0, len(stored), 14) == (False, len(stored))


@settings(max_examples=seeds.times(300), deadline=None)
@given(st.data())
def test_no_bytes_do_harm_and_both_kernels_agree_on_them(data: st.DataObject) -> None:
    magic = data.draw(st.sampled_from([0, 1]))
    codec = data.draw(st.sampled_from([Codec.NONE, *OLD_CODECS]))
    content = bytearray(compressed(OLDS, magic, codec, 5) if codec else plain(OLDS, magic, 5))
    chance = random.Random(data.draw(st.integers(0, 1 << 30)))
    for _ in range(chance.randrange(6)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    del content[chance.randrange(len(content) + 1) :]
    answers = []
    for kernel in KERNELS:
        out = bytearray()
        run = (magic, chance.random() < 0.5 if kernel is PLAIN else answers[0][0], 5, -1)
        end = len(content)
        answers.append(
            (
                run[1],
                kernel.scan_messages(content, content, 0, end, True),
                kernel.survey_messages(content, content, 0, end, True),
                kernel.find_message(content, 0, end, 7),
                kernel.holds_old(content, 0, end),
                kernel.upgrade_messages(content, content, 0, end, out, run),
                bytes(out),
                kernel.run_end(content, 0, end),
            )
        )
    assert all(answer == answers[0] for answer in answers)
    for attempt in (lambda: to_batches(content), lambda: for_old_readers(content, 0, 5)):
        try:
            attempt()
        except ApiError as refusal:
            assert refusal.error in (Error.CORRUPT_MESSAGE, Error.MESSAGE_TOO_LARGE)


@settings(max_examples=seeds.times(200), deadline=None)
@given(st.binary(max_size=200), st.integers(0, 9), st.sampled_from([0, 1]), st.booleans())
def test_both_kernels_write_the_same_messages(
    noise: bytes, count: int, magic: int, is_relative: bool
) -> None:
    good = encode_batch(OLDS_AS_RECORDS)[61:]
    for body in (noise, good, good[:-3] + noise[:3]):
        answers = []
        for kernel in KERNELS:
            out = bytearray()
            form = (magic, 0, 71, is_relative)
            answers.append(
                (
                    kernel.write_messages(body, body, 0, count, out, (70, 1000, -1), form),
                    bytes(out),
                )
            )
        assert all(answer == answers[0] for answer in answers)
