"""Looking at transactions and producers over the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from moldau.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from tests.support.services import NODE_ID, Node, batch, play, turns

SETTINGS = {"transaction_state_log_num_partitions": "3"}
LIST = 2
"""The newest version."""


def with_transactions(scenario: Callable[[Node], Awaitable[None]], directory: Path) -> None:
    """`open` has a transaction, `done` has committed one, `idle` has begun none."""

    async def whole(node: Node) -> None:
        await node.create_topic("topic", partitions=3)
        await node.call(FindCoordinatorRequest(key="open", key_type=1), 1)
        for name in ("open", "done", "idle"):
            producer = await node.call(
                InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=30_000), 5
            )
            if name == "idle":
                continue
            await node.call(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=name,
                    v3_and_below_producer_id=producer.producer_id,
                    v3_and_below_producer_epoch=producer.producer_epoch,
                    v3_and_below_topics=[
                        AddPartitionsToTxnTopic(name="topic", partitions=[2, 0]),
                    ],
                ),
                3,
            )
        end = EndTxnRequest(
            transactional_id="done", producer_id=1, producer_epoch=0, committed=True
        )
        assert (await node.call(end, 4)).error_code == Error.NONE
        await turns()
        await scenario(node)

    play(whole, directory, **SETTINGS)


def test_transactions_are_described_with_their_partitions(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        began_ms = node.clock.wall_ms()
        request = DescribeTransactionsRequest(
            transactional_ids=["open", "done", "none", "", "open"]
        )
        response = await node.call(request, 0)
        rows = {row.transactional_id: row for row in response.transaction_states}
        assert len(response.transaction_states) == 4
        described = rows["open"]
        assert described.error_code == Error.NONE
        assert described.transaction_state == "Ongoing"
        assert (described.producer_id, described.producer_epoch) == (0, 0)
        assert described.transaction_timeout_ms == 30_000
        assert described.transaction_start_time_ms == began_ms
        assert [(t.topic, t.partitions) for t in described.topics] == [("topic", [0, 2])]
        assert rows["done"].transaction_state == "CompleteCommit"
        assert rows["done"].topics == []
        assert rows["none"].error_code == Error.TRANSACTIONAL_ID_NOT_FOUND
        assert rows[""].error_code == Error.INVALID_REQUEST

    with_transactions(scenario, tmp_path)


@pytest.mark.parametrize(
    ("filters", "version", "expected"),
    [
        ({}, 0, {"open", "done", "idle"}),
        ({"state_filters": ["Ongoing", "CompleteCommit"]}, 0, {"open", "done"}),
        ({"producer_id_filters": [2]}, 0, {"idle"}),
        ({"duration_filter": 60_000}, 1, {"idle"}),
        ({"duration_filter": 0}, 1, {"idle"}),
        ({"transactional_id_pattern": "o.*|idle"}, LIST, {"open", "idle"}),
        ({"transactional_id_pattern": ""}, LIST, {"open", "done", "idle"}),
    ],
)
def test_transactions_are_listed_by_filters(
    filters: dict[str, Any], version: int, expected: set[str], tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        response = await node.call(ListTransactionsRequest(**filters), version)
        assert response.error_code == Error.NONE
        assert {row.transactional_id for row in response.transaction_states} == expected

    with_transactions(scenario, tmp_path)


def test_unknown_states_are_named_and_broken_patterns_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        response = await node.call(ListTransactionsRequest(state_filters=["Sleeping"]), LIST)
        assert response.unknown_state_filters == ["Sleeping"]
        assert response.transaction_states == []
        broken = ListTransactionsRequest(transactional_id_pattern="(")
        refused = await node.call(broken, LIST)
        assert refused.error_code == Error.INVALID_REGULAR_EXPRESSION

    with_transactions(scenario, tmp_path)


def test_a_partition_tells_who_wrote_to_it(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name="topic", partition_indexes=[0, 1, 7]),
                TopicRequest(name="none", partition_indexes=[0]),
                TopicRequest(name="bad name", partition_indexes=[0]),
            ]
        )
        topic, none, bad = (await node.call(request, 0)).topics
        first, second, unknown = topic.partitions
        (producer,) = first.active_producers
        assert (producer.producer_id, producer.producer_epoch) == (1, 0)
        assert producer.coordinator_epoch == 0
        assert producer.current_txn_start_offset == -1
        assert second.active_producers == []
        assert unknown.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert none.partitions[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert bad.partitions[0].error_code == Error.INVALID_TOPIC_EXCEPTION

    with_transactions(scenario, tmp_path)


def test_a_broker_without_a_replica_says_so(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("away", PartitionImage(2, 0, (2, 3), (2, 3)))
        request = DescribeProducersRequest(
            topics=[TopicRequest(name="away", partition_indexes=[0, 1])]
        )
        ((here, unknown),) = [topic.partitions for topic in (await node.call(request, 0)).topics]
        assert here.error_code == Error.NOT_LEADER_OR_FOLLOWER
        assert unknown.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert here.active_producers == unknown.active_producers == []

    play(scenario, tmp_path)


def test_a_follower_tells_who_wrote_to_its_own_log(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        both = (NODE_ID, 2)
        node.place("led", PartitionImage(NODE_ID, 0, both, both))
        records = batch(b"v", producer_id=77, producer_epoch=3, base_sequence=0)
        node.replicas.find("led", 0).append(memoryview(bytearray(records)), 1, 0)
        node.place("led", PartitionImage(2, 1, both, both))
        request = DescribeProducersRequest(topics=[TopicRequest(name="led", partition_indexes=[0])])
        (topic,) = (await node.call(request, 0)).topics
        (partition,) = topic.partitions
        assert partition.error_code == Error.NONE
        assert [row.producer_id for row in partition.active_producers] == [77]

    play(scenario, tmp_path)
