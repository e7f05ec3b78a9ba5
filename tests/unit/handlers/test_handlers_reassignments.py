"""Moving replicas and listing moves; codes and sentences compared with Kafka 4.3.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.services import NODE_ID, Node, play

Rows = list[tuple[int, list[int] | None]]


async def reassign(
    node: Node, *topics: tuple[str, Rows], version: int = 1, may_change: bool = True
) -> Any:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(partition_index=number, replicas=replicas)
                    for number, replicas in rows
                ],
            )
            for name, rows in topics
        ],
    )
    return await node.call(request, version)


async def listed(node: Node, topic: str | None = None, *numbers: int) -> list[tuple[Any, ...]]:
    asked = None
    if topic is not None:
        asked = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(numbers))]
    response = await node.call(ListPartitionReassignmentsRequest(topics=asked), 0)
    assert response.error_code == Error.NONE
    return [
        (t.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for t in response.topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("version", range(2))
def test_every_partition_gets_its_own_answer_in_the_order_asked(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        before = node.image
        response = await reassign(
            node,
            ("t", [(1, [NODE_ID]), (0, [7]), (9, [NODE_ID]), (0, None)]),
            ("no", [(0, [NODE_ID])]),
            version=version,
        )
        assert (response.error_code, response.error_message) == (Error.NONE, None)
        rows = [
            (topic.name, row.partition_index, row.error_code, row.error_message)
            for topic in response.responses
            for row in topic.partitions
        ]
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert rows == [
            ("t", 1, Error.NONE, None),
            (
                "t",
                0,
                Error.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes broker 7, but no such broker is "
                "registered.",
            ),
            ("t", 9, unknown, "Unable to find partition t:9."),
            ("t", 0, Error.NO_REASSIGNMENT_IN_PROGRESS, None),
            ("no", 0, unknown, "Unable to find a topic named no."),
        ]
        assert node.image is before, "with one broker there is nowhere else to go"
        assert await listed(node) == []

    play(scenario, tmp_path)


def test_whether_the_number_of_replicas_may_change_is_told_back(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        response = await reassign(node, may_change=False)
        assert not response.allow_replication_factor_change

    play(scenario, tmp_path)


def test_moves_under_way_are_listed_all_or_as_asked(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        settled = PartitionImage(NODE_ID, 0, (NODE_ID,), (NODE_ID,))
        under_way = PartitionImage(NODE_ID, 0, (2, NODE_ID), (NODE_ID,), 1, (2,), (NODE_ID,))
        node.place("t", settled, under_way)
        row = ("t", 1, [2, NODE_ID], [2], [NODE_ID])
        assert await listed(node) == [row]
        assert await listed(node, "t", 0, 1, 9) == [row]
        assert await listed(node, "t", 0) == []
        assert await listed(node, "no", 0) == []

    play(scenario, tmp_path)
