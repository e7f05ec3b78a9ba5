"""Transactions over the wire: every version of every request, on real logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.records.batch import read_header
from moldau.records.batch_codec import decode_batch, decode_marker
from moldau.replication.replica import READ_TO_END
from moldau.wire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.services import NODE_ID, Node, batch, play, region_bytes, turns

INIT, ADD, ADD_OFFSETS, END, COMMIT_OFFSETS = 5, 5, 4, 5, 5
"""The newest versions."""
PRODUCE_1, PRODUCE_2 = 11, 12
"""The last Produce of clients that add partitions themselves, the first of those that do not."""

SETTINGS = {
    "transaction_state_log_num_partitions": "3",
    "offsets_topic_num_partitions": "3",
    "group_initial_rebalance_delay_ms": "0",
}


def on_a_node(
    scenario: Callable[[Node], Awaitable[None]], directory: Path, **settings: str
) -> None:
    async def whole(node: Node) -> None:
        await node.create_topic("topic", partitions=3)
        await node.call(FindCoordinatorRequest(key="tid", key_type=1), 1)
        await scenario(node)

    play(whole, directory, **{**SETTINGS, **settings})


async def init(node: Node, version: int = INIT, **fields: Any) -> Any:
    request = InitProducerIdRequest(
        **{"transactional_id": "tid", "transaction_timeout_ms": 60_000, **fields}
    )
    return await node.call(request, version)


async def add(node: Node, producer: Any, version: int, *partitions: int, **fields: Any) -> Any:
    """The error of each partition, in order."""
    topics = [AddPartitionsToTxnTopic(name="topic", partitions=list(partitions))]
    if version >= 4:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="tid",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=topics,
            **fields,
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        response = await node.call(request, version)
        assert response.error_code == Error.NONE
        (result,) = response.results_by_transaction
        assert result.transactional_id == "tid"
        rows = result.topic_results
    else:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tid",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=topics,
        )
        rows = (await node.call(request, version)).results_by_topic_v3_and_below
    return [each.partition_error_code for row in rows for each in row.results_by_partition]


async def end(node: Node, producer: Any, version: int, committed: bool = True) -> Any:
    return await node.call(
        EndTxnRequest(
            transactional_id="tid",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=committed,
        ),
        version,
    )


async def produce(
    node: Node, producer: Any, version: int, *values: bytes, sequence: int = 0, partition: int = 0
) -> int:
    records = batch(
        *values,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )
    data = PartitionProduceData(index=partition, records=records)
    topic = TopicProduceData(name="topic", partition_data=[data])
    request = ProduceRequest(transactional_id="tid", acks=-1, timeout_ms=1000, topic_data=[topic])
    response = await node.call(request, version)
    error: int = response.responses[0].partition_responses[0].error_code
    return error


def dump(node: Node, topic: str = "topic", partition: int = 0) -> list[tuple[int, int, str]]:
    """(producer id, epoch, value or marker) of every batch."""
    replica = node.replicas.find(topic, partition)
    rows = []
    offset = 0
    while offset < replica.readable_end(READ_TO_END):
        region, _ = replica.log.read(offset, 1, replica.log.offset_end)
        assert region is not None
        data = region_bytes(region)
        header = read_header(data)
        for record in decode_batch(data):
            marker = decode_marker(record) if header.is_control else None
            text = marker.kind.name if marker else (record.value or b"").decode("latin-1")
            rows.append((header.producer_id, header.producer_epoch, text))
        offset = header.offset_end
    return rows


@pytest.mark.parametrize("version", range(INIT + 1))
def test_every_version_gets_a_producer_id(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        first = await init(node, version)
        assert (first.error_code, first.producer_id, first.producer_epoch) == (0, 0, 0)
        again = await init(node, version)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 0, 1)
        other = await init(node, version, transactional_id="other")
        assert (other.producer_id, other.producer_epoch) == (1, 0)
        idempotent = await init(node, version, transactional_id=None)
        assert (idempotent.producer_id, idempotent.producer_epoch) == (2, 0)

    on_a_node(scenario, tmp_path)


def test_requests_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        for fields, error in (
            ({"transactional_id": ""}, Error.INVALID_REQUEST),
            ({"transaction_timeout_ms": 0}, Error.INVALID_TRANSACTION_TIMEOUT),
            ({"transaction_timeout_ms": 900_001}, Error.INVALID_TRANSACTION_TIMEOUT),
            ({"producer_id": 5}, Error.INVALID_REQUEST),
            ({"producer_epoch": 5}, Error.INVALID_REQUEST),
        ):
            response = await init(node, **fields)
            assert response.error_code == error
            assert (response.producer_id, response.producer_epoch) == (-1, -1)

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(3, INIT + 1))
def test_a_producer_that_was_replaced_is_told_as_its_version_knows_it(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        old = await init(node)
        await init(node)
        await init(node)
        refused = await init(
            node, version, producer_id=old.producer_id, producer_epoch=old.producer_epoch
        )
        expected = Error.PRODUCER_FENCED if version >= 4 else Error.INVALID_PRODUCER_EPOCH
        assert refused.error_code == expected

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("add_version", range(4))
@pytest.mark.parametrize("end_version", range(END))
def test_older_clients_commit_and_abort_in_one_epoch(
    add_version: int, end_version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        producer = await init(node)
        for sequence, (value, committed) in enumerate([(b"one", True), (b"two", False)]):
            assert await add(node, producer, add_version, 0, 1) == [0, 0]
            error = await produce(node, producer, PRODUCE_1, value, sequence=sequence)
            assert error == Error.NONE
            response = await end(node, producer, end_version, committed)
            assert (response.error_code, response.producer_id) == (Error.NONE, -1)
            await turns()
        assert dump(node) == [(0, 0, "one"), (0, 0, "COMMIT"), (0, 0, "two"), (0, 0, "ABORT")]
        assert dump(node, partition=1) == [(0, 0, "COMMIT"), (0, 0, "ABORT")]

    on_a_node(scenario, tmp_path)


def test_newer_clients_leave_partitions_to_the_broker_and_get_an_epoch_each(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        producer = await init(node)
        for value, committed in [(b"one", True), (b"two", False), (b"three", True)]:
            assert await produce(node, producer, PRODUCE_2, value) == Error.NONE
            producer = await end(node, producer, END, committed)
            assert producer.error_code == Error.NONE
            await turns()
        assert (producer.producer_id, producer.producer_epoch) == (0, 3)
        assert dump(node) == [
            (0, 0, "one"),
            (0, 1, "COMMIT"),
            (0, 1, "two"),
            (0, 2, "ABORT"),
            (0, 2, "three"),
            (0, 3, "COMMIT"),
        ]

    on_a_node(scenario, tmp_path)


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        first = await init(node)
        assert await produce(node, first, PRODUCE_2, b"lost") == Error.NONE
        taking = await init(node)
        assert taking.error_code == Error.CONCURRENT_TRANSACTIONS
        await turns()
        second = await init(node)
        assert (second.error_code, second.producer_epoch) == (Error.NONE, 2)
        for version, error in ((1, Error.INVALID_PRODUCER_EPOCH), (2, Error.PRODUCER_FENCED)):
            assert (await end(node, first, version)).error_code == error
            assert await add(node, first, version, 0) == [error]
        late = await produce(node, first, PRODUCE_2, b"late", sequence=1)
        assert late == Error.INVALID_PRODUCER_EPOCH
        assert dump(node) == [(0, 0, "lost"), (0, 1, "ABORT")]

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", [3, ADD])
def test_unknown_partitions_keep_the_others_out_too(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await init(node)
        assert await add(node, producer, version, 0, 3) == [
            Error.OPERATION_NOT_ATTEMPTED,
            Error.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        refused = await end(node, producer, 4)
        assert refused.error_code == Error.INVALID_TXN_STATE

    on_a_node(scenario, tmp_path)


def test_brokers_can_ask_for_several_producers_whether_partitions_are_in(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await init(node)
        await add(node, producer, 3, 0)
        verified = await add(node, producer, ADD, 0, 1, verify_only=True)
        assert verified == [Error.NONE, Error.TRANSACTION_ABORTABLE]
        names = ["tid", "nobody", ""]
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    verify_only=True,
                    topics=[AddPartitionsToTxnTopic(name="topic", partitions=[0])],
                )
                for name in names
            ]
        )
        response = await node.call(request, ADD)
        errors = {
            row.transactional_id: row.topic_results[0].results_by_partition[0].partition_error_code
            for row in response.results_by_transaction
        }
        assert errors == {
            "tid": Error.NONE,
            "nobody": Error.INVALID_PRODUCER_ID_MAPPING,
            "": Error.INVALID_REQUEST,
        }

    on_a_node(scenario, tmp_path)


def offsets_request(producer: Any, offset: int) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return TxnOffsetCommitRequest(
        transactional_id="tid",
        group_id="group",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="topic", partitions=[row])],
    )


async def commit_offset(node: Node, producer: Any, version: int, offset: int) -> int:
    response = await node.call(offsets_request(producer, offset), version)
    error: int = response.topics[0].partitions[0].error_code
    return error


async def add_offsets(node: Node, producer: Any, version: int) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id="tid",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id="group",
    )
    error: int = (await node.call(request, version)).error_code
    return error


async def fetch_offset(node: Node) -> int:
    topic = OffsetFetchRequestTopics(name="topic", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="group", topics=[topic])
    response = await node.call(OffsetFetchRequest(groups=[group]), 8)
    offset: int = response.groups[0].topics[0].partitions[0].committed_offset
    return offset


@pytest.mark.parametrize("version", range(ADD_OFFSETS + 1))
def test_offsets_of_older_clients_count_when_the_transaction_commits(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        producer = await init(node)
        # The producer is the first to speak of the group: its topic comes to be.
        assert await add_offsets(node, producer, version) == Error.NONE
        assert await commit_offset(node, producer, min(version, 4), 10) == Error.NONE
        assert await fetch_offset(node) == -1
        assert (await end(node, producer, 4)).error_code == Error.NONE
        await turns()
        assert await fetch_offset(node) == 10
        assert await add_offsets(node, producer, version) == Error.NONE
        assert await commit_offset(node, producer, min(version, 4), 20) == Error.NONE
        await end(node, producer, 4, committed=False)
        await turns()
        assert await fetch_offset(node) == 10

    on_a_node(scenario, tmp_path)


def test_offsets_of_newer_clients_join_the_transaction_by_themselves(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.call(FindCoordinatorRequest(key="group", key_type=0), 1)
        producer = await init(node)
        assert await commit_offset(node, producer, COMMIT_OFFSETS, 10) == Error.NONE
        assert await commit_offset(node, producer, COMMIT_OFFSETS, 11) == Error.NONE
        producer = await end(node, producer, END)
        await turns()
        assert await fetch_offset(node) == 11
        old = producer
        producer = await init(node)
        refused = await commit_offset(node, old, COMMIT_OFFSETS, 12)
        assert refused == Error.INVALID_PRODUCER_EPOCH

    on_a_node(scenario, tmp_path)


def test_offsets_that_come_while_the_last_transaction_is_completed_wait_a_little(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.call(FindCoordinatorRequest(key="group", key_type=0), 1)
        producer = await init(node)
        # A marker that cannot be written: its partition is led by a broker that is not there.
        node.place("topic", PartitionImage(2, 0, (2,), (2,)))
        await add(node, producer, ADD, 0)
        producer = await end(node, producer, END)
        await turns()
        waiting = node.park(offsets_request(producer, 20), COMMIT_OFFSETS)
        await pass_time(node, 200)
        assert waiting.done(), "a client can come back by itself"
        assert waiting.result().topics[0].partitions[0].error_code == Error.CONCURRENT_TRANSACTIONS
        waiting = node.park(offsets_request(producer, 20), COMMIT_OFFSETS)
        await pass_time(node, 40)
        assert not waiting.done()
        node.place("topic", PartitionImage(NODE_ID, 1, (NODE_ID,), (NODE_ID,)))
        await pass_time(node, 200)
        assert waiting.result().topics[0].partitions[0].error_code == Error.NONE

    on_a_node(scenario, tmp_path)


async def pass_time(node: Node, delay_ms: int) -> None:
    for _ in range(delay_ms // 20):
        node.time.pass_ms(20)
        await turns()


@pytest.mark.parametrize(("version", "error"), [(3, Error.INVALID_TXN_STATE), (4, 120)])
def test_offsets_outside_a_transaction_are_refused(
    version: int, error: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.call(FindCoordinatorRequest(key="group", key_type=0), 1)
        producer = await init(node)
        assert await commit_offset(node, producer, version, 10) == error

    on_a_node(scenario, tmp_path)


def test_older_producers_must_have_added_the_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await init(node)
        await add(node, producer, 3, 1)
        assert await produce(node, producer, PRODUCE_1, b"v") == Error.TRANSACTION_ABORTABLE
        assert await produce(node, producer, 10, b"v") == Error.INVALID_TXN_STATE
        assert dump(node) == []

    on_a_node(scenario, tmp_path)


def test_a_commit_is_known_to_be_done_when_its_answer_was_lost(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await init(node)
        await produce(node, producer, PRODUCE_2, b"v")
        first = await end(node, producer, END)
        await turns()
        again = await end(node, producer, END)
        assert again.error_code == Error.NONE
        assert again.producer_epoch == first.producer_epoch == 1
        otherwise = await end(node, producer, END, committed=False)
        assert otherwise.error_code == Error.INVALID_TXN_STATE
        assert dump(node) == [(0, 0, "v"), (0, 1, "COMMIT")]

    on_a_node(scenario, tmp_path)


def test_without_a_coordinator_clients_look_for_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        response = await init(node)
        assert response.error_code == Error.NOT_COORDINATOR

    play(scenario, tmp_path)


def test_transactional_ids_take_no_more_memory_than_they_may_and_known_ones_go_on(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        names = [f"{number}-{'x' * 30_000}" for number in range(50)]
        told = [(await init(node, transactional_id=name)).error_code for name in names]
        taken = told.index(Error.COORDINATOR_NOT_AVAILABLE)
        assert 30 < taken < 40
        assert set(told[:taken]) == {Error.NONE}
        assert set(told[taken:]) == {Error.COORDINATOR_NOT_AVAILABLE}
        again = await init(node, transactional_id=names[0])
        assert (again.error_code, again.producer_epoch) == (Error.NONE, 1)

    on_a_node(scenario, tmp_path, transaction_state_max_bytes=str(1024 * 1024))
