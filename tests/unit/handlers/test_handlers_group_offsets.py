"""Offsets of groups over the wire: every version commits, fetches and deletes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from moldau.groups.group_commands import CommitTransactionalOffsets, EndTransaction, OffsetRow
from moldau.handlers.groups import offset_commit
from moldau.handlers.request_context import RequestContext
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.services import Node, play

COMMIT, FETCH = 10, 10
"""The newest versions."""
UNKNOWN_ID = b"?" * 16


def on_a_node(scenario: Any, directory: Path, **settings: str) -> None:
    """With the topic `orders` of two partitions, and the topic of the groups."""

    async def prepared(node: Node) -> None:
        await node.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        await scenario(node, await node.create_topic("orders", 2))

    play(prepared, directory, offsets_topic_num_partitions="2", **settings)


def commit_request(
    *rows: tuple[str, bytes, int, int], group_id: str = "g", **options: Any
) -> OffsetCommitRequest:
    """Rows of topic, topic id, partition and offset."""
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=3,
                        committed_metadata="note",
                    )
                ],
            )
            for name, topic_id, partition, offset in rows
        ],
        **options,
    )


def errors(response: Any) -> list[int]:
    return [row.error_code for topic in response.topics for row in topic.partitions]


async def commit(node: Node, topic_id: bytes, partition: int, offset: int) -> None:
    request = commit_request(("orders", topic_id, partition, offset))
    assert errors(await node.call(request, COMMIT)) == [Error.NONE]


@pytest.mark.parametrize("version", range(2, COMMIT + 1))
def test_every_version_commits_what_exists(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        request = commit_request(
            ("orders", topic_id, 1, 42),
            ("orders", topic_id, 2, 1),
            ("orders", topic_id, -1, 1),
            ("nothing", UNKNOWN_ID, 0, 1),
        )
        response = await node.call(request, version)
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        unknown_topic = Error.UNKNOWN_TOPIC_ID if version >= 10 else unknown
        assert errors(response) == [Error.NONE, unknown, unknown, unknown_topic]
        told = [(topic.name, topic.topic_id) for topic in response.topics]
        by_id = [("", topic_id)] * 3 + [("", UNKNOWN_ID)]
        by_name = [("orders", NO_TOPIC_ID)] * 3 + [("nothing", NO_TOPIC_ID)]
        assert told == (by_id if version >= 10 else by_name)
        fetched = await node.call(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9
        )
        (row,) = fetched.groups[0].topics[0].partitions
        epoch = 3 if version >= 6 else -1
        assert (row.partition_index, row.committed_offset) == (1, 42)
        assert (row.committed_leader_epoch, row.metadata) == (epoch, "note")

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(2, COMMIT + 1))
def test_a_member_of_an_unknown_group_is_told_what_it_understands(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        request = commit_request(
            ("orders", topic_id, 0, 1), generation_id_or_member_epoch=4, member_id="me"
        )
        error = Error.GROUP_ID_NOT_FOUND if version >= 9 else Error.ILLEGAL_GENERATION
        assert errors(await node.call(request, version)) == [error]

    on_a_node(scenario, tmp_path)


def test_a_commit_of_unknown_topics_alone_asks_no_coordinator(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = commit_request(("nothing", UNKNOWN_ID, 0, 1))
        assert errors(await node.call(request, 9)) == [Error.UNKNOWN_TOPIC_OR_PARTITION]
        await node.create_topic("orders")
        request = commit_request(("orders", NO_TOPIC_ID, 0, 1))
        assert errors(await node.call(request, 9)) == [Error.NOT_COORDINATOR]

    play(scenario, tmp_path)


def test_a_note_may_be_null_but_not_too_long(tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        request = commit_request(("orders", topic_id, 0, 1), ("orders", topic_id, 1, 1))
        request.topics[0].partitions[0].committed_metadata = None
        request.topics[1].partitions[0].committed_metadata = "too long"
        response = await node.call(request, COMMIT)
        assert errors(response) == [Error.NONE, Error.OFFSET_METADATA_TOO_LARGE]

    on_a_node(scenario, tmp_path, offset_metadata_max_bytes="7")


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_of_one_group_fetches(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        await commit(node, topic_id, 1, 42)
        asked = [
            OffsetFetchRequestTopic(name="orders", partition_indexes=[1, 0]),
            OffsetFetchRequestTopic(name="nothing", partition_indexes=[5]),
        ]
        response = await node.call(OffsetFetchRequest(group_id="g", topics=asked), version)
        rows = [
            (topic.name, row.partition_index, row.committed_offset, row.metadata, row.error_code)
            for topic in response.topics
            for row in topic.partitions
        ]
        assert rows == [
            ("orders", 1, 42, "note", Error.NONE),
            ("orders", 0, -1, "", Error.NONE),
            ("nothing", 5, -1, "", Error.NONE),
        ]
        if version >= 5:
            assert response.topics[0].partitions[0].committed_leader_epoch == 3
        if version >= 2:
            everything = await node.call(OffsetFetchRequest(group_id="g", topics=None), version)
            assert everything.error_code == Error.NONE
            assert [topic.name for topic in everything.topics] == ["orders"]

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(8, FETCH + 1))
def test_several_groups_are_fetched_at_once(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        await commit(node, topic_id, 1, 42)
        topics = [
            OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=[1, 0])
        ]
        groups = [
            OffsetFetchRequestGroup(group_id="g", topics=topics),
            OffsetFetchRequestGroup(group_id="g", topics=None),
            OffsetFetchRequestGroup(group_id="other", topics=topics),
            OffsetFetchRequestGroup(group_id="", topics=None),
        ]
        response = await node.call(OffsetFetchRequest(groups=groups), version)
        offsets = [
            [row.committed_offset for topic in group.topics for row in topic.partitions]
            for group in response.groups
        ]
        assert offsets == [[42, -1], [42], [-1, -1], []]
        assert [group.group_id for group in response.groups] == ["g", "g", "other", ""]
        assert {group.error_code for group in response.groups} == {Error.NONE}
        identity = ("", topic_id) if version >= 10 else ("orders", NO_TOPIC_ID)
        for group in response.groups[:2]:
            assert (group.topics[0].name, group.topics[0].topic_id) == identity

    on_a_node(scenario, tmp_path)


def test_an_unknown_topic_id_is_told_row_by_row(tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        topics = [
            OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[0, 1]),
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]),
        ]
        group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        response = await node.call(OffsetFetchRequest(groups=[group]), 10)
        told = {
            topic.topic_id: [(row.committed_offset, row.error_code) for row in topic.partitions]
            for topic in response.groups[0].topics
        }
        assert told == {
            UNKNOWN_ID: [(-1, Error.UNKNOWN_TOPIC_ID)] * 2,
            topic_id: [(-1, Error.NONE)],
        }

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(1, FETCH + 1))
def test_without_a_coordinator_every_version_has_a_place_for_the_error(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        asked = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
        request = OffsetFetchRequest(group_id="g", topics=asked)
        if version >= 8:
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]
            )
        response = await node.call(request, version)
        if version >= 8:
            error = response.groups[0].error_code
        elif version >= 2:
            error = response.error_code
        else:
            error = response.topics[0].partitions[0].error_code
        assert error == Error.NOT_COORDINATOR

    play(scenario, tmp_path)


def test_unstable_offsets_are_withheld_from_those_who_ask_for_stable_ones(tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        row = OffsetRow(TopicPartition("orders", 0), 8)
        command = CommitTransactionalOffsets("g", 7, 0, (row,))
        await node.on.groups.submit("g", command)
        asked = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]

        async def fetch(require_stable: bool) -> Any:
            request = OffsetFetchRequest(group_id="g", topics=asked, require_stable=require_stable)
            return (await node.call(request, 7)).topics[0].partitions[0]

        assert (await fetch(True)).error_code == Error.UNSTABLE_OFFSET_COMMIT
        assert (await fetch(False)).committed_offset == -1
        await node.on.groups.submit("g", EndTransaction(7, 0, 0, True))
        assert (await fetch(True)).committed_offset == 8

    on_a_node(scenario, tmp_path)


def test_offsets_are_deleted_with_an_answer_for_every_place(tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        await commit(node, topic_id, 1, 42)

        async def delete(group_id: str, *places: tuple[str, int]) -> Any:
            topics = [
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=partition)],
                )
                for name, partition in places
            ]
            return await node.call(OffsetDeleteRequest(group_id=group_id, topics=topics), 0)

        assert (await delete("")).error_code == Error.INVALID_GROUP_ID
        assert (await delete("other", ("orders", 1))).error_code == Error.GROUP_ID_NOT_FOUND
        assert (await delete("other", ("nothing", 0))).error_code == Error.GROUP_ID_NOT_FOUND
        response = await delete("g", ("orders", 1), ("orders", 0), ("orders", 9), ("nothing", 0))
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert response.error_code == Error.NONE
        assert errors(response) == [Error.NONE, Error.NONE, unknown, unknown]
        everything = await node.call(OffsetFetchRequest(group_id="g", topics=None), 7)
        assert everything.topics == []

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_many_offsets_are_given_to_the_coordinator_some_at_a_time(
    in_transaction: bool, tmp_path: Path
) -> None:
    """One step of its machine holds everybody else up."""

    async def scenario(node: Node, topic_id: bytes) -> None:
        count = 2 * offset_commit.ROWS_PER_STEP + 1
        await node.create_topic("wide", count)
        steps = steps_of(node)
        if in_transaction:
            request = txn_request("g", "wide", range(count))
            ctx = RequestContext(28, 3, "test", "PLAINTEXT")
            told = errors(await offset_commit.txn_offset_commit(request, ctx, node.on))
            await node.on.groups.submit("g", EndTransaction(7, 0, 0, committed=True))
        else:
            places = [("wide", NO_TOPIC_ID, n, n) for n in range(count)]
            told = errors(await node.call(commit_request(*places), 9))
        assert told == [Error.NONE] * count
        assert steps == [offset_commit.ROWS_PER_STEP, offset_commit.ROWS_PER_STEP, 1]
        assert await stored(node) == {n: n for n in range(count)}

    on_a_node(scenario, tmp_path)


def test_what_the_coordinator_says_of_one_step_is_told_of_its_rows_alone(tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        count = 2 * offset_commit.ROWS_PER_STEP
        await node.create_topic("wide", count)
        submit, steps = node.on.groups.submit, steps_of(node)

        def loses_its_role(group_id: str, command: Any) -> asyncio.Future[Any]:
            if not steps:
                return submit(group_id, command)
            refused: asyncio.Future[Any] = node.loop.create_future()
            refused.set_exception(ApiError(Error.NOT_LEADER_OR_FOLLOWER, "elsewhere"))
            return refused

        node.on.groups.submit = loses_its_role  # type: ignore[method-assign]
        places = [("wide", NO_TOPIC_ID, n, n) for n in range(count)]
        told = errors(await node.call(commit_request(*places), 9))
        half = count // 2
        assert told == [Error.NONE] * half + [Error.NOT_COORDINATOR] * half
        del node.on.groups.submit
        assert len(await stored(node)) == half

    on_a_node(scenario, tmp_path)


def test_many_offsets_are_deleted_some_at_a_time(tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        count = offset_commit.ROWS_PER_STEP + 1
        await node.create_topic("wide", count)
        await node.call(commit_request(*[("wide", NO_TOPIC_ID, n, n) for n in range(count)]), 9)
        steps = steps_of(node)
        rows = [OffsetDeleteRequestPartition(partition_index=n) for n in range(count)]
        topics = [OffsetDeleteRequestTopic(name="wide", partitions=rows)]
        response = await node.call(OffsetDeleteRequest(group_id="g", topics=topics), 0)
        assert (response.error_code, set(errors(response))) == (Error.NONE, {Error.NONE})
        assert steps == [offset_commit.ROWS_PER_STEP, 1]
        assert await stored(node) == {}

    on_a_node(scenario, tmp_path)


def steps_of(node: Node) -> list[int]:
    """How many rows the coordinator was given with each command, from now on."""
    steps: list[int] = []
    shards = node.on.groups
    submit_to = shards.submit_to

    def noting(partition: int, command: Any) -> asyncio.Future[Any]:
        rows = getattr(command, "offsets", getattr(command, "places", None))
        if rows is not None:
            steps.append(len(rows))
        return submit_to(partition, command)

    shards.submit_to = noting  # type: ignore[method-assign]
    return steps


async def stored(node: Node) -> dict[int, int]:
    request = OffsetFetchRequest(group_id="g", topics=None)
    return {
        row.partition_index: row.committed_offset
        for topic in (await node.call(request, 7)).topics
        for row in topic.partitions
    }


def txn_request(
    group_id: str, name: str = "orders", partitions: Iterable[int] = (0,)
) -> TxnOffsetCommitRequest:
    rows = [
        TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=partition)
        for partition in partitions
    ]
    topic = TxnOffsetCommitRequestTopic(name=name, partitions=rows)
    return TxnOffsetCommitRequest(
        transactional_id="t", group_id=group_id, producer_id=7, producer_epoch=0, topics=[topic]
    )


@pytest.mark.parametrize("version", range(6))
def test_offsets_in_transactions_are_checked_and_held_back(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node, topic_id: bytes) -> None:
        ctx = RequestContext(28, version, "test", "PLAINTEXT")

        async def told(request: TxnOffsetCommitRequest) -> list[int]:
            return errors(await offset_commit.txn_offset_commit(request, ctx, node.on))

        assert await told(txn_request("")) == [Error.INVALID_GROUP_ID]
        assert await told(txn_request("g", "nothing")) == [Error.UNKNOWN_TOPIC_OR_PARTITION]
        assert await told(txn_request("g")) == [Error.NONE]
        request = txn_request("g")
        request.generation_id, request.member_id = 3, "me"
        assert await told(request) == [Error.UNKNOWN_MEMBER_ID]
        fetched = await node.call(OffsetFetchRequest(group_id="g", topics=None), 7)
        assert fetched.topics == []

    on_a_node(scenario, tmp_path)
