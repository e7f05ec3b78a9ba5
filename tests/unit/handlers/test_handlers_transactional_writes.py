"""Transactional batches are written only where the coordinator knows of the transaction."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from moldau.coordinators.local_markers import TransactionEnd
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.transactions.partition_verification import OFFSETS_REGISTER_SINCE
from moldau.transactions.transaction_commands import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ProducerGranted,
)
from moldau.transactions.transaction_facts import VERSION_2, Transaction
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from moldau.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.services import NODE_ID, Node, batch, play, turns

TX = "tx"
OLD, KNOWS_ABORTABLE, REGISTERS = 10, 11, 12
PLACE = TopicPartition("t", 0)
PRODUCER_ID = 1000


class Writer:
    """A transactional producer without its client."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.producer = ProducerGranted()
        self.sequence = 0

    async def begin(self) -> Writer:
        node = self.node
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[TX])
        assert (await node.call(request, 4)).coordinators[0].error_code == 0
        await self.init()
        return self

    async def init(self) -> None:
        command = InitProducer(TX, 60_000, new_producer_id=PRODUCER_ID)
        granted = await self.node.on.transactions.submit(TX, command)
        self.producer = cast("ProducerGranted", granted)
        self.sequence = 0

    async def add(self, *places: TopicPartition) -> None:
        command = AddPartitions(TX, *self.producer, frozenset(places))
        await self.node.on.transactions.submit(TX, command)

    async def end(self, *, committed: bool = True, version: int = VERSION_2) -> None:
        command = EndTransaction(TX, *self.producer, committed, version)
        granted = await self.node.on.transactions.submit(TX, command)
        if version >= VERSION_2:
            self.producer, self.sequence = cast("ProducerGranted", granted), 0

    def request(self, topic: str = "t", transactional_id: str | None = TX) -> ProduceRequest:
        records = batch(
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        self.sequence += 1
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=0, records=records)]
                )
            ],
        )

    def offsets(self) -> TxnOffsetCommitRequest:
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        return TxnOffsetCommitRequest(
            transactional_id=TX,
            group_id="g",
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[offset])],
        )

    async def write(self, version: int = REGISTERS, topic: str = "t") -> PartitionProduceResponse:
        return row(await self.node.call(self.request(topic), version))

    async def transaction(self) -> Transaction:
        found = await self.node.on.transactions.submit(TX, DescribeTransaction(TX))
        return cast("Transaction", found)


def row(response: object) -> PartitionProduceResponse:
    return response.responses[0].partition_responses[0]  # type: ignore[attr-defined, no-any-return]


async def writer(node: Node) -> Writer:
    await node.create_topic("t")
    return await Writer(node).begin()


