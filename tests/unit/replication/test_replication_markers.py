"""Markers end transactions in the logs, wake readers, and go to groups where offsets are."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moldau.coordinators.local_markers import MARKERS_PER_TURN, MarkerWriter, TransactionEnd
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records.batch_codec import ControlType, decode_batch, decode_marker, encode_batch
from moldau.replication.replica import READ_COMMITTED, Replica
from tests.support.services import NODE_ID, Node, batch, play, region_bytes, turns

PLACE = TopicPartition("t", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
TIMEOUT_MS = 1000


def end(
    *places: TopicPartition,
    committed: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> TransactionEnd:
    return TransactionEnd(9, epoch, committed, coordinator_epoch, version, places)


class Groups:
    """Stands for the group coordinator; `outcome` is what it says."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, TransactionEnd]] = []
        self.outcome: Error = Error.NONE

    def __call__(self, partition: int, what: TransactionEnd) -> asyncio.Future[object]:
        self.ended.append((partition, what))
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        if self.outcome:
            future.set_exception(ApiError(self.outcome))
        else:
            future.set_result(None)
        return future


def writer(node: Node, groups: Groups | None = None) -> MarkerWriter:
    return MarkerWriter(node.replicas, node.clock, node.timers, groups or Groups())


def write_records(replica: Replica, epoch: int = 0, sequence: int = 0) -> None:
    records = batch(producer_id=9, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    replica.append(memoryview(bytearray(records)), -1, 1_000_000)


def test_a_marker_decides_the_transaction(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        replica = node.replicas.find("t", 0)
        write_records(replica)
        assert replica.readable_end(READ_COMMITTED) == 0
        (results,) = await writer(node).write([end(PLACE, coordinator_epoch=4)], TIMEOUT_MS)
        assert results == {PLACE: Error.NONE}
        assert replica.readable_end(READ_COMMITTED) == 2
        region, _ = replica.log.read(1, 1 << 20, 2)
        assert region is not None
        (record,) = decode_batch(region_bytes(region))
        assert decode_marker(record) == (ControlType.COMMIT, 4)

    play(scenario, tmp_path)


def test_an_aborted_transaction_is_listed_for_readers(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        replica = node.replicas.find("t", 0)
        write_records(replica)
        await writer(node).write([end(PLACE, committed=False)], TIMEOUT_MS)
        aborted = replica.log.aborted_transactions(0, 2)
        assert [(each.producer_id, each.first_offset) for each in aborted] == [(9, 0)]

    play(scenario, tmp_path)


def test_a_stale_coordinator_and_a_stale_producer_are_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        write_records(node.replicas.find("t", 0), epoch=3)
        markers = writer(node)
        (stale,) = await markers.write([end(PLACE, epoch=2)], TIMEOUT_MS)
        assert stale == {PLACE: Error.INVALID_PRODUCER_EPOCH}
        (same,) = await markers.write([end(PLACE, epoch=3, version=2)], TIMEOUT_MS)
        assert same == {PLACE: Error.INVALID_PRODUCER_EPOCH}, "version 2 always raises the epoch"
        (good,) = await markers.write([end(PLACE, epoch=4, coordinator_epoch=5)], TIMEOUT_MS)
        assert good == {PLACE: Error.NONE}
        (fenced,) = await markers.write([end(PLACE, epoch=4, coordinator_epoch=4)], TIMEOUT_MS)
        assert fenced == {PLACE: Error.TRANSACTION_COORDINATOR_FENCED}

    play(scenario, tmp_path)


def test_others_have_turns_while_many_markers_of_one_transaction_are_written(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        count = 2 * MARKERS_PER_TURN + 1
        await node.create_topic("t", count)
        places = [TopicPartition("t", n) for n in range(count)]
        written: list[int] = []

        def look() -> None:
            logs = [node.replicas.find(*place).log for place in places]
            written.append(sum(log.offset_end for log in logs))
            if written[-1] < count:
                node.loop.call_soon(look)

        writing = node.loop.create_task(writer(node).write([end(*places)], TIMEOUT_MS))
        node.loop.call_soon(look)
        assert await writing == [dict.fromkeys(places, Error.NONE)]
        assert written[:2] == [MARKERS_PER_TURN, 2 * MARKERS_PER_TURN]

    play(scenario, tmp_path)


def test_each_partition_has_its_own_outcome(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        node.place("away", PartitionImage(2, 0, (2,), (2,)))
        gone, away = TopicPartition("gone", 0), TopicPartition("away", 0)
        first, second = await writer(node).write([end(gone, PLACE), end(away)], TIMEOUT_MS)
        assert first == {gone: Error.UNKNOWN_TOPIC_OR_PARTITION, PLACE: Error.NONE}
        assert second == {away: Error.NOT_LEADER_OR_FOLLOWER}

    play(scenario, tmp_path)


def test_a_marker_counts_when_the_in_sync_replicas_have_it(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", PartitionImage(NODE_ID, 0, (NODE_ID, 2), (NODE_ID, 2)))
        replica = node.replicas.find("t", 0)
        task = node.loop.create_task(writer(node).write([end(PLACE)], TIMEOUT_MS))
        await turns()
        assert not task.done()
        replica.follower_fetched(2, 1, node.clock.monotonic_ms())
        await turns()
        assert task.result() == [{PLACE: Error.NONE}]

    play(scenario, tmp_path)


def test_a_marker_that_followers_do_not_get_in_time_is_told_so(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", PartitionImage(NODE_ID, 0, (NODE_ID, 2), (NODE_ID, 2)))
        task = node.loop.create_task(writer(node).write([end(PLACE)], TIMEOUT_MS))
        await turns()
        node.time.pass_ms(TIMEOUT_MS)
        await turns()
        assert task.result() == [{PLACE: Error.REQUEST_TIMED_OUT}]

    play(scenario, tmp_path)


def test_markers_for_offsets_go_to_the_group_coordinator(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("__consumer_offsets")
        groups = Groups()
        (results,) = await writer(node, groups).write([end(OFFSETS)], TIMEOUT_MS)
        assert results == {OFFSETS: Error.NONE}
        assert groups.ended == [(0, end(OFFSETS))]
        groups.outcome = Error.COORDINATOR_LOAD_IN_PROGRESS
        (results,) = await writer(node, groups).write([end(OFFSETS)], TIMEOUT_MS)
        assert results == {OFFSETS: Error.NOT_LEADER_OR_FOLLOWER}, "it is tried again later"

    play(scenario, tmp_path)


def test_a_late_marker_does_not_reach_the_group_coordinator(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("__consumer_offsets")
        offsets = encode_batch([], producer_id=9, producer_epoch=5, transactional=True)
        node.replicas.find(*OFFSETS).append_as_coordinator(bytearray(offsets))
        groups = Groups()
        (results,) = await writer(node, groups).write(
            [end(OFFSETS, epoch=5, version=2)], TIMEOUT_MS
        )
        assert results == {OFFSETS: Error.INVALID_PRODUCER_EPOCH}
        assert groups.ended == []

    play(scenario, tmp_path)
