"""The coordinators as the broker puts them together: chores, markers on their way, log lines."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import pytest

from moldau.coordinators.log_journal import LogJournal
from moldau.groups.group_commands import CommitOffsets, FetchOffsets, ListGroups, OffsetRow
from moldau.groups.group_results import FetchedTopic
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.transactions.transaction_commands import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ProducerGranted,
)
from moldau.transactions.transaction_facts import (
    EPOCH_LAST,
    VERSION_2,
    Transaction,
    TransactionMoved,
)
from moldau.transactions.transaction_records import TransactionCodec
from moldau.transactions.transaction_states import State
from moldau.wire.messages.groups import FindCoordinatorRequest
from tests.support.services import NODE_ID, Node, play, turns

GROUP, TX = "g", "tx"
PLACE = TopicPartition("t", 0)
DAY_MS = 86_400_000
HERE = PartitionImage(NODE_ID, 0, (NODE_ID,), (NODE_ID,))
ONE_PARTITION = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}


async def with_coordinators(node: Node) -> None:
    await node.create_topic("t")
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
        assert (await node.call(request, 4)).coordinators[0].error_code == 0


async def commit(node: Node, place: TopicPartition, topic_id: bytes) -> None:
    rows = (OffsetRow(place, 5, topic_id=topic_id),)
    command = CommitOffsets(GROUP, rows)
    await node.on.groups.submit(GROUP, command)


async def committed(node: Node) -> dict[str, int]:
    found = await node.on.groups.submit(GROUP, FetchOffsets(GROUP, None))
    return {row.topic: row.offsets[0].offset for row in cast("list[FetchedTopic]", found)}


async def begin(node: Node, *places: TopicPartition, timeout_ms: int = 1000) -> ProducerGranted:
    """A transaction with these partitions; its producer."""
    command = InitProducer(TX, timeout_ms, new_producer_id=7)
    producer = cast("ProducerGranted", await node.on.transactions.submit(TX, command))
    added = AddPartitions(TX, *producer, frozenset(places), client_version=VERSION_2)
    await node.on.transactions.submit(TX, added)
    return producer


async def end(node: Node, producer: ProducerGranted) -> None:
    command = EndTransaction(TX, *producer, True, VERSION_2)
    await node.on.transactions.submit(TX, command)


async def transaction(node: Node) -> Transaction:
    found = await node.on.transactions.submit(TX, DescribeTransaction(TX))
    return cast("Transaction", found)


def test_a_commit_is_completed_by_markers(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        producer = await begin(node, PLACE, TopicPartition("__consumer_offsets", 0))
        await end(node, producer)
        await turns()
        assert (await transaction(node)).state is State.COMPLETE_COMMIT
        assert node.replicas.find("t", 0).log.offset_end == 1
        assert node.replicas.find("__consumer_offsets", 0).log.offset_end == 1

    play(scenario, tmp_path, **ONE_PARTITION)


def test_markers_wait_for_a_leader_that_can_be_reached(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        node.place("away", PartitionImage(2, 0, (NODE_ID, 2), (NODE_ID, 2)))
        producer = await begin(node, TopicPartition("away", 0))
        await end(node, producer)
        for _ in range(3):
            await turns()
            assert (await transaction(node)).state is State.PREPARE_COMMIT
            node.time.pass_ms(100)
        node.place("away", PartitionImage(NODE_ID, 1, (NODE_ID, 2), (NODE_ID,)))
        await turns()
        node.time.pass_ms(100)
        await turns()
        assert (await transaction(node)).state is State.COMPLETE_COMMIT

    play(scenario, tmp_path, **ONE_PARTITION)


def test_a_transaction_is_completed_soon_after_its_log_takes_facts_again(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        both = (NODE_ID, 2)
        node.place("slow", PartitionImage(NODE_ID, 0, both, both))
        producer = await begin(node, TopicPartition("slow", 0))
        await end(node, producer)
        await turns()
        log = node.replicas.find("__transaction_state", 0)
        log.partition.has_enough_in_sync = False
        marked = node.replicas.find("slow", 0)
        marked.follower_fetched(2, marked.log.offset_end, node.clock.monotonic_ms())
        await turns()
        assert (await transaction(node)).state is State.PREPARE_COMMIT
        log.partition.has_enough_in_sync = True
        # Long before silence would make it send all markers anew.
        node.time.pass_ms(1000)
        await turns()
        assert (await transaction(node)).state is State.COMPLETE_COMMIT

    play(scenario, tmp_path, **ONE_PARTITION)


def test_transactions_that_take_too_long_are_aborted(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        await begin(node, PLACE, timeout_ms=1000)
        await node.coordinators.transactions.end_timed_out()
        assert (await transaction(node)).state is State.ONGOING
        node.time.pass_ms(1001)
        await node.coordinators.transactions.end_timed_out()
        await turns()
        assert (await transaction(node)).state is State.COMPLETE_ABORT

    play(scenario, tmp_path, **ONE_PARTITION)


def test_an_abort_that_needs_a_new_producer_id_gets_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        node.place("__transaction_state", HERE)
        node.coordinators.transactions.stop()
        journal = LogJournal(
            node.replicas.find("__transaction_state", 0), TransactionCodec().encode, node.clock
        )
        exhausted = Transaction(
            TX,
            producer_id=7,
            producer_epoch=EPOCH_LAST,
            timeout_ms=1000,
            state=State.ONGOING,
            partitions=frozenset({PLACE}),
            start_ms=node.clock.wall_ms(),
            update_ms=node.clock.wall_ms(),
            client_version=VERSION_2,
        )
        journal.append([TransactionMoved(exhausted)])
        node.restart_coordinators()
        await turns()
        node.time.pass_ms(2000)
        await node.coordinators.transactions.end_timed_out()
        await turns()
        after = await transaction(node)
        assert (after.state, after.producer_epoch) == (State.COMPLETE_ABORT, 0)
        assert after.producer_id != 7

    play(scenario, tmp_path)


def test_transactional_ids_that_nobody_uses_are_forgotten(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        await end(node, await begin(node, PLACE))
        await turns()
        await node.coordinators.transactions.expire_transactional_ids()
        assert (await transaction(node)).state is State.COMPLETE_COMMIT
        node.time.pass_ms(8 * DAY_MS)
        await node.coordinators.transactions.expire_transactional_ids()
        with pytest.raises(ApiError) as refused:
            await transaction(node)
        assert refused.value.error is Error.TRANSACTIONAL_ID_NOT_FOUND

    play(scenario, tmp_path, **ONE_PARTITION)


def test_old_offsets_and_their_groups_are_forgotten(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        await commit(node, PLACE, node.image.topics["t"].id)
        node.coordinators.groups.expire_offsets()
        assert await committed(node) == {"t": 5}
        node.time.pass_ms(8 * DAY_MS)
        node.coordinators.groups.expire_offsets()
        assert await committed(node) == {}
        assert await node.on.groups.submit(GROUP, ListGroups()) == ()

    play(scenario, tmp_path, **ONE_PARTITION)


def test_offsets_go_with_their_topic(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        await commit(node, PLACE, node.image.topics["t"].id)
        await commit(node, TopicPartition("u", 0), await node.create_topic("u"))
        assert await committed(node) == {"t": 5, "u": 5}
        await node.controller.delete_topics(["t"])
        assert await committed(node) == {"u": 5}

    play(scenario, tmp_path, **ONE_PARTITION)


def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        await commit(node, PLACE, node.image.topics["t"].id)
        await begin(node, PLACE)
        node.restart_coordinators()
        await turns()
        assert await committed(node) == {"t": 5}
        assert (await transaction(node)).partitions == {PLACE}

    play(scenario, tmp_path, **ONE_PARTITION)


def test_the_log_tells_of_producers_and_of_time_outs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(node: Node) -> None:
        await with_coordinators(node)
        await begin(node, PLACE)
        node.time.pass_ms(2000)
        await node.coordinators.transactions.end_timed_out()

    play(scenario, tmp_path, **ONE_PARTITION)
    lines = [record.message for record in caplog.records if "TransactionCoordinator" in record.name]
    assert lines[0] == (
        f"[TransactionCoordinator id={NODE_ID}] Initialized transactionalId {TX} with producerId 7 "
        "and producer epoch 0 on partition __transaction_state-0"
    )
    assert "due to timeout" in lines[1]
