"""A topic whose every write is forced to a slow disk: its own clients wait, and nobody else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from tests.support.eventually import eventually
from tests.support.held_flushes import HELD, HELD_LOG

ROOT = str(Path(__file__).parents[2])
FLUSHED = {"flush.messages": "1"}


class Gate:
    """Of the flushes of one partition of one broker; open at first."""

    def __init__(self, directory: Path, partition: str = "slow-0") -> None:
        directory.mkdir()
        self._begun, self._go = directory / "begun", directory / "go"
        self._go.touch()
        self.environment = {HELD: str(directory), HELD_LOG: partition, "PYTHONPATH": ROOT}

    def close(self) -> None:
        self._go.unlink()
        self._begun.unlink(missing_ok=True)

    def is_somebody_held(self) -> bool:
        return self._begun.exists()

    def open(self) -> None:
        self._go.touch()


class Answers(list[KafkaError | None]):
    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.append(error)


def is_served(bootstrap: str, topic: str, acks: str = "1") -> bool:
    """Whether a client that has nothing to do with the slow partition can write."""
    settings = {"bootstrap.servers": bootstrap, "acks": acks, "message.timeout.ms": 30_000}
    producer, answers = Producer(settings), Answers()
    producer.produce(topic, b"x", on_delivery=answers)
    producer.flush(30)
    return answers == [None]


@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_slow_flush_holds_up_its_own_writes_alone(tmp_path: Path, acks: str) -> None:
    environment = {HELD: str(tmp_path), "PYTHONPATH": ROOT}
    broker = BrokerProcess(
        tmp_path / "broker", main="tests.support.held_flushes", environment=environment
    )
    broker.start()
    try:
        settings = {"bootstrap.servers": broker.bootstrap}
        admin = AdminClient(settings)
        slow = NewTopic("slow", 1, 1, config={"flush.messages": "1"})
        for future in admin.create_topics([slow, NewTopic("fast", 1, 1)]).values():
            future.result(30)
        answers: list[KafkaError | None] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            answers.append(error)

        waiting = Producer({**settings, "acks": acks})
        waiting.produce("slow", b"x", on_delivery=answered)

        def has_begun() -> bool:
            waiting.poll(0)
            return (tmp_path / "begun").exists()

        eventually(has_begun, seconds_max=30)
        other = Producer({**settings, "message.timeout.ms": 30_000})
        delivered: list[KafkaError | None] = []
        other.produce("fast", b"x", on_delivery=lambda error, _: delivered.append(error))
        other.flush(30)
        assert delivered == [None]
        waiting.poll(0)
        assert answers == [], "the answer comes after the flush"
        (tmp_path / "go").touch()
        assert waiting.flush(30) == 0
        assert answers == [None]
    finally:
        (tmp_path / "go").touch()
        broker.kill()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


def test_a_slow_flush_of_committed_offsets_holds_up_nobody_else(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", "__consumer_offsets-0")
    broker = BrokerProcess(
        tmp_path / "broker",
        overrides={"offsets.topic.num.partitions": "1"},
        main="tests.support.held_flushes",
        environment=gate.environment,
    )
    broker.start()
    try:
        settings = {"bootstrap.servers": broker.bootstrap}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("fast", 1, 1)])["fast"].result(30)
        consumer = Consumer({**settings, "group.id": "g", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("fast", 0, 1)], asynchronous=False)
        entry = ConfigEntry("flush.messages", "1", incremental_operation=AlterConfigOpType.SET)
        offsets = ConfigResource(
            ResourceType.TOPIC, "__consumer_offsets", incremental_configs=[entry]
        )
        admin.incremental_alter_configs([offsets])[offsets].result(30)
        gate.close()
        answers: list[KafkaError | None] = []
        waiting = Consumer(
            {**settings, "group.id": "g", "on_commit": lambda error, _: answers.append(error)}
        )
        waiting.commit(offsets=[TopicPartition("fast", 0, 2)], asynchronous=True)

        def is_held() -> bool:
            waiting.poll(0)
            return gate.is_somebody_held()

        eventually(is_held, seconds_max=30)
        assert is_served(broker.bootstrap, "fast")
        waiting.poll(0)
        assert answers == [], "it is committed once it is on disk"
        gate.open()

        def is_answered() -> bool:
            waiting.poll(0)
            return bool(answers)

        eventually(is_answered, seconds_max=30)
        assert answers == [None]
        (committed,) = consumer.committed([TopicPartition("fast", 0)], timeout=30)
        assert committed.offset == 2
    finally:
        gate.open()
        broker.kill()


def test_a_slow_flush_of_a_marker_holds_up_nobody_else(tmp_path: Path, gate: Gate) -> None:
    broker = BrokerProcess(
        tmp_path / "broker", main="tests.support.held_flushes", environment=gate.environment
    )
    broker.start()
    try:
        settings = {"bootstrap.servers": broker.bootstrap}
        topics = [NewTopic("slow", 1, 1, config=FLUSHED), NewTopic("fast", 1, 1)]
        admin = AdminClient(settings)
        for future in admin.create_topics(topics).values():
            future.result(30)
        producer = Producer({**settings, "transactional.id": "t"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("slow", b"x")
        assert producer.flush(30) == 0
        gate.close()
        with ThreadPoolExecutor(1) as pool:
            # The answer comes when the end is decided; the marker is written after it.
            producer.commit_transaction(30)
            producer.begin_transaction()
            producer.produce("slow", b"y")
            flushed = pool.submit(producer.flush, 60)
            eventually(gate.is_somebody_held, seconds_max=30)
            assert is_served(broker.bootstrap, "fast")
            assert not flushed.done(), "the next transaction waits for the end of this one"
            gate.open()
            assert flushed.result(60) == 0
        producer.commit_transaction(30)
    finally:
        gate.open()
        broker.kill()


def test_a_slow_flush_of_a_follower_holds_up_nobody_else(tmp_path: Path, gate: Gate) -> None:
    """It is not in sync beyond what its disk has; what else it follows and leads goes on."""
    with zookeeper(tmp_path / "zk") as ensemble:
        shared = {"zookeeper.connect": ensemble.connect, "offsets.topic.replication.factor": "1"}
        shared["replica.lag.time.max.ms"] = "120000"
        leader = BrokerProcess(tmp_path / "leader", overrides={**shared, "broker.id": "1"})
        follower = BrokerProcess(
            tmp_path / "follower",
            overrides={**shared, "broker.id": "2"},
            main="tests.support.held_flushes",
            environment=gate.environment,
        )
        try:
            leader.start()
            follower.start()
            settings = {"bootstrap.servers": leader.bootstrap}
            admin = AdminClient(settings)
            eventually(lambda: len(admin.list_topics(timeout=30).brokers) == 2, seconds_max=30)
            topics = [
                NewTopic("slow", 1, replica_assignment=[[1, 2]], config=FLUSHED),
                NewTopic("followed", 1, replica_assignment=[[1, 2]]),
                NewTopic("led", 1, replica_assignment=[[2]]),
            ]
            for future in admin.create_topics(topics).values():
                future.result(30)
            for topic in ("slow", "followed", "led"):
                assert is_served(leader.bootstrap, topic, acks="all")
            gate.close()
            answers, waiting = Answers(), Producer({**settings, "acks": "all"})
            waiting.produce("slow", b"x", on_delivery=answers)

            def is_held() -> bool:
                waiting.poll(0)
                return gate.is_somebody_held()

            eventually(is_held, seconds_max=30)
            for topic in ("led", "followed"):
                assert is_served(leader.bootstrap, topic, acks="all")
            waiting.poll(0)
            assert answers == [], "a follower has what is on its disk"
            gate.open()
            assert waiting.flush(60) == 0
            assert answers == [None]
            for broker in (leader, follower):
                assert "Traceback" not in broker.log_text
        finally:
            gate.open()
            follower.kill()
            leader.kill()
