"""Batches that other implementations wrote are read, and they read ours."""

from __future__ import annotations

import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder

from moldau.records.batch import read_header
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    decode_batch,
    decode_marker,
    encode_batch,
    encode_marker,
)
from moldau.records.batch_validation import ProduceRules, validate_produce
from moldau.records.compression import Codec

with warnings.catch_warnings():
    # kafka-python reads its schemas through a deprecated function while it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as PythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

NOW = 1_700_000_000_000

# What Apache Kafka 4.3.1's Java client writes: MemoryRecords.withIdempotentRecords and
# withEndTransactionMarker.
JAVA_RECORDS = [
    Record(0, NOW, b"key", b"value"),
    Record(1, NOW + 5, None, b", ".join([b"no key"] * 6)),
    Record(2, NOW - 10, b"tombstone", None, (("h", b"x"), ("null", None), ("", b""))),
]
JAVA_BATCHES = {
    Codec.NONE: (
        "000000000000000000000091ffffffff0256333ee10000000000020000018bcfe568000000018bcfe56805"
        "000000000000126700037ffffffe000000031c000000066b65790a76616c75650068000a02015c6e6f206b"
        "65792c206e6f206b65792c206e6f206b65792c206e6f206b65792c206e6f206b65792c206e6f206b657900"
        "3600130412746f6d6273746f6e65010602680278086e756c6c010000"
    ),
    Codec.GZIP: (
        "000000000000000000000080ffffffff0208e96c4c0001000000020000018bcfe568000000018bcfe56805"
        "000000000000126700037ffffffe000000031f8b08000000000000ff9361606060cb4eade42a4bcc294d65"
        "c860e062628cc9cb57000ae928104733983108b30895e4e7261597e4e7a532b23165305570e495e6e43032"
        "300000292ea41560000000"
    ),
    Codec.SNAPPY: (
        "000000000000000000000085ffffffff02b9d73d6a0002000000020000018bcfe568000000018bcfe56805"
        "000000000000126700037ffffffe0000000382534e415050590000000001000000010000004060701c0000"
        "00066b65790a76616c75650068000a02015c6e6f206b65792c2096080070003600130412746f6d6273746f"
        "6e65010602680278086e756c6c010000"
    ),
    Codec.LZ4: (
        "000000000000000000000081ffffffff02c414d06b0003000000020000018bcfe568000000018bcfe56805"
        "000000000000126700037ffffffe0000000304224d1860408241000000ff0e1c000000066b65790a76616c"
        "75650068000a02015c6e6f206b65792c20080013f00e003600130412746f6d6273746f6e65010602680278"
        "086e756c6c01000000000000"
    ),
    Codec.ZSTD: (
        "00000000000000000000007effffffff0264dacfff0004000000020000018bcfe568000000018bcfe56805"
        "000000000000126700037ffffffe0000000328b52ffd00580c0200a4031c000000066b65790a76616c7565"
        "0068000a02015c6e6f206b65792c20003600130412746f6d6273746f6e65010602680278086e756c6c0100"
        "000100dd539c010000"
    ),
}
JAVA_MARKERS = {
    ControlType.ABORT: (
        "000000000000002a0000004200000007025ce451790030000000000000018bcfe568000000018bcfe56800"
        "00000000000012670003ffffffff000000012000000008000000000c00000000000900"
    ),
    ControlType.COMMIT: (
        "000000000000002a000000420000000702a8da87310030000000000000018bcfe568000000018bcfe56800"
        "00000000000012670003ffffffff000000012000000008000000010c00000000000900"
    ),
}

RECORDS = [
    Record(
        i,
        NOW + i % 7,
        None if i % 3 == 0 else b"key %d" % i,
        None if i % 5 == 0 else b"value " * (i % 50),
        (("first", b"x"), ("null", None)) if i % 2 else (),
    )
    for i in range(500)
]


@pytest.mark.parametrize("codec", Codec)
def test_batches_of_the_java_client_are_read_and_accepted(codec: Codec) -> None:
    batch = bytes.fromhex(JAVA_BATCHES[codec])
    assert decode_batch(batch) == JAVA_RECORDS
    produced = validate_produce(memoryview(bytearray(batch)), ProduceRules(), NOW)
    assert bytes(produced.records) == batch
    assert produced.header.producer_id == 4711
    assert produced.header.last_sequence == 0


def test_an_uncompressed_batch_is_the_same_byte_for_byte_as_javas() -> None:
    ours = encode_batch(JAVA_RECORDS, producer_id=4711, producer_epoch=3, base_sequence=2**31 - 2)
    assert ours.hex() == JAVA_BATCHES[Codec.NONE]


@pytest.mark.parametrize("kind", ControlType)
def test_end_markers_are_the_same_byte_for_byte_as_javas(kind: ControlType) -> None:
    ours = encode_marker(
        EndMarker(kind, coordinator_epoch=9),
        producer_id=4711,
        producer_epoch=3,
        timestamp=NOW,
        base_offset=42,
        leader_epoch=7,
    )
    assert ours.hex() == JAVA_MARKERS[kind]
    assert decode_marker(decode_batch(ours)[0]) == EndMarker(kind, 9)


# kafka-python needs a further package for each of the other codecs; aiokafka has them all.
@pytest.mark.parametrize(
    ("builder", "codec"),
    [(AioBuilder, codec) for codec in Codec]
    + [(PythonBuilder, codec) for codec in (Codec.NONE, Codec.GZIP)],
)
def test_batches_of_python_clients_are_read_and_accepted(builder: type, codec: Codec) -> None:
    made = builder(2, codec, False, 7, 1, 5, 10**6)
    for record in RECORDS:
        made.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(made.build())
    assert read_header(batch).codec == codec
    assert decode_batch(batch) == RECORDS
    produced = validate_produce(memoryview(bytearray(batch)), ProduceRules(), NOW)
    assert bytes(produced.records) == batch


@pytest.mark.parametrize(
    ("reader", "codec"),
    [(AioBatch, codec) for codec in Codec]
    + [(PythonBatch, codec) for codec in (Codec.NONE, Codec.GZIP)],
)
def test_python_clients_read_our_batches(reader: type, codec: Codec) -> None:
    batch = reader(encode_batch(RECORDS, codec=codec))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert read == RECORDS
