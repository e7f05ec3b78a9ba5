"""Logs whose files cannot be read when somebody needs them: an error for that partition alone, and
everything else in the same request is answered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.storage.log.log_at_rest import RestingLog
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.transaction_admin import DescribeProducersRequest, TopicRequest
from tests.support.fetching import (
    BY_NAME,
    append,
    append_marker,
    part,
    request,
    rows,
    transactional,
    values,
)
from tests.support.services import NODE_ID, Node, batch, play

ALONE = PartitionImage(NODE_ID, 0, (NODE_ID,), (NODE_ID,))
READ_COMMITTED = 1
STORAGE, FINE = int(Error.KAFKA_STORAGE_ERROR), int(Error.NONE)


def play_with_one_unreadable(tmp_path: Path, scenario: Callable[[Node], Awaitable[None]]) -> None:
    """Two partitions with records, at rest after a clean stop; the files of the first are gone."""

    async def run() -> None:
        node = await Node(tmp_path).start()
        node.place("t", ALONE, ALONE)
        for partition in (0, 1):
            append(node, batch(b"a", b"b"), partition=partition)
        node.stop()
        again = await Node(tmp_path).start()
        again.place("t", ALONE, ALONE)
        for partition in (0, 1):
            assert isinstance(again.replicas.find("t", partition).log, RestingLog)
        os.rename(tmp_path / "t-0", tmp_path / "away")
        try:
            await scenario(again)
            os.rename(tmp_path / "away", tmp_path / "t-0")
            answer = await again.call(produce_request(), 9)
            assert codes(answer) == [FINE, FINE], "it is tried again"
        finally:
            again.stop()

    asyncio.run(run())


def produce_request(**fields: object) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=index, records=batch(b"c")) for index in (0, 1)
                ],
            )
        ],
        **fields,  # type: ignore[arg-type]
    )


def codes(answer: object) -> list[int]:
    return [
        row.error_code
        for topic in answer.responses  # type: ignore[attr-defined]
        for row in topic.partition_responses
    ]


def test_a_fetch_of_committed_records_fails_for_the_unreadable_partition_alone(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        asked = request(part(0), part(1), isolation_level=READ_COMMITTED)
        by_index = {row.partition_index: row for row in rows(await node.call(asked, BY_NAME))}
        assert by_index[0].error_code == STORAGE
        assert (by_index[1].error_code, values(by_index[1])) == (FINE, [b"a", b"b"])

    play_with_one_unreadable(tmp_path, scenario)


def test_a_produce_fails_for_the_unreadable_partition_alone(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        assert codes(await node.call(produce_request(), 9)) == [STORAGE, FINE]

    play_with_one_unreadable(tmp_path, scenario)


def test_a_transactional_produce_fails_for_the_unreadable_partition_alone(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        sent = produce_request(transactional_id="x")
        for data in sent.topic_data[0].partition_data:
            data.records = transactional(b"c", 7)
        first, second = codes(await node.call(sent, 9))
        assert first == STORAGE
        # Nobody knows the transaction: that is found out by asking, as for any other partition.
        assert second not in (STORAGE, int(Error.UNKNOWN_SERVER_ERROR))

    play_with_one_unreadable(tmp_path, scenario)


def test_producers_are_described_but_for_the_unreadable_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])])
        [topic] = (await node.call(asked, 0)).topics
        assert [row.error_code for row in topic.partitions] == [STORAGE, FINE]

    play_with_one_unreadable(tmp_path, scenario)


def test_offsets_are_told_but_for_the_unreadable_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        asked = [ListOffsetsPartition(partition_index=at, timestamp=-2) for at in (0, 1)]
        offsets = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)]
        )
        [topic] = (await node.call(offsets, 7)).topics
        assert [row.error_code for row in topic.partitions] == [STORAGE, FINE]
        epochs = [OffsetForLeaderPartition(partition=at, leader_epoch=-1) for at in (0, 1)]
        ends = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=epochs)]
        )
        [topic] = (await node.call(ends, 3)).topics
        assert [row.error_code for row in topic.partitions] == [STORAGE, FINE]

    play_with_one_unreadable(tmp_path, scenario)


def test_an_unreadable_index_of_aborted_transactions_fails_its_partition_alone(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", ALONE, ALONE)
        append(node, transactional(b"a", 7))
        append_marker(node, 7, committed=False)
        append(node, batch(b"b"), partition=1)
        index = node.replicas.find("t", 0).log.segments.active.txn_index  # type: ignore[union-attr]
        Path(index.path).write_bytes(b"\x7f" * 34)
        index._entries = None
        asked = request(part(0), part(1), isolation_level=READ_COMMITTED)
        by_index = {row.partition_index: row for row in rows(await node.call(asked, BY_NAME))}
        assert by_index[0].error_code == STORAGE
        assert (by_index[1].error_code, values(by_index[1])) == (FINE, [b"b"])

    play(scenario, tmp_path)
