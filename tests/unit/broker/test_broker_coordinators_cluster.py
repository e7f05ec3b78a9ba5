"""Coordinators that fail over between brokers, and transactions that reach across them."""

from __future__ import annotations

from pathlib import Path

from moldau.model.errors import Error
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.transactions import EndTxnRequest, InitProducerIdRequest
from tests.support.played_cluster import PlayedCluster, play, topic_id_of, until
from tests.support.services import batch

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
GROUP_KEY, TRANSACTION_KEY = 0, 1


async def coordinator(cluster: PlayedCluster, asked: int, key: str, key_type: int) -> int:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    (row,) = (await cluster.call(asked, request, 4)).coordinators
    assert row.error_code == 0
    node_id: int = row.node_id
    return node_id


async def commit_offset(cluster: PlayedCluster, broker: int, offset: int) -> Error:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )
    answer = await cluster.call(broker, request, 7)
    return Error(answer.topics[0].partitions[0].error_code)


async def committed_offset(cluster: PlayedCluster, broker: int) -> tuple[Error, int]:
    request = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    )
    answer = await cluster.call(broker, request, 7)
    offset = answer.topics[0].partitions[0].committed_offset if answer.topics else -1
    return Error(answer.error_code), offset


def test_a_group_goes_on_at_the_broker_that_takes_over_its_partition(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0, topic="t")
        await cluster.lead(0, 0, topic=OFFSETS)
        assert await coordinator(cluster, 2, "g", GROUP_KEY) == 0
        assert await commit_offset(cluster, 1, 5) is Error.NOT_COORDINATOR
        assert await commit_offset(cluster, 0, 5) is Error.NONE
        await cluster.stop_broker(0, cleanly=False)
        await cluster.lead(2, 1, topic=OFFSETS, isr=(1, 2))
        assert await coordinator(cluster, 1, "g", GROUP_KEY) == 2
        await until(lambda: not cluster.brokers[2].coordinators.groups.is_loading)
        assert await committed_offset(cluster, 2) == (Error.NONE, 5)
        assert await commit_offset(cluster, 2, 6) is Error.NONE

    play(scenario, tmp_path)


def test_a_broker_that_lost_the_partition_is_no_coordinator_any_more(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0, topic="t")
        await cluster.lead(0, 0, topic=OFFSETS)
        await commit_offset(cluster, 0, 5)
        await cluster.lead(1, 1, topic=OFFSETS)
        assert await commit_offset(cluster, 0, 7) is Error.NOT_COORDINATOR
        assert await committed_offset(cluster, 0) == (Error.NOT_COORDINATOR, -1)

    play(scenario, tmp_path)


async def read_committed(cluster: PlayedCluster, broker: int) -> tuple[int, int]:
    """Last stable offset and high watermark."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        isolation_level=1,
        topics=[FetchTopic(topic_id=topic_id_of("t"), partitions=[partition])],
    )
    row = (await cluster.call(broker, request, 13)).responses[0].partitions[0]
    return row.last_stable_offset, row.high_watermark


async def write(
    cluster: PlayedCluster, leader: int, producer: tuple[int, int], version: int
) -> Error:
    producer_id, producer_epoch = producer
    records = batch(
        b"a",
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        transactional_id="tid",
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )
    answer = await cluster.call(leader, request, version)
    return Error(answer.responses[0].partition_responses[0].error_code)


def test_a_transaction_is_registered_and_ended_in_partitions_of_other_brokers(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0, topic=TRANSACTIONS)
        await cluster.lead(1, 0, topic="t")
        assert await coordinator(cluster, 1, "tid", TRANSACTION_KEY) == 0
        init = InitProducerIdRequest(transactional_id="tid", transaction_timeout_ms=60_000)
        granted = await cluster.call(0, init, 4)
        assert granted.error_code == 0
        producer = granted.producer_id, granted.producer_epoch
        # An older client has to add the partition itself, and did not.
        assert await write(cluster, 1, producer, 11) is Error.TRANSACTION_ABORTABLE
        assert await write(cluster, 1, producer, 12) is Error.NONE
        assert await read_committed(cluster, 1) == (0, 1)
        end = EndTxnRequest(
            transactional_id="tid",
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=True,
        )
        assert (await cluster.call(0, end, 5)).error_code == 0
        log = cluster.brokers[1].replica().log
        await until(lambda: log.last_stable_offset(2) == 2, "the marker has come")

    play(scenario, tmp_path, transaction_state_log_min_isr="1")
