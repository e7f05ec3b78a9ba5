"""The records of `__consumer_offsets`: Apache Kafka's own bytes, read and written."""

from __future__ import annotations

import pytest

from moldau.groups import group_facts, group_record_codec
from moldau.groups.group_facts import CommittedOffset, StoredMember
from moldau.groups.group_record_codec import GroupCodec
from moldau.groups.group_records import VERSION
from moldau.model.names import TopicPartition
from moldau.records.batch import read_header
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from moldau.records.compression import Codec
from moldau.wire.messages.group_records import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)

MEMBER_ID = "cl-f2bf8499-5ced-402a-839f-5b26e0f74675"
TOPIC_ID = bytes.fromhex("05e422bdd070470482d3f87be2ee3bc3")
PLACE = TopicPartition("orders", 0)

# Key, value and meaning of records that Apache Kafka 4.3.1 has written.
WRITTEN_BY_KAFKA = [
    (
        "000200026731",
        "0003000000000000ffffffff000001a1e15e193e00000000",
        group_facts.GroupStored("g1", None, 0, None, None, 1794782402878),
    ),
    (
        "000200026731",
        "00030008636f6e73756d657200000001000572616e67650027636c2d66326266383439392d"
        "356365642d343032612d383339662d356232366530663734363735000001a1e15e25510000"
        "00010027636c2d66326266383439392d356365642d343032612d383339662d356232366530"
        "663734363735ffff0002636c000a2f3132372e302e302e3100004e2000002710000000046d"
        "6574610000000461737369",
        group_facts.GroupStored(
            "g1",
            "consumer",
            1,
            "range",
            MEMBER_ID,
            1794782405969,
            (StoredMember(MEMBER_ID, None, "cl", "/127.0.0.1", 20000, 10000, b"meta", b"assi"),),
        ),
    ),
    (
        "00010002673100066f726465727300000000",
        "0004000000000000000500000000056e6f7465000001a1e15e258501001005e422bdd07047"
        "0482d3f87be2ee3bc3",
        group_facts.OffsetsCommitted(
            "g1", ((PLACE, CommittedOffset(5, 0, "note", 1794782406021, topic_id=TOPIC_ID)),)
        ),
    ),
    (
        "0001000673696d706c6500066f726465727300000001",
        "000100000000000000070000000001a1e15e25a4000001a1e15f1004",
        group_facts.OffsetsCommitted(
            "simple",
            (
                (
                    TopicPartition("orders", 1),
                    CommittedOffset(7, -1, "", 1794782406052, 1794782466052),
                ),
            ),
        ),
    ),
    (
        "0001000673696d706c6500066f726465727300000001",
        None,
        group_facts.OffsetsRemoved("simple", (TopicPartition("orders", 1),)),
    ),
    ("0002000673696d706c65", None, group_facts.GroupDeleted("simple")),
]


def read(batches: list[bytes]) -> list[object]:
    found: list[object] = []
    for batch in batches:
        found += GroupCodec().decode(read_header(batch), decode_batch(batch))
    return found


@pytest.mark.parametrize(("key", "value", "fact"), WRITTEN_BY_KAFKA)
def test_kafkas_records_are_read_and_written_byte_for_byte(
    key: str, value: str | None, fact: object
) -> None:
    (batch,) = GroupCodec().encode([fact], 5)
    (record,) = decode_batch(batch)
    assert record.key == bytes.fromhex(key)
    assert record.value == (None if value is None else bytes.fromhex(value))
    assert record.timestamp == 5
    assert read([batch]) == [fact]


def test_facts_of_one_decision_share_a_batch() -> None:
    found = [fact for _, _, fact in WRITTEN_BY_KAFKA]
    (batch,) = GroupCodec().encode(found, 5)
    assert read([batch]) == found


def test_a_transactions_offsets_and_its_end_are_the_producers_batches() -> None:
    offset = (PLACE, CommittedOffset(5, -1, "", 1))
    held = group_facts.TransactionalOffsetsCommitted("g", 7, 3, (offset,))
    ends = [group_facts.TransactionEnded(7, 3, 9, committed) for committed in (True, False)]
    batches = GroupCodec().encode([held, *ends], 5)
    headers = [read_header(batch) for batch in batches]
    assert [(header.producer_id, header.producer_epoch) for header in headers] == [(7, 3)] * 3
    assert [header.is_transactional for header in headers] == [True] * 3
    assert [header.is_control for header in headers] == [False, True, True]
    assert read(batches) == [held, *ends]


def test_facts_around_a_transaction_keep_their_order() -> None:
    plain = group_facts.OffsetsRemoved("g", (PLACE,))
    end = group_facts.TransactionEnded(7, 3, 9, True)
    batches = GroupCodec().encode([plain, end, plain], 5)
    assert len(batches) == 3
    assert read(batches) == [plain, end, plain]


def test_very_many_records_are_split_into_batches_that_a_log_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_record_codec, "BATCH_BYTES", 1_000)
    places = tuple(TopicPartition("orders", number) for number in range(500))
    batches = GroupCodec().encode([group_facts.OffsetsRemoved("g", places)], 5)
    assert len(batches) > 5
    assert max(len(batch) for batch in batches) < 2_000
    removed = [place for fact in read(batches) for place in fact.places]  # type: ignore[attr-defined]
    assert tuple(removed) == places


def test_batches_are_compressed_as_configured() -> None:
    (batch,) = GroupCodec(Codec.GZIP).encode([group_facts.GroupDeleted("g")], 5)
    assert read_header(batch).codec == Codec.GZIP
    assert read([batch]) == [group_facts.GroupDeleted("g")]


def of_kind(kind: int, value: bytes | None) -> list[object]:
    key = VERSION.pack(kind) + bytes.fromhex("0002673100066f726465727300000000")
    return read([encode_batch([Record(0, 1, key, value)])])


def test_records_of_other_group_protocols_are_passed_over() -> None:
    assert of_kind(3, b"consumer group metadata") == []
    assert of_kind(15, None) == []
    assert read([encode_batch([Record(0, 1, None, b"no key")])]) == []


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_is_read(version: int) -> None:
    value = OffsetCommitValue(offset=5, metadata="note", commit_timestamp=9)
    (fact,) = of_kind(0, VERSION.pack(version) + value.encode(version))
    assert fact == group_facts.OffsetsCommitted("g1", ((PLACE, CommittedOffset(5, -1, "note", 9)),))


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    member = MemberMetadata(
        member_id="m", rebalance_timeout=60, session_timeout=10, subscription=b"s", assignment=b"a"
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]
    )
    (fact,) = of_kind(2, VERSION.pack(version) + value.encode(version))
    rebalance_timeout_ms = 60 if version else 10
    stored = StoredMember("m", None, "", "", rebalance_timeout_ms, 10, b"s", b"a")
    assert fact == group_facts.GroupStored("g1", "consumer", 4, "range", "m", -1, (stored,))
