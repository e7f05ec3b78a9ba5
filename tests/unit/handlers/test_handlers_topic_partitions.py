"""DescribeTopicPartitions: pages of topics in order of their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.wire.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.support.services import Node, play


async def described(
    node: Node, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response: DescribeTopicPartitionsResponse = await node.call(request, 0)
    return response


def pages(response: DescribeTopicPartitionsResponse) -> dict[str | None, list[int]]:
    return {
        topic.name: [row.partition_index for row in topic.partitions] for topic in response.topics
    }


def next_place(response: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def with_topics(node: Node) -> None:
    await node.create_topic("b", 3)
    await node.create_topic("a", 4)


def test_an_empty_list_asks_for_all_topics_in_order(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_topics(node)
        response = await described(node)
        assert list(pages(response).items()) == [("a", [0, 1, 2, 3]), ("b", [0, 1, 2])]
        assert next_place(response) is None
        assert response.topics[0].topic_id == node.image.topics["a"].id
        assert response.topics[0].topic_authorized_operations == 3576

    play(scenario, tmp_path)


def test_a_page_ends_where_its_limit_is_reached_and_the_next_goes_on_there(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_topics(node)
        first = await described(node, limit=3)
        assert (pages(first), next_place(first)) == ({"a": [0, 1, 2]}, ("a", 3))
        second = await described(node, limit=1, cursor=("a", 3))
        assert (pages(second), next_place(second)) == ({"a": [3]}, ("b", 0))
        third = await described(node, limit=3, cursor=("b", 0))
        assert (pages(third), next_place(third)) == ({"b": [0, 1, 2]}, None)

    play(scenario, tmp_path)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_holds_at_least_one_partition(limit: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_topics(node)
        assert pages(await described(node, limit=limit)) == {"a": [0]}

    play(scenario, tmp_path)


def test_the_broker_bounds_a_page_too(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_topics(node)
        assert pages(await described(node)) == {"a": [0, 1]}

    play(scenario, tmp_path, max_request_partition_size_limit="2")


def test_unknown_and_illegal_names_get_their_errors(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_topics(node)
        response = await described(node, "a", "zzz", "bad name")
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("a", 0),
            ("bad name", Error.INVALID_TOPIC_EXCEPTION),
            ("zzz", Error.UNKNOWN_TOPIC_OR_PARTITION),
        ]

    play(scenario, tmp_path)


def test_a_cursor_must_point_into_the_topics_that_were_asked_for(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_topics(node)
        for cursor in (("b", 0), ("a", -2)):
            response = await described(node, "a", cursor=cursor)
            assert [topic.error_code for topic in response.topics] == [Error.INVALID_REQUEST]

    play(scenario, tmp_path)


def test_a_cursor_to_a_topic_that_has_gone_starts_with_the_next_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_topics(node)
        assert pages(await described(node, cursor=("aa", 2))) == {"b": [0, 1, 2]}
        assert pages(await described(node, "a", cursor=("a", 20))) == {"a": []}

    play(scenario, tmp_path)


def test_a_partition_without_a_leader_says_so(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", PartitionImage(-1, 3, (5,), (5,)))
        (row,) = (await described(node, "t")).topics[0].partitions
        assert (row.error_code, row.leader_id) == (Error.LEADER_NOT_AVAILABLE, -1)
        assert row.offline_replicas == [5]

    play(scenario, tmp_path)
