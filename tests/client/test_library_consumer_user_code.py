"""Deserializers, interceptors and listeners that raise cost no record and no assignment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from moldau import Consumer, TopicPartition, aio, errors
from moldau.client.consumer.assignment.partition_assignors import (
    Assignment,
    RangeAssignor,
    RebalanceProtocol,
)
from moldau.client.consumer.consumer_records import ConsumerRecords
from tests.support.eventually import eventually
from tests.support.reading import COUNT, offsets, some

Names = Callable[[str], str]
Make = Callable[..., Consumer]


@pytest.mark.parametrize("fault", [AttributeError, RuntimeError, OSError, AssertionError])
def test_a_deserializer_that_raises_anything_loses_no_record(
    make: Make, two: list[TopicPartition], fault: type[Exception]
) -> None:
    def number(data: bytes) -> int:
        if data in (b"7", b"250"):
            raise fault("no")
        return int(data)

    consumer = make(value_deserializer=number, max_poll_records=1000)
    consumer.assign(two)
    read: dict[TopicPartition, list[int]] = {tp: [] for tp in two}
    told: list[tuple[TopicPartition, int]] = []

    def poll() -> bool:
        try:
            for record in consumer.poll(1.0):
                read[record.topic_partition].append(record.offset)
        except errors.RecordDeserializationError as error:
            assert isinstance(error.__cause__, fault)
            assert str(error.topic_partition) in str(error)
            assert consumer.position(error.topic_partition) == error.offset
            assert (error.key, error.value) == (None, b"%d" % error.offset)
            told.append((error.topic_partition, error.offset))
            consumer.seek(error.topic_partition, error.offset + 1)
        return sum(map(len, read.values())) >= 2 * COUNT - 4

    eventually(poll)
    assert sorted(told) == sorted((tp, n) for tp in two for n in (7, 250))
    wanted = [n for n in range(COUNT) if n not in (7, 250)]
    assert read == dict.fromkeys(two, wanted)


def test_what_ends_a_poll_from_inside_a_deserializer_loses_no_record(
    make: Make, two: list[TopicPartition]
) -> None:
    seen: list[bytes] = []

    def interrupted(data: bytes) -> bytes:
        seen.append(data)
        if len(seen) in (40, 400):
            raise KeyboardInterrupt
        return data

    consumer = make(value_deserializer=interrupted, max_poll_records=1000)
    consumer.assign(two)
    read: dict[TopicPartition, list[int]] = {tp: [] for tp in two}
    broken_off = 0
    while sum(map(len, read.values())) < 2 * COUNT:
        try:
            for record in some(consumer, 1000):
                read[record.topic_partition].append(record.offset)
        except KeyboardInterrupt:
            broken_off += 1
    assert broken_off == 2
    assert read == {tp: list(range(COUNT)) for tp in two}


class Angry:
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        raise RuntimeError("angry")

    def on_commit(self, offsets: Any) -> None:
        raise RuntimeError("angry")

    def close(self) -> None:
        raise RuntimeError("angry")


class Counting:
    def __init__(self) -> None:
        self.told: list[str] = []

    def on_consume(self, records: ConsumerRecords) -> None:
        self.told.append("consumed")

    def on_commit(self, offsets: Any) -> None:
        self.told.append("committed")

    def close(self) -> None:
        self.told.append("closed")


def test_an_interceptor_that_raises_is_logged_and_costs_no_record(
    make: Make, two: list[TopicPartition], fresh_name: Names, caplog: pytest.LogCaptureFixture
) -> None:
    other = Counting()
    consumer = make(interceptor_classes=[Angry(), other], group_id=fresh_name("g"))
    consumer.assign(two[:1])
    with caplog.at_level(logging.WARNING, "moldau.consumer"):
        assert offsets(consumer, COUNT) == list(range(COUNT))
        consumer.commit()
        consumer.close()
    assert {"consumed", "committed"} <= set(other.told)
    assert other.told[-1] == "closed"
    assert "angry" in caplog.text


def test_an_interceptor_may_take_all_records_away(make: Make, two: list[TopicPartition]) -> None:
    class Hiding:
        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            return ConsumerRecords()

    consumer = make(interceptor_classes=[Hiding()])
    consumer.assign(two[:1])
    while consumer.position(two[0]) < COUNT:
        assert consumer.poll(0.2).is_empty()


def test_a_listener_may_commit_while_the_consumer_closes(
    make: Make, two: list[TopicPartition], fresh_name: Names
) -> None:
    group = fresh_name("g")
    consumer = make(group_id=group, enable_auto_commit=False)
    told: list[list[TopicPartition]] = []

    class Saver:
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            told.append(partitions)
            consumer.commit()

    consumer.subscribe([two[0].topic], Saver())
    record = some(consumer)[0]
    consumer.close()
    assert told == [two]
    later = make(group_id=group)
    committed = later.committed(two)[record.topic_partition]
    assert committed is not None
    assert committed.offset == 1


class Swapping:
    """Everything to the one member, a different half of it each time."""

    name = "swapping"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def __init__(self) -> None:
        self.turns = 0

    def user_data(self, topics: Any) -> bytes:
        return b""

    def assign(self, counts: Any, subscriptions: Any) -> dict[str, Assignment]:
        self.turns += 1
        rows = [TopicPartition(topic, self.turns // 2 % 2) for topic in counts]
        return {member: Assignment(tuple(rows)) for member in subscriptions}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        pass


def test_a_listener_that_raises_while_partitions_are_taken_away_costs_no_assignment(
    make: Make, two: list[TopicPartition], fresh_name: Names
) -> None:
    consumer = make(group_id=fresh_name("g"), partition_assignment_strategy=[Swapping()])
    told: list[str] = []

    class Listener:
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            told.append("revoked")
            raise LookupError("angry")

        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            told.append("assigned")

    consumer.subscribe([two[0].topic], Listener())
    eventually(lambda: consumer.poll(0.1) is not None and consumer.assignment() == {two[0]})
    consumer.enforce_rebalance()
    with pytest.raises(LookupError, match="angry"):
        eventually(lambda: consumer.poll(1) is None)
    assert told[:3] == ["assigned", "revoked", "assigned"]
    assert consumer.assignment() == {two[1]}
    assert some(consumer)[0].topic_partition == two[1]
    with pytest.raises(LookupError, match="angry"):
        consumer.close()


@pytest.mark.parametrize("strategy", [Swapping, RangeAssignor])
def test_a_poll_that_is_cancelled_inside_a_listener_costs_no_assignment(
    bootstrap: str, two: list[TopicPartition], fresh_name: Names, strategy: type
) -> None:
    async def story() -> tuple[list[str], set[TopicPartition]]:
        told: list[str] = []
        is_inside = asyncio.Event()

        class Listener:
            async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                told.append("revoked")
                if not is_inside.is_set():
                    is_inside.set()
                    await asyncio.sleep(3600)

            def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                told.append("assigned")

        async with aio.Consumer(
            bootstrap_servers=bootstrap,
            group_id=fresh_name("g"),
            partition_assignment_strategy=[strategy()],
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe([two[0].topic], Listener())  # type: ignore[arg-type]
            while not told:
                await consumer.poll(0.1)
            consumer.enforce_rebalance()
            poll = asyncio.create_task(_poll_on(consumer))
            await is_inside.wait()
            poll.cancel()
            await asyncio.wait([poll])
            while told.count("assigned") < 2:
                await consumer.poll(0.1)
            assert told[:3] == ["assigned", "revoked", "assigned"]
            return told, consumer.assignment()

    _, assignment = asyncio.run(asyncio.wait_for(story(), 60))
    assert assignment == ({two[1]} if strategy is Swapping else set(two))


async def _poll_on(consumer: aio.Consumer) -> None:
    while True:
        await consumer.poll(1)
