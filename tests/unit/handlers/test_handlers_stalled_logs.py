"""The log of a coordinator stands still: its follower is in sync and stores nothing more.

Whoever asks is told in time, and what waits behind it in the same queue goes on.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

from moldau.coordinators.local_markers import TransactionEnd
from moldau.engine.key_hash import partition_for
from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.replication.replica import Replica
from moldau.transactions.transaction_commands import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
)
from moldau.transactions.transaction_states import State
from moldau.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from moldau.wire.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.wire.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
)
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.transaction_admin import ListTransactionsRequest
from moldau.wire.messages.transactions import AddPartitionsToTxnResponse, WriteTxnMarkersRequest
from tests.support.services import NODE_ID, Node, batch, play, turns

OTHER = 2
TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
PRODUCER_ID = 1000
MINUTE_MS = 60_000


def stalled(node: Node, topic: str) -> Replica:
    both = (NODE_ID, OTHER)
    node.place(topic, PartitionImage(NODE_ID, 3, both, both))
    return node.replicas.find(topic, 0)


def catch_up(node: Node, replica: Replica) -> None:
    replica.follower_fetched(OTHER, replica.log.offset_end, node.clock.monotonic_ms())


async def waits_for(node: Node, *tasks: asyncio.Future[Any]) -> None:
    await turns()
    assert not any(task.done() for task in tasks), "nothing stands still"
    node.time.pass_ms(MINUTE_MS)
    await turns()
    assert all(task.done() for task in tasks), "somebody waits for ever"


def test_a_transactional_write_is_refused_in_time_and_so_is_what_waits_behind_it(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        replica = stalled(node, TRANSACTIONS)
        command = InitProducer("id", MINUTE_MS, new_producer_id=PRODUCER_ID)
        asked = node.on.transactions.submit("id", command)
        catch_up(node, replica)
        await asked

        def write(sequence: int) -> asyncio.Task[Any]:
            records = batch(
                producer_id=PRODUCER_ID,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            data = PartitionProduceData(index=0, records=records)
            topic = TopicProduceData(name="t", partition_data=[data])
            request = ProduceRequest(
                transactional_id="id", acks=-1, timeout_ms=1000, topic_data=[topic]
            )
            return node.park(request, 12)

        first = write(0)
        await turns()
        node.time.pass_ms(MINUTE_MS)
        await turns()
        assert row_error(first) == Error.NOT_ENOUGH_REPLICAS
        second = write(0)
        await waits_for(node, second)
        assert row_error(second) == Error.NOT_ENOUGH_REPLICAS
        catch_up(node, replica)
        third = write(0)
        await turns()
        assert row_error(third) == Error.NONE

    play(scenario, tmp_path)


def row_error(task: asyncio.Task[Any]) -> int:
    assert task.done(), "it waits for ever"
    error: int = task.result().responses[0].partition_responses[0].error_code
    return error


def test_a_marker_for_offsets_does_not_keep_other_markers_waiting(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        stalled(node, OFFSETS)
        offsets, records = TopicPartition(OFFSETS, 0), TopicPartition("t", 0)
        end = TransactionEnd(PRODUCER_ID, 0, True, 0, 2, (offsets, records))
        writing = node.loop.create_task(node.coordinators.markers.write([end], 30_000))
        await waits_for(node, writing)
        (results,) = writing.result()
        assert results == {offsets: Error.REQUEST_TIMED_OUT, records: Error.NONE}

    play(scenario, tmp_path)


async def commit_transaction(
    node: Node, name: str, producer_id: int, place: TopicPartition
) -> None:
    """Decided when this returns; its marker may be on its way."""
    for command in (
        InitProducer(name, 1000, new_producer_id=producer_id),
        AddPartitions(name, producer_id, 0, frozenset({place})),
        EndTransaction(name, producer_id, 0, True),
    ):
        await node.on.transactions.submit(name, command)
    await turns()


async def state_of(node: Node, name: str) -> State:
    found: Any = await node.on.transactions.submit(name, DescribeTransaction(name))
    state: State = found.state
    return state


def test_a_partition_that_takes_no_marker_holds_up_no_other_transaction(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        await node.call(FindCoordinatorRequest(key="id", key_type=1), 3)
        slow = stalled(node, "slow")
        await commit_transaction(node, "slow", PRODUCER_ID, TopicPartition("slow", 0))
        await commit_transaction(node, "quick", PRODUCER_ID + 1, TopicPartition("t", 0))
        assert await state_of(node, "quick") is State.COMPLETE_COMMIT
        assert await state_of(node, "slow") is State.PREPARE_COMMIT
        catch_up(node, slow)
        await turns()
        assert await state_of(node, "slow") is State.COMPLETE_COMMIT

    play(scenario, tmp_path, transaction_state_log_num_partitions="1")


def with_a_fact_that_nobody_stores(node: Node) -> asyncio.Task[Any]:
    """Every answer of the group coordinator waits for it."""
    stalled(node, OFFSETS)
    end = TransactionEnd(PRODUCER_ID, 0, True, 0, 2, (TopicPartition(OFFSETS, 0),))
    return node.loop.create_task(node.coordinators.markers.write([end], 30_000))


GROUPS = [f"g{number}" for number in range(10)]


def test_a_request_for_many_groups_is_answered_within_the_time_for_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        with_a_fact_that_nobody_stores(node)
        await turns()
        asked = (
            node.park(DescribeGroupsRequest(groups=GROUPS), 5),
            node.park(DeleteGroupsRequest(groups_names=GROUPS), 2),
            node.park(
                OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=g) for g in GROUPS]), 8
            ),
        )
        await turns()
        node.time.pass_ms(node.config.offsets_commit_timeout_ms)
        await turns()
        assert [task.done() for task in asked] == [True] * 3

    play(scenario, tmp_path)


def test_a_refusal_whose_asker_has_gone_is_reported_to_nobody(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        reports: list[str] = []
        node.loop.set_exception_handler(lambda _, context: reports.append(context["message"]))
        writing = with_a_fact_that_nobody_stores(node)
        await turns()
        asked = (
            node.park(DescribeGroupsRequest(groups=GROUPS), 5),
            node.park(DeleteGroupsRequest(groups_names=GROUPS), 2),
        )
        await turns()
        for task in (writing, *asked):
            task.cancel()
        await turns()
        del writing, asked, task
        node.place(OFFSETS, PartitionImage(OTHER, 4, (NODE_ID, OTHER), (NODE_ID, OTHER)))
        await turns()
        gc.collect()
        await turns()
        assert reports == []

    play(scenario, tmp_path)


def test_members_are_told_in_time_that_their_coordinator_cannot_store_anything(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        stalled(node, OFFSETS)
        # A marker is in the log, and every answer waits for it.
        end = TransactionEnd(PRODUCER_ID, 0, True, 0, 2, (TopicPartition(OFFSETS, 0),))
        writing = node.loop.create_task(node.coordinators.markers.write([end], 30_000))
        await turns()
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        members = [MemberIdentity(member_id="m")]
        asked = (
            node.park(heartbeat, 4),
            node.park(LeaveGroupRequest(group_id="g", members=members), 5),
        )
        await waits_for(node, writing, *asked)
        for task in asked:
            assert task.result().error_code == Error.COORDINATOR_NOT_AVAILABLE

    play(scenario, tmp_path)


def test_transactions_are_listed_in_time(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        stalled(node, TRANSACTIONS)
        command = InitProducer("id", MINUTE_MS, new_producer_id=PRODUCER_ID)
        node.on.transactions.submit("id", command)
        asked = node.park(ListTransactionsRequest(), 1)
        await waits_for(node, asked)
        assert asked.result().error_code == Error.COORDINATOR_NOT_AVAILABLE

    play(scenario, tmp_path)


def test_chores_of_one_partition_do_not_wait_for_the_log_of_another(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        alone, both = (NODE_ID,), (NODE_ID, OTHER)
        node.place(
            TRANSACTIONS,
            PartitionImage(NODE_ID, 3, both, both),
            PartitionImage(NODE_ID, 3, alone, alone),
        )
        slow, quick = (
            next(name for name in map(str, range(99)) if partition_for(name, 2) == partition)
            for partition in (0, 1)
        )
        place = TopicPartition("t", 0)
        for name in (slow, quick):
            init = InitProducer(name, 1000, new_producer_id=PRODUCER_ID)
            node.on.transactions.submit(name, init)
            add = AddPartitions(name, PRODUCER_ID, 0, frozenset({place}))
            node.on.transactions.submit(name, add)
        node.time.pass_ms(1001)
        job = node.loop.create_task(node.coordinators.transactions.end_timed_out())
        await turns()
        found: Any = await node.on.transactions.submit(quick, DescribeTransaction(quick))
        assert found.state is State.COMPLETE_ABORT
        await waits_for(node, job)

    play(scenario, tmp_path)


class Lanes:
    """Another broker: each lane is answered in order, and markers not at all."""

    def __init__(self) -> None:
        self.locks: dict[str, asyncio.Lock] = {}
        self.asked: list[Any] = []

    async def call(self, broker: int, request: Any, *, lane: str = "", **options: Any) -> Any:
        self.asked.append(request)
        async with self.locks.setdefault(lane, asyncio.Lock()):
            if isinstance(request, WriteTxnMarkersRequest):
                await asyncio.get_running_loop().create_future()
            return AddPartitionsToTxnResponse()


def test_markers_that_another_broker_cannot_store_do_not_keep_writers_waiting(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        there = PartitionImage(OTHER, 0, (OTHER,), (OTHER,))
        node.place("away", there)
        node.place(TRANSACTIONS, PartitionImage(NODE_ID, 0, (NODE_ID,), (NODE_ID,)), there)
        here_id, there_id = (
            next(name for name in map(str, range(99)) if partition_for(name, 2) == partition)
            for partition in (0, 1)
        )
        peers = Lanes()
        node.coordinators.transactions._peers = peers
        place = TopicPartition("away", 0)
        init = InitProducer(here_id, 1000, new_producer_id=PRODUCER_ID)
        await node.on.transactions.submit(here_id, init)
        add = AddPartitions(here_id, PRODUCER_ID, 0, frozenset({place}))
        await node.on.transactions.submit(here_id, add)
        await node.on.transactions.submit(here_id, EndTransaction(here_id, PRODUCER_ID, 0, True))
        await turns()
        assert isinstance(peers.asked[0], WriteTxnMarkersRequest)
        asked = node.on.transactions.submit_partitions(replace(add, transactional_id=there_id))
        await turns()
        assert asked.done(), "it stands behind the markers"

    play(scenario, tmp_path)
