"""Consumer groups on a real broker: members come and go under load, the broker dies and returns.

Whatever happens, a group reads every record, commits survive kill -9, and a group that has
committed goes on where it was.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually

TOPIC, GROUP = "load", "workers"
PARTITIONS = 6
RECORDS = 3_000
SECONDS_MAX = 60
SETTINGS = {
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, overrides=SETTINGS) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(SECONDS_MAX)
        yield process


def produce(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(SECONDS_MAX) == 0


def consumer(bootstrap: str, **settings: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **settings,
        }
    )


class Member(threading.Thread):
    """Reads and commits until it is told to leave; counts what it has read."""

    def __init__(self, bootstrap: str, seen: Counter[int], **settings: str) -> None:
        super().__init__()
        self._seen = seen
        self._leaves = threading.Event()
        self._consumer = consumer(bootstrap, **settings)

    def run(self) -> None:
        self._consumer.subscribe([TOPIC])
        while not self._leaves.is_set():
            messages = [m for m in self._consumer.consume(50, timeout=0.1) if m.error() is None]
            for message in messages:
                self._seen[int(message.value() or b"")] += 1
            # A commit may come too late for its generation; whoever reads next reads again.
            with suppress(KafkaException):
                self._consumer.commit(asynchronous=False)
        self._consumer.close()

    def leave(self) -> None:
        self._leaves.set()
        self.join(SECONDS_MAX)
        assert not self.is_alive()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_come_and_go_under_load_and_every_record_is_read(
    strategy: str, broker: BrokerProcess
) -> None:
    seen: Counter[int] = Counter()
    settings = {"partition.assignment.strategy": strategy}
    members = [Member(broker.bootstrap, seen, **settings) for _ in range(3)]
    step = RECORDS // 5
    for number, change in enumerate(
        [members[0].start, members[1].start, members[2].start, members[0].leave, members[1].leave]
    ):
        generations = broker.log_text.count(f"Stabilized group {GROUP}")
        produce(broker.bootstrap, number * step, step // 2)
        change()
        produce(broker.bootstrap, number * step + step // 2, step // 2)
        eventually(
            lambda before=generations: broker.log_text.count(f"Stabilized group {GROUP}") > before
        )
        eventually(lambda read=(number + 1) * step: len(seen) == read, SECONDS_MAX)
    members[2].leave()
    assert set(seen) == set(range(RECORDS))


def test_a_group_goes_on_where_it_was_after_kill_nine(broker: BrokerProcess) -> None:
    produce(broker.bootstrap, 0, RECORDS)
    seen: Counter[int] = Counter()
    member = consumer(broker.bootstrap)
    member.subscribe([TOPIC])
    while len(seen) < RECORDS // 2:
        seen.update(int(message.value() or b"") for message in member.consume(100, timeout=0.5))
    member.commit(asynchronous=False)
    broker.kill()
    broker.start()

    member.close()
    successor = consumer(broker.bootstrap)
    successor.subscribe([TOPIC])
    while len(seen) < RECORDS:
        seen.update(int(message.value() or b"") for message in successor.consume(100, timeout=0.5))
    successor.close()
    assert set(seen.values()) == {1}, "nothing that was committed is read again"


def test_members_stay_members_when_the_broker_dies_and_returns(broker: BrokerProcess) -> None:
    seen: Counter[int] = Counter()
    members = [Member(broker.bootstrap, seen) for _ in range(3)]
    for member in members:
        member.start()
    produce(broker.bootstrap, 0, RECORDS // 3)
    eventually(lambda: len(seen) == RECORDS // 3, SECONDS_MAX)
    for kill in (1, 2):
        broker.kill()
        broker.start()
        produce(broker.bootstrap, kill * RECORDS // 3, RECORDS // 3)
        eventually(lambda kill=kill: len(seen) == (kill + 1) * RECORDS // 3, SECONDS_MAX)
    for member in members:
        member.leave()
    assert set(seen) == set(range(RECORDS))


def test_three_asyncio_consumers_share_the_partitions(broker: BrokerProcess) -> None:
    async def whole() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        members = [
            AIOKafkaConsumer(
                TOPIC,
                bootstrap_servers=broker.bootstrap,
                group_id="asyncio",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6000,
                heartbeat_interval_ms=100,
            )
            for _ in range(3)
        ]
        for member in members:
            await member.start()
        async with asyncio.timeout(SECONDS_MAX):
            while sorted(len(member.assignment()) for member in members) != [2, 2, 2]:
                await asyncio.gather(*(member.getmany(timeout_ms=50) for member in members))
        for number in range(60):
            await producer.send_and_wait(TOPIC, str(number).encode(), partition=number % PARTITIONS)
        read: Counter[int] = Counter()
        async with asyncio.timeout(SECONDS_MAX):
            while len(read) < 60:
                for member in members:
                    for messages in (await member.getmany(timeout_ms=50)).values():
                        read.update(int(message.value or b"") for message in messages)
        assert set(read.values()) == {1}
        owned = [set(member.assignment()) for member in members]
        assert len(set.union(*owned)) == PARTITIONS
        for member in members:
            await member.commit()
            await member.stop()
        await producer.stop()

    asyncio.run(whole())


def test_committed_offsets_are_told_to_whoever_asks(broker: BrokerProcess) -> None:
    place = TopicPartition(TOPIC, 0, 42)
    writer = consumer(broker.bootstrap)
    writer.commit(offsets=[place], asynchronous=False)
    writer.close()
    broker.kill()
    broker.start()
    reader = consumer(broker.bootstrap)
    (found,) = reader.committed([TopicPartition(TOPIC, 0)], timeout=SECONDS_MAX)
    assert found.offset == 42
    reader.close()
