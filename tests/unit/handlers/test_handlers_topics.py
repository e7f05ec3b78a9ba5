"""Topic administration over the wire: every version, Kafka's rows, codes and sentences."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID
from moldau.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.support.services import NODE_ID, Node, play

NEWEST_CREATE, NEWEST_DELETE, NEWEST_GROW = 7, 6, 3


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


async def create(
    node: Node, *topics: CreatableTopic, version: int = NEWEST_CREATE, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    response = await node.call(request, version)
    assert response.throttle_time_ms == 0
    rows: list[CreatableTopicResult] = response.topics
    return rows


async def delete(
    node: Node, *topics: DeleteTopicState, version: int = NEWEST_DELETE
) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(topics=list(topics))
    if version < 6:
        request = DeleteTopicsRequest(topic_names=[each.name or "" for each in topics])
    rows: list[DeletableTopicResult] = (await node.call(request, version)).responses
    return rows


def by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def by_id(topic_id: bytes) -> DeleteTopicState:
    return DeleteTopicState(name=None, topic_id=topic_id)


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        (row,) = await create(node, topic("t", 3, 1, retention_ms="5"), version=version)
        image = node.image.topics["t"]
        assert (row.name, row.error_code, row.error_message) == ("t", 0, None)
        assert len(image.partitions) == 3
        assert node.image.topic_configs["t"] == {"retention.ms": "5"}
        assert row.topic_id == (image.id if version >= 7 else NO_TOPIC_ID)
        if version >= 5:
            assert (row.num_partitions, row.replication_factor) == (3, 1)
            assert row.configs
        for partition in range(3):
            assert (tmp_path / f"t-{partition}").is_dir(), "its logs are there when it is answered"

    play(scenario, tmp_path)


def test_the_answer_lists_every_setting_and_where_it_comes_from(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        (row,) = await create(node, topic("t", retention_ms="5"))
        assert row.configs is not None
        configs = {config.name: (config.value, config.config_source) for config in row.configs}
        assert list(configs) == sorted(configs)
        assert configs["retention.ms"] == ("5", 1)
        assert configs["segment.bytes"] == ("2000000", 4)
        assert configs["cleanup.policy"] == ("delete", 5)
        assert "internal.segment.bytes" not in configs
        assert not any(config.read_only or config.is_sensitive for config in row.configs)

    play(scenario, tmp_path, log_segment_bytes="2000000")


def test_counts_left_open_come_from_the_broker(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        (row,) = await create(node, topic("t", -1, -1))
        assert (row.num_partitions, row.replication_factor) == (5, 1)

    play(scenario, tmp_path, num_partitions="5")


def test_validation_changes_nothing(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        (row,) = await create(node, topic("t", 3), validate_only=True)
        assert (row.error_code, row.num_partitions) == (0, 3)
        assert node.image.topics == {}

    play(scenario, tmp_path)


def test_each_topic_has_its_own_row_and_error(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await create(node, topic("old"))
        rows = await create(node, topic("a"), topic("old"), topic("b", 1, 3), topic("c d"))
        assert [row.name for row in rows] == ["a", "old", "b", "c d"]
        assert [row.error_code for row in rows] == [
            Error.NONE,
            Error.TOPIC_ALREADY_EXISTS,
            Error.INVALID_REPLICATION_FACTOR,
            Error.INVALID_TOPIC_EXCEPTION,
        ]
        assert rows[1].error_message == "Topic 'old' already exists."
        assert (rows[1].num_partitions, rows[1].replication_factor) == (-1, -1)
        assert rows[1].configs == []
        assert rows[1].topic_id == NO_TOPIC_ID

    play(scenario, tmp_path)


def test_a_topic_named_twice_gets_one_row(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        rows = await create(node, topic("a"), topic("a"), topic("b"))
        assert [(row.name, row.error_code) for row in rows] == [
            ("a", Error.INVALID_REQUEST),
            ("b", Error.NONE),
        ]
        assert rows[0].error_message == "Duplicate topic name."

    play(scenario, tmp_path)


def test_partitions_may_be_placed_by_hand(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        by_hand = topic("t", -1, -1)
        by_hand.assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[NODE_ID])
            for index in (1, 0)
        ]
        (row,) = await create(node, by_hand)
        assert (row.error_code, row.num_partitions) == (0, 2)
        by_hand.name = "u"
        by_hand.assignments[0].broker_ids = [9]
        (row,) = await create(node, by_hand)
        assert row.error_code == Error.INVALID_REPLICA_ASSIGNMENT

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        rows = await delete(node, by_name("t"), by_name("nope"), version=version)
        assert [(row.name, row.error_code) for row in rows] == [
            ("t", Error.NONE),
            ("nope", Error.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert rows[0].topic_id == (topic_id if version >= 6 else NO_TOPIC_ID)
        expected = "This server does not host this topic-partition." if version >= 5 else None
        assert rows[1].error_message == expected
        assert node.image.topics == {}
        assert not (tmp_path / "t-0").exists()

    play(scenario, tmp_path)


def test_topics_are_deleted_by_id(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        (row,) = await delete(node, by_id(topic_id))
        assert (row.name, row.topic_id, row.error_code) == ("t", topic_id, 0)
        (row,) = await delete(node, by_id(topic_id))
        assert (row.name, row.topic_id) == (None, topic_id)
        assert row.error_code == Error.UNKNOWN_TOPIC_ID
        assert row.error_message == "This server does not host this topic ID."

    play(scenario, tmp_path)


def test_a_deletion_that_does_not_say_which_topic_is_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        unknown = b"u" * 16
        for asked, message in (
            ([by_id(NO_TOPIC_ID)], "Neither topic name nor id were specified."),
            (
                [DeleteTopicState(name="t", topic_id=unknown)],
                "You may not specify both topic name and topic id.",
            ),
            ([by_name("t"), by_name("t")], "Duplicate topic name."),
            ([by_id(unknown), by_id(unknown)], "Duplicate topic id."),
            ([by_id(topic_id), by_id(topic_id)], "Duplicate topic id."),
            (
                [by_name("t"), by_id(topic_id)],
                "The provided topic name maps to an ID that was already supplied.",
            ),
        ):
            (row,) = await delete(node, *asked)
            assert (row.error_code, row.error_message) == (Error.INVALID_REQUEST, message)
        assert list(node.image.topics) == ["t"]

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("version", "error"),
    [(2, Error.INVALID_REQUEST), (3, Error.TOPIC_DELETION_DISABLED)],
)
def test_switched_off_deletion_is_said_with_a_code_the_client_knows(
    version: int, error: Error, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        (row,) = await delete(node, by_name("t"), version=version)
        assert row.error_code == error
        assert list(node.image.topics) == ["t"]

    play(scenario, tmp_path, delete_topic_enable="false")


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        rows = [
            CreatePartitionsTopic(name="t", count=4, assignments=None),
            CreatePartitionsTopic(name="nope", count=4, assignments=None),
        ]
        response = await node.call(CreatePartitionsRequest(topics=rows), version)
        assert [(row.name, row.error_code) for row in response.results] == [
            ("t", Error.NONE),
            ("nope", Error.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert [row.error_message for row in response.results] == [None, None]
        assert len(node.image.topics["t"].partitions) == 4
        assert (tmp_path / "t-3").is_dir()

    play(scenario, tmp_path)


def test_growth_by_hand_by_validation_and_twice(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 1)
        here = CreatePartitionsAssignment(broker_ids=[NODE_ID])
        row = CreatePartitionsTopic(name="t", count=2, assignments=[here])
        request = CreatePartitionsRequest(topics=[row], validate_only=True)
        response = await node.call(request, NEWEST_GROW)
        assert response.results[0].error_code == 0
        assert len(node.image.topics["t"].partitions) == 1
        response = await node.call(CreatePartitionsRequest(topics=[row, row]), NEWEST_GROW)
        (twice,) = response.results
        assert (twice.error_code, twice.error_message) == (
            Error.INVALID_REQUEST,
            "Duplicate topic name.",
        )
        await node.call(CreatePartitionsRequest(topics=[row]), NEWEST_GROW)
        assert len(node.image.topics["t"].partitions) == 2
        response = await node.call(CreatePartitionsRequest(topics=[row]), NEWEST_GROW)
        assert response.results[0].error_message == "Topic already has 2 partition(s)."

    play(scenario, tmp_path)


def test_a_controller_that_stops_is_every_rows_error(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        await node.controller.close()
        assert [row.error_code for row in await create(node, topic("a"), topic("b"))] == [
            Error.NOT_CONTROLLER,
            Error.NOT_CONTROLLER,
        ]
        (row,) = await delete(node, by_name("t"))
        assert row.error_code == Error.NOT_CONTROLLER

    play(scenario, tmp_path)


def test_requests_at_the_same_time_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        answers = await asyncio.gather(
            *(create(node, topic(f"t{number % 3}")) for number in range(9))
        )
        codes = [row.error_code for (row,) in answers]
        assert codes.count(Error.NONE) == 3
        assert codes.count(Error.TOPIC_ALREADY_EXISTS) == 6

    play(scenario, tmp_path)