def test_newer_clients_leave_it_to_the_broker_to_add_the_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        assert (await producer.write()).error_code == 0
        assert (await producer.transaction()).partitions == {PLACE}
        await producer.end()
        await turns()
        assert (await producer.transaction()).partitions == frozenset()
        assert (await producer.write()).error_code == 0, "and again for the next transaction"
        assert (await producer.transaction()).partitions == {PLACE}

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("version", "error"),
    [(OLD, Error.INVALID_TXN_STATE), (KNOWS_ABORTABLE, Error.TRANSACTION_ABORTABLE)],
)
def test_older_clients_must_have_added_it_themselves(
    version: int, error: Error, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        await producer.add(TopicPartition("t", 1))
        refused = await producer.write(version)
        assert (refused.error_code, refused.base_offset) == (error, -1)
        assert refused.error_message
        assert node.replicas.find("t", 0).log.offset_end == 0
        await producer.add(PLACE)
        producer.sequence = 0
        assert (await producer.write(version)).error_code == 0

    play(scenario, tmp_path)


def test_without_verification_older_clients_are_believed(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        assert (await producer.write(OLD)).error_code == 0

    play(scenario, tmp_path, transaction_partition_verification_enable="false")


def test_the_coordinator_is_asked_for_the_first_batch_only(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        await producer.write()
        node.on.transactions.stop()
        assert (await producer.write()).error_code == 0, "the log knows of the transaction"

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", [OLD, REGISTERS])
def test_an_unreachable_coordinator_makes_clients_send_again(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        node.on.transactions.stop()
        assert (await producer.write(version)).error_code == Error.NOT_ENOUGH_REPLICAS

    play(scenario, tmp_path)


def test_a_producer_that_was_replaced_is_fenced(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        old = await writer(node)
        new = await Writer(node).begin()
        assert new.producer.producer_epoch == old.producer.producer_epoch + 1
        assert (await old.write()).error_code == Error.INVALID_PRODUCER_EPOCH
        assert (await new.write()).error_code == 0

    play(scenario, tmp_path)


def test_a_transactional_id_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        response = await node.call(producer.request(transactional_id="other"), REGISTERS)
        assert row(response).error_code == Error.INVALID_PRODUCER_ID_MAPPING

    play(scenario, tmp_path)


def test_two_producers_in_one_request_are_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        await node.create_topic("u")
        request = producer.request()
        producer.producer = ProducerGranted(77, 0)
        request.topic_data += producer.request("u").topic_data
        response = await node.call(request, REGISTERS)
        errors = [topic.partition_responses[0].error_code for topic in response.responses]
        assert errors == [Error.INVALID_PRODUCER_ID_MAPPING] * 2

    play(scenario, tmp_path)


def test_what_is_led_elsewhere_is_not_added(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        node.place("away", PartitionImage(2, 0, (2,), (2,)))
        assert (await producer.write(topic="away")).error_code == Error.NOT_LEADER_OR_FOLLOWER
        assert (await producer.transaction()).partitions == frozenset()

    play(scenario, tmp_path)


async def begin_slow_commit(node: Node, producer: Writer) -> None:
    """End a transaction whose marker waits for a follower."""
    node.place("slow", PartitionImage(NODE_ID, 0, (NODE_ID, 2), (NODE_ID, 2)))
    await producer.add(TopicPartition("slow", 0))
    await producer.end()
    await turns()


def finish_slow_commit(node: Node) -> None:
    node.replicas.find("slow", 0).follower_fetched(2, 1, node.clock.monotonic_ms())


def test_a_write_waits_for_the_last_transaction_to_be_completed(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        await begin_slow_commit(node, producer)
        first = node.park(producer.request(), REGISTERS)
        second = node.park(producer.request(), REGISTERS)
        await turns()
        assert not first.done()
        finish_slow_commit(node)
        await turns()
        third = node.park(producer.request(), REGISTERS)
        await turns()
        assert not third.done(), "what comes later does not overtake"
        node.time.pass_ms(20)
        await turns()
        rows = [row(response) for response in await asyncio.gather(first, second, third)]
        assert [(each.error_code, each.base_offset) for each in rows] == [(0, 0), (0, 1), (0, 2)]

    play(scenario, tmp_path)


def test_a_write_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        await begin_slow_commit(node, producer)
        newer = node.park(producer.request(), REGISTERS)
        await turns()
        for _ in range(5):
            assert not newer.done()
            node.time.pass_ms(20)
            await turns()
        assert row(newer.result()).error_code == Error.CONCURRENT_TRANSACTIONS
        older = await producer.write(OLD)
        assert older.error_code == Error.NOT_ENOUGH_REPLICAS

    play(scenario, tmp_path)


def test_a_client_that_goes_away_while_it_waits_does_not_hold_up_others(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        await begin_slow_commit(node, producer)
        first = node.park(producer.request(), REGISTERS)
        await turns()
        first.cancel()
        finish_slow_commit(node)
        await turns()
        producer.sequence = 0
        assert (await producer.write()).error_code == 0

    play(scenario, tmp_path)


def test_a_transaction_that_ends_while_the_coordinator_is_asked_takes_no_more_batches(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        producer = await writer(node)
        await producer.add(PLACE)
        waiting: asyncio.Future[object] = node.loop.create_future()
        asked = node.on.transactions.submit
        node.on.transactions.submit = lambda key, command: waiting  # type: ignore[method-assign]
        write = node.park(producer.request(), KNOWS_ABORTABLE)
        await turns()
        node.on.transactions.submit = asked  # type: ignore[method-assign]
        end = TransactionEnd(*producer.producer, False, 0, 0, (PLACE,))
        await node.on.markers.write([end], 1000)
        waiting.set_result({PLACE: Error.NONE})
        await turns()
        assert row(write.result()).error_code == Error.TRANSACTION_ABORTABLE

    play(scenario, tmp_path)


@pytest.mark.parametrize("kind", ["records", "offsets"])
def test_the_marker_of_the_transaction_before_does_not_end_the_one_that_begins(
    kind: str, tmp_path: Path
) -> None:
    """In version 2 an end is answered before its markers are written, and they carry the epoch of
    the next transaction: one that comes while the coordinator is asked is no end of that."""

    async def scenario(node: Node) -> None:
        producer = await writer(node)
        await node.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        place = PLACE if kind == "records" else TopicPartition("__consumer_offsets", 0)
        asked: list[asyncio.Future[object]] = []

        def submit(key: str, command: object) -> asyncio.Future[object]:
            asked.append(node.loop.create_future())
            return asked[-1]

        node.on.transactions.submit = submit  # type: ignore[method-assign]
        if kind == "records":
            write = node.park(producer.request(), REGISTERS)
        else:
            write = node.park(producer.offsets(), OFFSETS_REGISTER_SINCE)
        await turns()
        end = TransactionEnd(*producer.producer, True, 0, 2, (place,))
        assert await node.on.markers.write([end], 1000) == [{place: Error.NONE}]
        asked[0].set_result({place: Error.NONE})
        await turns()
        assert len(asked) == 2, "it is asked again, whether the transaction is still open"
        asked[1].set_result({place: Error.NONE})
        await turns()
        answer = write.result()
        told = row(answer) if kind == "records" else answer.topics[0].partitions[0]
        assert told.error_code == Error.NONE

    play(scenario, tmp_path, offsets_topic_num_partitions="1")


def test_a_coordinator_that_takes_its_time_is_asked_once(tmp_path: Path) -> None:
    """Nobody would look at the refusal of a question that was asked a second time."""

    async def scenario(node: Node) -> None:
        producer = await writer(node)
        asked: list[asyncio.Future[object]] = []

        def submit(key: str, command: object) -> asyncio.Future[object]:
            asked.append(node.loop.create_future())
            return asked[-1]

        node.on.transactions.submit = submit  # type: ignore[method-assign]
        write = node.park(producer.request(), REGISTERS)
        await turns()
        assert len(asked) == 1
        asked[0].set_exception(ApiError(Error.NOT_COORDINATOR, "another broker leads now"))
        await turns()
        assert row(write.result()).error_code == Error.NOT_ENOUGH_REPLICAS
        assert len(asked) == 1

    play(scenario, tmp_path)
