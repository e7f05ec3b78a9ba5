"""A leader that is replaced while requests wait: nothing is answered as stored that is gone.

Each story: what was written waits for its follower; then another broker leads, this one drops what
the other does not have and takes over what it has written instead, so that the high watermark
passes the offset that is waited for. Then it may lead again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.coordinators.local_markers import TransactionEnd
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records.batch_codec import Record, encode_batch
from moldau.replication.replica import Replica
from moldau.replication.replica_roles import Role
from moldau.transactions.transaction_commands import DescribeTransaction, InitProducer
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.services import NODE_ID, Node, batch, play, region_bytes, turns

OTHER = 2
EPOCH = 3
TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
LEADS_AGAIN = pytest.mark.parametrize("leads_again", [False, True])


def led_by(broker: int, epoch: int) -> PartitionImage:
    return PartitionImage(broker, epoch, (NODE_ID, OTHER), (NODE_ID, OTHER))


def leading(node: Node, topic: str) -> Replica:
    node.place(topic, led_by(NODE_ID, EPOCH))
    return node.replicas.find(topic, 0)


def take_role(node: Node, replica: Replica, image: PartitionImage) -> None:
    """As LeaderAndIsr does it; the coordinators hear of it when all roles are taken."""
    role = Role(replica.partition.topic_partition, replica.log.topic_id, image)
    assert set(node.replicas.take_roles([role]).values()) == {Error.NONE}


def lose_and_overwrite(node: Node, replica: Replica, leads_again: bool) -> None:
    offset_end = replica.log.offset_end
    assert replica.partition.high_watermark < offset_end, "nothing waits"
    take_role(node, replica, led_by(OTHER, EPOCH + 1))
    replica.truncate_to(replica.log, 0)
    others = encode_batch([Record(value=b"of another leader")] * 5, leader_epoch=EPOCH + 1)
    replica.append_as_follower(replica.log, others, leader_high_watermark=5, leader_log_start=0)
    assert replica.partition.high_watermark >= offset_end
    if leads_again:
        take_role(node, replica, led_by(NODE_ID, EPOCH + 2))
        replica.follower_fetched(OTHER, 5, node.clock.monotonic_ms())


async def refusal(future: asyncio.Future[Any]) -> Error:
    assert future.done(), "nobody was told"
    with pytest.raises(ApiError) as refused:
        await future
    return refused.value.error


@LEADS_AGAIN
def test_a_coordinator_that_was_replaced_never_says_that_a_lost_fact_is_stored(
    tmp_path: Path, leads_again: bool
) -> None:
    async def scenario(node: Node) -> None:
        replica = leading(node, TRANSACTIONS)
        command = InitProducer("id", 60_000, new_producer_id=7)
        asked = node.coordinators.transactions.submit("id", command)
        read = node.coordinators.transactions.submit("id", DescribeTransaction("id"))
        await turns()
        assert not asked.done()
        lose_and_overwrite(node, replica, leads_again)
        await turns()
        assert await refusal(asked) is Error.NOT_COORDINATOR
        assert await refusal(read) is Error.NOT_COORDINATOR

    play(scenario, tmp_path)


def test_a_coordinator_that_was_replaced_tells_nothing_of_what_it_knew(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = leading(node, TRANSACTIONS)
        transactions = node.coordinators.transactions
        command = InitProducer("id", 60_000, new_producer_id=7)
        asked = transactions.submit("id", command)
        replica.follower_fetched(OTHER, 1, node.clock.monotonic_ms())
        await asked
        take_role(node, replica, led_by(OTHER, EPOCH + 1))
        # All that it knew is committed, and yet another may have changed it since.
        asked = transactions.submit("id", DescribeTransaction("id"))
        assert await refusal(asked) is Error.NOT_COORDINATOR

    play(scenario, tmp_path)


def test_a_coordinator_that_leads_again_has_what_the_other_leader_wrote(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = leading(node, TRANSACTIONS)
        transactions = node.coordinators.transactions
        command = InitProducer("id", 60_000, new_producer_id=7)
        transactions.submit("id", command)
        written = encoded_log(replica)
        take_role(node, replica, led_by(OTHER, EPOCH + 1))
        await turns()
        replica.truncate_to(replica.log, 0)
        replica.append_as_follower(
            replica.log, written, leader_high_watermark=1, leader_log_start=0
        )
        take_role(node, replica, led_by(NODE_ID, EPOCH + 2))
        node.coordinators.follow(node.image, node.image)
        await turns()
        asked = transactions.submit("id", command)
        replica.follower_fetched(OTHER, 2, node.clock.monotonic_ms())
        granted: Any = await asked
        assert (granted.producer_id, granted.producer_epoch) == (7, 1)

    play(scenario, tmp_path)


def encoded_log(replica: Replica) -> bytes:
    region, _ = replica.log.read(0, 100_000, replica.log.offset_end)
    assert region is not None
    return region_bytes(region)


@LEADS_AGAIN
def test_an_offset_that_another_leader_overwrote_was_not_committed(
    tmp_path: Path, leads_again: bool
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        replica = leading(node, OFFSETS)
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topic = OffsetCommitRequestTopic(name="t", partitions=[row])
        waiting = node.park(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
        await turns()
        lose_and_overwrite(node, replica, leads_again)
        answer = await waiting
        error = answer.topics[0].partitions[0].error_code
        assert error == Error.NOT_COORDINATOR

    play(scenario, tmp_path)


@LEADS_AGAIN
def test_a_write_that_another_leader_overwrote_is_not_acknowledged(
    tmp_path: Path, leads_again: bool
) -> None:
    async def scenario(node: Node) -> None:
        replica = leading(node, "t")
        data = PartitionProduceData(index=0, records=batch(b"lost"))
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])
        waiting = node.park(request, 9)
        await turns()
        lose_and_overwrite(node, replica, leads_again)
        answer = await waiting
        row = answer.responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (Error.NOT_LEADER_OR_FOLLOWER, -1)

    play(scenario, tmp_path)


def test_a_write_waits_on_while_the_same_broker_leads_in_another_epoch(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = leading(node, "t")
        data = PartitionProduceData(index=0, records=batch(b"kept"))
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])
        waiting = node.park(request, 9)
        await turns()
        take_role(node, replica, led_by(NODE_ID, EPOCH + 1))
        await turns()
        assert not waiting.done(), "a client without idempotence would write it twice"
        replica.follower_fetched(OTHER, 1, node.clock.monotonic_ms())
        answer = await waiting
        row = answer.responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (Error.NONE, 0)

    play(scenario, tmp_path)


@LEADS_AGAIN
def test_a_marker_that_another_leader_overwrote_is_asked_for_again(
    tmp_path: Path, leads_again: bool
) -> None:
    async def scenario(node: Node) -> None:
        replica = leading(node, "t")
        place = TopicPartition("t", 0)
        end = TransactionEnd(7, 0, True, 0, 2, (place,))
        waiting = node.loop.create_task(node.coordinators.markers.write([end], 60_000))
        await turns()
        lose_and_overwrite(node, replica, leads_again)
        (results,) = await waiting
        assert results == {place: Error.NOT_LEADER_OR_FOLLOWER}

    play(scenario, tmp_path)


@LEADS_AGAIN
def test_a_marker_for_offsets_that_another_leader_overwrote_is_asked_for_again(
    tmp_path: Path, leads_again: bool
) -> None:
    async def scenario(node: Node) -> None:
        replica = leading(node, OFFSETS)
        place = TopicPartition(OFFSETS, 0)
        end = TransactionEnd(7, 0, True, 0, 2, (place,))
        waiting = node.loop.create_task(node.coordinators.markers.write([end], 60_000))
        await turns()
        lose_and_overwrite(node, replica, leads_again)
        (results,) = await waiting
        assert results == {place: Error.NOT_LEADER_OR_FOLLOWER}

    play(scenario, tmp_path)


def test_a_deletion_that_followers_have_not_heard_of_is_not_confirmed_in_another_tenure(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        replica = leading(node, "t")
        replica.append(memoryview(bytearray(batch(b"a", b"b"))), 1, 1_000_000)
        replica.follower_fetched(OTHER, 2, node.clock.monotonic_ms(), log_start=0)
        row = DeleteRecordsPartition(partition_index=0, offset=1)
        topic = DeleteRecordsTopic(name="t", partitions=[row])
        waiting = node.park(DeleteRecordsRequest(topics=[topic], timeout_ms=60_000), 2)
        await turns()
        assert not waiting.done()
        take_role(node, replica, led_by(OTHER, EPOCH + 1))
        take_role(node, replica, led_by(NODE_ID, EPOCH + 2))
        answer = await waiting
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (Error.NOT_LEADER_OR_FOLLOWER, -1)

    play(scenario, tmp_path)
