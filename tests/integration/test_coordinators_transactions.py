"""Transactions on a real broker: seen whole or never, however often the broker is killed.

One transactional producer lives through all the crashes, as an application would: when a
transaction fails it is aborted and the next one begins; when the producer itself is done for, a
new one with the same id takes over.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from tests.support import seeds
from tests.support.eventually import eventually

TOPIC = "accounts"
PARTITIONS = 3
RECORDS_PER_TRANSACTION = 12
KILLS = 12
SECONDS_MAX = 30.0
SETTINGS = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "3"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, overrides=SETTINGS) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(SECONDS_MAX)
        yield process


def producer(bootstrap: str, transactional_id: str) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 20_000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "linger.ms": 1,
            "log_level": 0,
        }
    )
    made.init_transactions(SECONDS_MAX)
    return made


def read_committed(bootstrap: str) -> Counter[bytes]:
    """How often each value is found by a reader of committed records."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    found: Counter[bytes] = Counter()
    for partition in range(PARTITIONS):
        reader.assign([TopicPartition(TOPIC, partition, 0)])
        while (message := reader.poll(SECONDS_MAX)) is not None and message.error() is None:
            found[message.value() or b""] += 1
        assert message is not None, "the end was not reached in time"
        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
    reader.close()
    return found


class Writer(threading.Thread):
    """Commits two of three transactions and aborts the third; remembers what it was told."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._address = bootstrap
        self._stops = threading.Event()
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.unknown: set[int] = set()
        self.producers = 1

    def run(self) -> None:
        writer = producer(self._address, "bank")
        number = 0
        while not self._stops.is_set():
            try:
                self._transact(writer, number)
            except KafkaException as fault:
                self.unknown.add(number)
                error = fault.args[0]
                if error.txn_requires_abort():
                    writer.abort_transaction(SECONDS_MAX)
                else:
                    self.producers += 1
                    writer = producer(self._address, "bank")
            number += 1

    def _transact(self, writer: Producer, number: int) -> None:
        writer.begin_transaction()
        for index in range(RECORDS_PER_TRANSACTION):
            writer.produce(TOPIC, str(number).encode(), partition=index % PARTITIONS)
        if number % 3 == 2:
            writer.flush(SECONDS_MAX)
            writer.abort_transaction(SECONDS_MAX)
            self.aborted.add(number)
        else:
            writer.commit_transaction(SECONDS_MAX)
            self.committed.add(number)

    def stop(self) -> None:
        self._stops.set()
        self.join(4 * SECONDS_MAX)
        assert not self.is_alive()


def test_transactions_stay_whole_while_the_broker_is_killed_again_and_again(
    broker: BrokerProcess,
) -> None:
    moments = seeds.chance()
    writer = Writer(broker.bootstrap)
    writer.start()
    for _ in range(KILLS):
        goal = len(writer.committed) + moments.randint(1, 20)
        eventually(lambda goal=goal: len(writer.committed) >= goal, SECONDS_MAX)
        broker.kill()
        broker.start()
    goal = len(writer.committed) + 3
    eventually(lambda: len(writer.committed) >= goal, SECONDS_MAX)
    writer.stop()
    # Ends whatever a producer has left open.
    producer(broker.bootstrap, "bank")
    found = read_committed(broker.bootstrap)
    for number in writer.committed:
        assert found[str(number).encode()] == RECORDS_PER_TRANSACTION
    for number in writer.aborted:
        assert found[str(number).encode()] == 0
    for number in writer.unknown - writer.committed - writer.aborted:
        assert found[str(number).encode()] in (0, RECORDS_PER_TRANSACTION)
    assert len(writer.committed) > KILLS


def test_an_open_transaction_holds_readers_of_committed_records_back(broker: BrokerProcess) -> None:
    open_one, done = producer(broker.bootstrap, "open"), producer(broker.bootstrap, "done")
    open_one.begin_transaction()
    open_one.produce(TOPIC, b"open", partition=0)
    open_one.flush(SECONDS_MAX)
    done.begin_transaction()
    done.produce(TOPIC, b"done", partition=0)
    done.commit_transaction(SECONDS_MAX)
    assert read_committed(broker.bootstrap) == {}, "it may still be aborted"
    open_one.abort_transaction(SECONDS_MAX)
    eventually(lambda: read_committed(broker.bootstrap) == {b"done": 1})


def test_a_transaction_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    with BrokerProcess(tmp_path, overrides={**SETTINGS, **often}) as broker:
        writer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": "slow",
                "transaction.timeout.ms": 1000,
                "log_level": 0,
            }
        )
        writer.init_transactions(SECONDS_MAX)
        writer.begin_transaction()
        writer.produce(TOPIC, b"slow", partition=0)
        writer.flush(SECONDS_MAX)
        eventually(lambda: "due to timeout" in broker.log_text)
        with pytest.raises(KafkaException) as refused:
            writer.commit_transaction(SECONDS_MAX)
        error = refused.value.args[0]
        assert error.fatal() or error.txn_requires_abort()


def test_a_new_producer_with_the_same_id_fences_the_old_one(broker: BrokerProcess) -> None:
    old = producer(broker.bootstrap, "twin")
    old.begin_transaction()
    old.produce(TOPIC, b"old", partition=0)
    old.flush(SECONDS_MAX)
    new = producer(broker.bootstrap, "twin")
    new.begin_transaction()
    new.produce(TOPIC, b"new", partition=0)
    new.commit_transaction(SECONDS_MAX)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(SECONDS_MAX)
    assert refused.value.args[0].fatal()
    eventually(lambda: read_committed(broker.bootstrap) == {b"new": 1})
