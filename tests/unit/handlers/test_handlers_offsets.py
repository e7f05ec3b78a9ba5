"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.wire.messages.offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.services import NODE_ID, Node, batch, play

LATEST, EARLIEST, MAX, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
NOW = 1_000_000
NEWEST = 11


def leading(epoch: int, *replicas: int) -> PartitionImage:
    return PartitionImage(NODE_ID, epoch, replicas or (NODE_ID,), replicas or (NODE_ID,))


def append(node: Node, *batches: bytes) -> None:
    for records in batches:
        node.replicas.find("t", 0).append(memoryview(bytearray(records)), 1, node.clock.wall_ms())


async def listed(
    node: Node,
    timestamp: int,
    version: int = NEWEST,
    *,
    partition: int = 0,
    epoch: int = -1,
    isolation: int = 0,
    replica_id: int = -1,
    topic: str = "t",
) -> ListOffsetsPartitionResponse:
    row = ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
    )
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[row])],
    )
    response = await node.begin(request, version)
    found: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return found


def place(row: ListOffsetsPartitionResponse) -> tuple[int, int, int]:
    assert row.error_code == 0
    return row.timestamp, row.offset, row.leader_epoch


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_earliest_and_latest_are_told_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a", b"b"))
        latest, earliest = (
            await listed(node, LATEST, version),
            await listed(node, EARLIEST, version),
        )
        assert (latest.error_code, latest.timestamp, latest.offset) == (0, -1, 2)
        assert (earliest.error_code, earliest.timestamp, earliest.offset) == (0, -1, 0)
        if version >= 4:
            assert (latest.leader_epoch, earliest.leader_epoch) == (0, 0)

    play(scenario, tmp_path)


