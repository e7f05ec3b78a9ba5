"""The produce lane answers to the byte what the ordinary handler answers, or leaves it alone."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.handlers.topic_data.produce_fast_path import VERSIONS, ProduceLane
from moldau.model.cluster import PartitionImage
from moldau.records.batch_codec import Record, encode_batch
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.request_framing import encode_request, encode_response, read_request_header
from tests.support.services import NODE_ID, Node, batch, play

PRODUCE = 0
CORRELATION_ID = 77


def produce(
    records: bytes | None,
    topic_id: bytes,
    topic: str = "t",
    acks: int = -1,
    transactional_id: str | None = None,
    partitions: int = 1,
) -> ProduceRequest:
    rows = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(topic_id=topic_id, name=topic, partition_data=rows)],
    )


def by_lane(lane: ProduceLane, request: ProduceRequest, version: int) -> bytes | None:
    whole = encode_request(PRODUCE, version, CORRELATION_ID, "test", request)
    frame = memoryview(bytearray(whole[4:]))
    return lane.answer(frame, read_request_header(frame).body_position, version, CORRELATION_ID)


async def by_handler(node: Node, request: ProduceRequest, version: int) -> bytes:
    (whole,) = encode_response(PRODUCE, version, CORRELATION_ID, await node.call(request, version))
    assert isinstance(whole, bytes)
    return whole


def numbered(sequence: int) -> bytes:
    return encode_batch(
        [Record(0, 1_000, b"k", b"v", ())], producer_id=5, producer_epoch=0, base_sequence=sequence
    )


def wrong_checksum() -> bytes:
    broken = bytearray(batch(b"x"))
    broken[-1] ^= 1
    return bytes(broken)


@pytest.mark.parametrize("configs", [{}, {"message.timestamp.type": "LogAppendTime"}])
@pytest.mark.parametrize("version", VERSIONS)
def test_lane_and_handler_give_the_same_bytes_one_after_the_other(
    version: int, configs: dict[str, str | None], tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        fast = await node.create_topic("fast", configs=configs)
        slow = await node.create_topic("slow", configs=configs)
        lane = ProduceLane(node.on)
        requests = [batch(b"a"), batch(b"b", b"c"), numbered(0), numbered(1), numbered(1)]
        requests += [numbered(7), wrong_checksum(), batch(b"d" * 300)]
        for records in requests:
            one = by_lane(lane, produce(records, fast, "fast"), version)
            other = await by_handler(node, produce(records, slow, "slow"), version)
            assert one is not None
            assert one.replace(b"fast", b"slow").replace(fast, slow) == other

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_plain_is_left_to_the_handler_untouched(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        t = await node.create_topic("t", partitions=2)
        lane = ProduceLane(node.on)
        transactional = encode_batch(
            [Record(0, 1, b"k", b"v", ())],
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        left_alone = [
            produce(batch(b"a"), t, acks=0),
            produce(batch(b"a"), t, acks=2),
            produce(batch(b"a"), t, transactional_id="tx"),
            produce(batch(b"a"), t, partitions=2),
            produce(batch(b"a"), t, partitions=0),
            produce(transactional, t),
            produce(None, t),
            produce(b"", t),
            produce(batch(b"a"), bytes(16), topic="missing"),
        ]
        for request in left_alone:
            assert by_lane(lane, request, version) is None
        assert node.replicas.find("t", 0).log.offset_end == 0

    play(scenario, tmp_path)


def test_a_frame_cut_anywhere_stores_nothing(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        t = await node.create_topic("t")
        lane = ProduceLane(node.on)
        assert by_lane(lane, produce(batch(b"a"), t), 12)
        whole = encode_request(PRODUCE, 12, 1, "test", produce(batch(b"a"), t))[4:]
        position = read_request_header(whole).body_position
        for size in range(position, len(whole)):
            frame = memoryview(bytearray(whole[:size]))
            with suppress(struct.error, IndexError):
                assert lane.answer(frame, position, 12, 1) is None
        assert node.replicas.find("t", 0).log.offset_end == 1

    play(scenario, tmp_path)


def test_a_replicated_partition_is_left_to_the_handler_and_a_removed_one_is_forgotten(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        lane = ProduceLane(node.on)
        two = PartitionImage(NODE_ID, 3, (NODE_ID, 2), (NODE_ID, 2))
        replicated = node.place("replicated", two)
        assert by_lane(lane, produce(batch(b"a"), replicated, "replicated"), 12) is None
        old = await node.create_topic("t")
        assert by_lane(lane, produce(batch(b"a"), old), 12)
        await node.controller.delete_topics(["t"])
        assert by_lane(lane, produce(batch(b"a"), old), 12) is None
        new = await node.create_topic("t")
        assert by_lane(lane, produce(batch(b"a"), new), 12)
        assert by_lane(lane, produce(batch(b"a"), old), 13) is None
        assert node.replicas.find("t", 0).log.offset_end == 1

    play(scenario, tmp_path)


def in_transaction(sequence: int, epoch: int = 0) -> bytes:
    return batch(
        b"t", producer_id=5, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["", "tx", "n" * 126])
def test_a_batch_of_a_transaction_that_the_partition_knows_takes_the_lane(
    name: str, version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        lane = ProduceLane(node.on)
        first = produce(in_transaction(0), topic_id, transactional_id=name)
        assert by_lane(lane, first, version) is None, "the coordinator has to be asked"
        assert node.replicas.find("t", 0).log.offset_end == 0
        node.replicas.find("t", 0).append(memoryview(bytearray(in_transaction(0))), -1, 1_000)
        second = produce(in_transaction(1), topic_id, transactional_id=name)
        assert by_lane(lane, second, version) is not None
        again = produce(in_transaction(1), topic_id, transactional_id=name)
        assert by_lane(lane, again, version) == await by_handler(node, again, version)
        assert node.replicas.find("t", 0).log.offset_end == 2

    play(scenario, tmp_path)


def test_what_does_not_fit_the_open_transaction_takes_the_ordinary_way(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        lane = ProduceLane(node.on)
        node.replicas.find("t", 0).append(memoryview(bytearray(in_transaction(0))), -1, 1_000)
        for records, name in [
            (in_transaction(0, epoch=1), "tx"),
            (in_transaction(1), None),
            (in_transaction(1), "n" * 127),
            (numbered(1), "tx"),
        ]:
            assert by_lane(lane, produce(records, topic_id, transactional_id=name), 12) is None
        assert node.replicas.find("t", 0).log.offset_end == 1

    play(scenario, tmp_path)
