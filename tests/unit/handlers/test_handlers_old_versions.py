"""Produce before version 3, Fetch before version 4 and ListOffsets 0: what old clients get."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.model.errors import Error
from moldau.records.batch import whole_headers
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from moldau.records.compression import Codec
from moldau.records.old_formats.up_conversion import to_batches
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.fetching import append, append_marker, transactional
from tests.support.old_messages import Old, compressed, message, plain
from tests.support.services import Node, batch, play, turns

OLDS = [Old(b"a", b"one", 1_000_000), Old(None, b"two", 1_000_001)]


async def produce(node: Node, records: bytes, version: int) -> PartitionProduceResponse:
    rows = [PartitionProduceData(index=0, records=records)]
    produced = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=rows)]
    )
    response = await node.call(produced, version)
    ((row,),) = [topic.partition_responses for topic in response.responses]
    return row


def request(offset: int, max_wait_ms: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )


def only_row(response: FetchResponse) -> FetchablePartitionResponse:
    ((row,),) = [topic.partitions for topic in response.responses]
    return row


async def fetch(
    node: Node, offset: int, version: int, max_bytes: int = 1 << 20
) -> FetchablePartitionResponse:
    return only_row(await node.begin(request(offset, max_bytes=max_bytes), version))


def found(row: FetchablePartitionResponse) -> list[Record]:
    records = to_batches(bytes(row.records or b""))
    return [
        record
        for position, _ in whole_headers(records)
        for record in decode_batch(records, position)
    ]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_old_producers_messages_reach_old_and_new_consumers(
    version: int, codec: Codec, tmp_path: Path
) -> None:
    magic = 1 if version == 2 else 0
    sent = compressed(OLDS, magic, codec) if codec else plain(OLDS, magic)

    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        first, second = await produce(node, sent, version), await produce(node, sent, version)
        assert (first.error_code, first.base_offset) == (0, 0)
        assert (second.error_code, second.base_offset) == (0, 2)
        for fetched in (0, 1, 2, 3, 4, 12):
            row = await fetch(node, 0, fetched)
            kept = magic == 1 and fetched > 1
            assert row.error_code == 0
            assert bytes(row.records or b"")[16] == (2 if fetched > 3 else int(fetched > 1))
            assert found(row) == [
                Record(at, old.timestamp if kept else -1, old.key, old.value)
                for at, old in enumerate(OLDS * 2)
            ]

    play(scenario, tmp_path)


def test_an_old_producer_is_refused_with_kafkas_errors(tmp_path: Path) -> None:
    damaged = bytearray(plain(OLDS, 1))
    damaged[-1] ^= 1
    modern = batch(b"a")

    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        assert (await produce(node, bytes(damaged), 2)).error_code == Error.CORRUPT_MESSAGE
        assert (await produce(node, plain(OLDS, 1), 3)).error_code == Error.INVALID_RECORD
        assert (await produce(node, modern + modern, 2)).error_code == Error.INVALID_RECORD
        assert (await produce(node, modern, 2)).error_code == 0
        nothing = await produce(node, b"", 2)
        assert (nothing.error_code, nothing.base_offset) == (0, -1)

    play(scenario, tmp_path)


def test_a_message_whose_bytes_look_like_a_transaction_is_none(tmp_path: Path) -> None:
    sent = message(Old(b"\xff" * 40, b"v"), 0)
    assert sent[22] == 0xFF

    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        assert (await produce(node, sent, 0)).error_code == 0

    play(scenario, tmp_path)


def test_markers_are_passed_over_and_the_consumer_waits_behind_them(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, transactional(b"x", 7))
        append_marker(node, 7, committed=False)
        append(node, batch(b"y"))
        assert [record.value for record in found(await fetch(node, 0, 2))] == [b"x", b"y"]
        assert [record.offset for record in found(await fetch(node, 1, 2))] == [2]
        # Even one that asks for so little that a marker is all it would get.
        assert [record.offset for record in found(await fetch(node, 1, 2, max_bytes=1))] == [2]
        append(node, transactional(b"z", 7, sequence=1))
        append_marker(node, 7, committed=True)
        waiting = node.park(request(4, max_wait_ms=500), 2)
        await turns()
        assert not waiting.done()
        append(node, batch(b"at last"))
        row = only_row(await waiting)
        assert [record.value for record in found(row)] == [b"at last"]

    play(scenario, tmp_path)


def test_much_is_written_anew_in_a_thread_and_keeps_to_the_limits(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        for _ in range(20):
            append(node, batch(*[b"x" * 500] * 20))
        answers = [
            only_row(await node.park(request(0, max_bytes=max_bytes), 3))
            for max_bytes in (100_000, 150_000, 1 << 20)
        ]
        sizes = [len(bytes(row.records or b"")) for row in answers]  # type: ignore[arg-type]
        assert sizes[0] <= 100_000 < sizes[2]
        assert sizes[1] <= 150_000
        assert [record.offset for record in found(answers[2])] == list(range(400))

    play(scenario, tmp_path)


def test_a_batch_of_zstd_is_refused_where_it_comes_first(tmp_path: Path) -> None:
    zstd = encode_batch([Record(0, 1_000_000, None, b"v")], codec=Codec.ZSTD)

    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"), zstd)
        assert (await fetch(node, 1, 3)).error_code == Error.UNSUPPORTED_COMPRESSION_TYPE
        assert len(found(await fetch(node, 0, 3))) == 1
        assert (await fetch(node, 1, 9)).error_code == 0

    play(scenario, tmp_path)


def test_a_length_that_the_disk_has_damaged_ends_the_answer(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"), batch(b"b"))
        (path,) = tmp_path.rglob("t-0/*.log")
        with path.open("r+b") as file:
            file.seek(8)
            file.write(b"\0\0\0\1")
        row = only_row(await node.begin(request(0, max_wait_ms=2), 3))
        assert not row.records

    play(scenario, tmp_path)


def test_a_broker_may_refuse_to_write_records_anew(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"))
        assert (await fetch(node, 0, 3)).error_code == Error.UNSUPPORTED_VERSION
        assert (await fetch(node, 0, 4)).error_code == 0

    play(scenario, tmp_path, log_message_downconversion_enable="false")


def test_a_topic_may_have_its_own_will_in_that(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", configs={"message.downconversion.enable": "false"})
        append(node, batch(b"a"))
        assert (await fetch(node, 0, 3)).error_code == Error.UNSUPPORTED_VERSION

    play(scenario, tmp_path)


def test_topics_stored_in_zstd_are_not_for_consumers_before_version_10(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"))
        for version in (3, 4, 9):
            row = await fetch(node, 0, version)
            assert row.error_code == Error.UNSUPPORTED_COMPRESSION_TYPE
        assert (await fetch(node, 0, 10)).error_code == 0

    play(scenario, tmp_path, compression_type="zstd")


async def offsets(
    node: Node, timestamp: int, count: int, partition: int = 0
) -> ListOffsetsPartitionResponse:
    row = ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, max_num_offsets=count
    )
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[row])])
    response = await node.call(asked, 0)
    ((answer,),) = [topic.partitions for topic in response.topics]
    return answer


def test_offsets_of_version_0_are_starts_of_segments_by_the_time_of_their_files(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        log = node.replicas.find("t", 0).log
        assert (await offsets(node, -1, 5)).old_style_offsets == [0]
        for number in range(3):
            append(node, batch(b"a", b"b"))
            if number < 2:
                log.roll()
        for segment in log.segments:
            os.utime(segment.path(".log"), (500 + segment.base_offset,) * 2)
        assert (await offsets(node, -1, 1)).old_style_offsets == [6]
        assert (await offsets(node, -1, 3)).old_style_offsets == [6, 4, 2]
        assert (await offsets(node, -2, 3)).old_style_offsets == [0]
        assert (await offsets(node, 502_000, 9)).old_style_offsets == [2, 0]
        assert (await offsets(node, 1, 9)).old_style_offsets == []
        assert (await offsets(node, -3, 1)).error_code == Error.UNSUPPORTED_VERSION
        assert (await offsets(node, -1, 1, 9)).error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario, tmp_path)
