"""Produce: what is stored, what is answered, what is refused and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.net.answers import Disconnect
from moldau.records.compression import Codec
from moldau.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.services import NODE_ID, Node, batch, play, turns

TWO_REPLICAS = PartitionImage(NODE_ID, 3, (NODE_ID, 2), (NODE_ID, 2))
NEWEST = 13


def request(
    records: bytes | None,
    topic: str = "t",
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    topic_id: bytes = bytes(16),
    timeout_ms: int = 1000,
) -> ProduceRequest:
    rows = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(topic_id=topic_id, name=topic, partition_data=rows)],
    )


def only_row(response: ProduceResponse) -> PartitionProduceResponse:
    ((row,),) = [topic.partition_responses for topic in response.responses]
    return row


async def produce(
    node: Node, produced: ProduceRequest, version: int = 9
) -> PartitionProduceResponse:
    return only_row(await node.call(produced, version))


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_is_answered_with_the_offset_of_the_first_record(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        first = await produce(node, request(batch(b"a", b"b", b"c")), version)
        second = await produce(node, request(batch(b"d")), version)
        assert (first.error_code, first.base_offset) == (0, 0)
        assert (second.error_code, second.base_offset) == (0, 3)
        assert second.log_append_time_ms == -1

    play(scenario, tmp_path)


def test_topics_are_named_by_id_from_version_13_on(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        response = await node.call(request(batch(), "", topic_id=topic_id), NEWEST)
        assert response.responses[0].topic_id == topic_id
        assert only_row(response).error_code == 0
        unknown = await produce(node, request(batch(), "", topic_id=b"x" * 16), NEWEST)
        assert unknown.error_code == Error.UNKNOWN_TOPIC_ID

    play(scenario, tmp_path)


def test_acks_0_is_stored_and_not_answered(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        assert await node.call(request(batch(), acks=0), 9) is None
        assert node.replicas.find("t", 0).log.offset_end == 1

    play(scenario, tmp_path)


def test_a_refusal_of_acks_0_ends_the_connection(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        with pytest.raises(Disconnect, match="nowhere-0 UNKNOWN_TOPIC_OR_PARTITION"):
            await node.call(request(batch(), "nowhere", acks=0), 9)

    play(scenario, tmp_path)


def test_acks_other_than_minus_1_0_and_1_are_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        row = await produce(node, request(batch(), acks=2))
        assert (row.error_code, row.base_offset) == (Error.INVALID_REQUIRED_ACKS, -1)
        assert node.replicas.find("t", 0).log.offset_end == 0

    play(scenario, tmp_path)


def test_one_partitions_error_leaves_the_others_alone(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        rows = [PartitionProduceData(index=index, records=batch(b"v")) for index in (0, 7, 1, -3)]
        produced = ProduceRequest(
            acks=1, topic_data=[TopicProduceData(name="t", partition_data=rows)]
        )
        response = await node.call(produced, 9)
        errors = [row.error_code for row in response.responses[0].partition_responses]
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == [0, unknown, 0, unknown]

    play(scenario, tmp_path)


def broken(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, Error.INVALID_RECORD),
        (b"", Error.INVALID_RECORD),
        (batch() + batch(), Error.INVALID_RECORD),
        (batch()[:-3], Error.INVALID_RECORD),
        (broken(batch()), Error.CORRUPT_MESSAGE),
        (batch(b"v" * 2_000_000), Error.MESSAGE_TOO_LARGE),
    ],
    ids=["null", "empty", "two batches", "cut off", "wrong checksum", "too large"],
)
def test_a_bad_batch_is_refused_and_nothing_is_stored(
    records: bytes | None, error: Error, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        row = await produce(node, request(records))
        assert (row.error_code, row.base_offset, row.log_start_offset) == (error, -1, -1)
        assert node.replicas.find("t", 0).log.offset_end == 0

    play(scenario, tmp_path)


def test_a_refusal_of_single_records_names_them(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        row = await produce(node, request(batch(b"a", b"b", timestamp=1 << 43)))
        assert (row.error_code, row.log_start_offset) == (Error.INVALID_TIMESTAMP, 0)
        assert [record.batch_index for record in row.record_errors] == [0, 1]
        assert row.error_message

    play(scenario, tmp_path)


def test_a_compacted_topic_takes_no_record_without_a_key(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", configs={"cleanup.policy": "compact"})
        row = await produce(node, request(batch(b"a", key=None)))
        assert row.error_code == Error.INVALID_RECORD
        assert [record.batch_index for record in row.record_errors] == [0]

    play(scenario, tmp_path)


def test_zstd_needs_version_7(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        records = batch(b"a" * 100, codec=Codec.ZSTD)
        old = await produce(node, request(records), 6)
        assert old.error_code == Error.UNSUPPORTED_COMPRESSION_TYPE
        assert (await produce(node, request(records), 7)).error_code == 0

    play(scenario, tmp_path)


def test_a_topic_that_stamps_records_tells_the_time_of_their_arrival(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
        row = await produce(node, request(batch(timestamp=5)))
        assert row.log_append_time_ms == node.clock.wall_ms()

    play(scenario, tmp_path)


def test_a_batch_sent_twice_is_stored_once_and_answered_alike(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        records = batch(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=0)
        for _ in range(2):
            row = await produce(node, request(records))
            assert (row.error_code, row.base_offset) == (0, 0)
        assert node.replicas.find("t", 0).log.offset_end == 2

    play(scenario, tmp_path)


def test_a_gap_in_the_sequence_is_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        await produce(node, request(batch(producer_id=9, producer_epoch=0, base_sequence=0)))
        row = await produce(node, request(batch(producer_id=9, producer_epoch=0, base_sequence=5)))
        assert (row.error_code, row.log_start_offset) == (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)

    play(scenario, tmp_path)


def test_a_transactional_batch_needs_a_transactional_id(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        records = batch(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
        without = await produce(node, request(records))
        assert without.error_code == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    play(scenario, tmp_path)


def test_only_kafkas_tools_write_to_internal_topics(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("__consumer_offsets")
        row = await produce(node, request(batch(), "__consumer_offsets"))
        assert row.error_code == Error.INVALID_TOPIC_EXCEPTION
        response = await node.call(
            request(batch(), "__consumer_offsets"), 9, client_id="__admin_client"
        )
        assert only_row(response).error_code == 0

    play(scenario, tmp_path)


def test_a_client_is_told_who_leads_instead_and_where(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", PartitionImage(2, 3, (NODE_ID, 2), (NODE_ID, 2)))
        node.place("elsewhere", PartitionImage(NODE_ID, 4, (2,), (2,)))
        row = await produce(node, request(batch()), 9)
        assert (row.error_code, row.current_leader) == (Error.NOT_LEADER_OR_FOLLOWER, None)
        row = await produce(node, request(batch()), 10)
        assert row.current_leader is not None
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 3)
        response = await node.call(request(batch(), "elsewhere"), 10)
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (NODE_ID, "here.example", 9092)

    play(scenario, tmp_path)


def test_a_topic_of_one_replica_takes_acks_all_whatever_min_insync_replicas_says(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", configs={"min.insync.replicas": "2"})
        assert (await produce(node, request(batch()))).error_code == 0

    play(scenario, tmp_path)


def test_acks_all_is_refused_while_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", PartitionImage(NODE_ID, 3, (NODE_ID, 2), (NODE_ID,)))
        assert (await produce(node, request(batch()))).error_code == Error.NOT_ENOUGH_REPLICAS
        assert (await produce(node, request(batch(), acks=1))).error_code == 0

    play(scenario, tmp_path, min_insync_replicas="2")


def test_acks_all_is_answered_only_after_every_in_sync_replica_has_the_records(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", TWO_REPLICAS)
        waiting = node.park(request(batch(b"a", b"b")), 9)
        await turns()
        replica = node.replicas.find("t", 0)
        replica.follower_fetched(2, 1, 0)
        await turns()
        assert not waiting.done()
        replica.follower_fetched(2, 2, 0)
        row = only_row(await waiting)
        assert (row.error_code, row.base_offset) == (0, 0)

    play(scenario, tmp_path)


def test_acks_all_that_is_not_replicated_in_time_times_out(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", TWO_REPLICAS)
        waiting = node.park(request(batch(), timeout_ms=300), 9)
        await turns()
        node.time.pass_ms(300)
        row = only_row(await waiting)
        assert (row.error_code, row.base_offset) == (Error.REQUEST_TIMED_OUT, -1)

    play(scenario, tmp_path)


def test_acks_all_ends_with_an_error_when_the_leader_loses_its_office(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", TWO_REPLICAS)
        waiting = node.park(request(batch()), 10)
        await turns()
        node.place("t", PartitionImage(2, 4, (NODE_ID, 2), (NODE_ID, 2)))
        row = only_row(await waiting)
        assert row.error_code == Error.NOT_LEADER_OR_FOLLOWER
        assert row.current_leader is not None
        assert row.current_leader.leader_id == 2

    play(scenario, tmp_path)


def test_acks_1_does_not_wait_for_followers(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", TWO_REPLICAS)
        assert (await produce(node, request(batch(), acks=1))).error_code == 0

    play(scenario, tmp_path)


def test_a_write_to_one_replica_is_answered_without_a_turn_of_the_loop(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        with pytest.raises(StopIteration) as finished:
            node.begin(request(batch()), 9).send(None)
        assert only_row(finished.value.value).error_code == 0

    play(scenario, tmp_path)
