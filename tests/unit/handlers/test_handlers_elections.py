"""ElectLeaders; codes and sentences compared with Kafka 4.3.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.errors import Error
from moldau.wire.messages.partitions import ElectLeadersRequest, TopicPartitions
from tests.support.services import Node, play

NEEDLESS = "Leader election not needed for topic partition."
Rows = list[tuple[str, list[tuple[int, int, str | None]]]]


async def elect(
    node: Node, asked: dict[str, list[int]] | None, kind: int = 0, version: int = 2
) -> tuple[int, Rows]:
    topics = None
    if asked is not None:
        topics = [TopicPartitions(topic=name, partitions=p) for name, p in asked.items()]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics)
    response = await node.call(request, version)
    return response.error_code, [
        (
            topic.topic,
            [
                (row.partition_id, row.error_code, row.error_message)
                for row in topic.partition_result
            ],
        )
        for topic in response.replica_election_results
    ]


@pytest.mark.parametrize("version", range(3))
def test_every_partition_gets_its_own_answer(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        code, rows = await elect(node, {"t": [1, 9], "no": [0]}, version=version)
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert code == Error.NONE
        assert rows == [
            (
                "t",
                [
                    (1, Error.ELECTION_NOT_NEEDED, NEEDLESS),
                    (9, unknown, "No such partition as t-9"),
                ],
            ),
            ("no", [(0, unknown, "No such topic as no")]),
        ]

    play(scenario, tmp_path)


@pytest.mark.parametrize("kind", [0, 1])
def test_who_asks_for_all_partitions_hears_of_those_with_an_election(
    kind: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        assert await elect(node, None, kind) == (Error.NONE, [("t", [])])

    play(scenario, tmp_path)


def test_an_unknown_kind_of_election_is_refused_on_top_and_in_every_row(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        row = (0, Error.INVALID_REQUEST, "Unknown election type 7")
        assert await elect(node, {"t": [0]}, 7) == (Error.INVALID_REQUEST, [("t", [row])])

    play(scenario, tmp_path)