def test_a_time_finds_the_first_record_that_is_not_earlier(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", leading(4))
        append(node, batch(b"a", timestamp=NOW), batch(b"b", timestamp=NOW + 10))
        assert place(await listed(node, 0)) == (NOW, 0, 4)
        assert place(await listed(node, NOW + 1)) == (NOW + 10, 1, 4)
        assert place(await listed(node, NOW + 11)) == (-1, -1, -1)

    play(scenario, tmp_path)


def test_the_record_with_the_largest_timestamp_is_found(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        assert place(await listed(node, MAX)) == (-1, -1, -1)
        append(node, batch(b"a", timestamp=NOW + 10), batch(b"b", timestamp=NOW))
        assert place(await listed(node, MAX)) == (NOW + 10, 0, 0)

    play(scenario, tmp_path)


def test_there_is_no_tiered_storage_to_find_offsets_in(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"))
        assert place(await listed(node, EARLIEST_LOCAL)) == (-1, 0, 0)
        assert place(await listed(node, LATEST_TIERED)) == (-1, -1, -1)
        assert place(await listed(node, EARLIEST_PENDING)) == (-1, -1, -1)

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (EARLIEST_PENDING, 10), (-7, 11)],
)
def test_a_special_timestamp_needs_its_version(
    timestamp: int, version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        row = await listed(node, timestamp, version)
        assert (row.error_code, row.offset) == (Error.UNSUPPORTED_VERSION, -1)
        if timestamp >= EARLIEST_PENDING:
            assert (await listed(node, timestamp, version + 1)).error_code == 0

    play(scenario, tmp_path)


def test_consumers_see_the_end_of_what_is_committed_and_replicas_the_end_of_all(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", leading(4, NODE_ID, 2))
        append(node, batch(b"a"))
        assert place(await listed(node, LATEST)) == (-1, 0, 4)
        assert place(await listed(node, NOW)) == (-1, -1, -1)
        assert place(await listed(node, LATEST, replica_id=2)) == (-1, 1, 4)

    play(scenario, tmp_path)


def test_read_committed_sees_the_last_stable_offset(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        open_transaction = batch(
            b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        append(node, batch(b"a"), open_transaction)
        assert place(await listed(node, LATEST, isolation=0)) == (-1, 2, 0)
        assert place(await listed(node, LATEST, isolation=1)) == (-1, 1, 0)

    play(scenario, tmp_path)


def test_offsets_are_refused_for_what_is_not_there_and_in_other_epochs(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", leading(4))
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await listed(node, LATEST, topic="nowhere")).error_code == unknown
        assert (await listed(node, LATEST, partition=9)).error_code == unknown
        fenced = await listed(node, LATEST, epoch=3)
        assert fenced.error_code == Error.FENCED_LEADER_EPOCH
        newer = await listed(node, LATEST, epoch=5)
        assert newer.error_code == Error.UNKNOWN_LEADER_EPOCH

    play(scenario, tmp_path)


def test_a_partition_asked_for_twice_is_refused_once(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        rows = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 0)]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=rows)]
        )
        partitions = (await node.call(request, 7)).topics[0].partitions
        found = [(row.partition_index, row.error_code) for row in partitions]
        assert found == [(0, Error.INVALID_REQUEST), (1, 0)]

    play(scenario, tmp_path)


# Leader epochs


async def epoch_end(
    node: Node, epoch: int, current: int = -1, version: int = 4, topic: str = "t"
) -> EpochEndOffset:
    row = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[row])]
    )
    found: EpochEndOffset = (await node.call(request, version)).topics[0].partitions[0]
    return found


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_end_of_an_epoch_is_told(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", leading(3))
        append(node, batch(b"a"), batch(b"b"))
        node.place("t", leading(5))
        append(node, batch(b"c"))
        for epoch, expected in ((3, (3, 2)), (4, (3, 2)), (5, (5, 3)), (6, (-1, -1))):
            row = await epoch_end(node, epoch, version=version)
            assert (row.error_code, row.leader_epoch, row.end_offset) == (0, *expected)

    play(scenario, tmp_path)


def test_the_end_of_an_epoch_is_refused_in_other_epochs_and_for_unknown_topics(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", leading(3))
        assert (await epoch_end(node, 3, current=2)).error_code == Error.FENCED_LEADER_EPOCH
        assert (await epoch_end(node, 3, current=4)).error_code == Error.UNKNOWN_LEADER_EPOCH
        row = await epoch_end(node, 3, topic="nowhere")
        assert (row.error_code, row.end_offset) == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1)

    play(scenario, tmp_path)


# Deleting records


async def deleted(
    node: Node, offset: int, version: int = 2, topic: str = "t"
) -> DeleteRecordsPartitionResult:
    row = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[row])], timeout_ms=1000
    )
    found: DeleteRecordsPartitionResult = (
        (await node.call(request, version)).topics[0].partitions[0]
    )
    return found


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_up_to_an_offset(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a", b"b", b"c"))
        row = await deleted(node, 2, version)
        assert (row.error_code, row.low_watermark) == (0, 2)
        assert place(await listed(node, EARLIEST)) == (-1, 2, 0)

    play(scenario, tmp_path)


def test_deleting_what_is_deleted_already_changes_nothing(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a", b"b", b"c"))
        await deleted(node, 2)
        row = await deleted(node, 1)
        assert (row.error_code, row.low_watermark) == (0, 2)

    play(scenario, tmp_path)


def test_minus_1_deletes_everything_that_is_committed(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a", b"b", b"c"))
        assert (await deleted(node, -1)).low_watermark == 3

    play(scenario, tmp_path)


@pytest.mark.parametrize("offset", [-5, 4])
def test_an_offset_beyond_the_high_watermark_cannot_be_deleted_to(
    offset: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a", b"b", b"c"))
        row = await deleted(node, offset)
        assert (row.error_code, row.low_watermark) == (Error.OFFSET_OUT_OF_RANGE, -1)

    play(scenario, tmp_path)


def test_compacted_internal_and_unknown_topics_keep_their_records(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", configs={"cleanup.policy": "compact"})
        await node.create_topic("__consumer_offsets")
        assert (await deleted(node, 0)).error_code == Error.POLICY_VIOLATION
        internal = await deleted(node, 0, topic="__consumer_offsets")
        assert internal.error_code == Error.INVALID_TOPIC_EXCEPTION
        unknown = await deleted(node, 0, topic="nowhere")
        assert unknown.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario, tmp_path)
