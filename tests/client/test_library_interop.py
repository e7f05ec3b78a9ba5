"""A group of Moldau and confluent-kafka consumers shares a topic: nothing lost, nothing doubled."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from moldau import Producer
from tests.support.eventually import eventually
from tests.support.group_members import Member
from tests.support.topics import create_topic

Names = Callable[[str], str]
PARTITIONS = 6


class ConfluentMember:
    """Commits what it has read before it gives partitions up, so that nobody reads it again."""

    def __init__(self, bootstrap: str, topic: str, group: str, strategy: str) -> None:
        self.values: list[bytes] = []
        self.owned: set[int] = set()
        self._is_cooperative = strategy == "cooperative-sticky"
        self._is_stopped = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": strategy,
                "heartbeat.interval.ms": 100,
                "session.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _assigned(self, consumer: Any, rows: list[Any]) -> None:
        self.owned |= {row.partition for row in rows}

    def _revoked(self, consumer: Any, rows: list[Any]) -> None:
        self._commit()
        self.owned -= {row.partition for row in rows}

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as refused:
            if refused.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:
                raise

    def _work(self) -> None:
        while not self._is_stopped.is_set():
            for message in self._consumer.consume(100, 0.1):
                assert message.error() is None, message.error()
                self.values.append(message.value())
        self._commit()
        self._consumer.close()

    def stop(self) -> None:
        self._is_stopped.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_mixed_group_loses_and_doubles_nothing_through_rebalances(
    bootstrap: str, fresh_name: Names, strategy: str
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("mixed"), PARTITIONS), fresh_name("g")
    sent = 0

    def send(producer: Producer) -> None:
        nonlocal sent
        for number in range(sent, sent + 300):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush(30)
        sent += 300

    def moldau(name: str) -> Member:
        return Member(
            name,
            [topic],
            bootstrap_servers=bootstrap,
            group_id=group,
            partition_assignment_strategy=strategy,
            heartbeat_interval_ms=100,
            session_timeout_ms=10_000,
        )

    def spread(*members: Any) -> bool:
        sizes = [len(member.owned) for member in members]
        return sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1

    with Producer(bootstrap_servers=bootstrap) as producer:
        send(producer)
        first = moldau("moldau-0")
        members: list[Any] = [first]
        try:
            eventually(lambda: spread(first))
            send(producer)
            members.append(other := ConfluentMember(bootstrap, topic, group, strategy))
            eventually(lambda: spread(first, other))
            send(producer)
            members.append(third := moldau("moldau-1"))
            eventually(lambda: spread(first, other, third))
            send(producer)
            first.stop()
            eventually(lambda: spread(other, third))
            send(producer)
            other.stop()
            eventually(lambda: spread(third))
            send(producer)
            eventually(lambda: sum(len(member.values) for member in members) >= sent)
        finally:
            for member in members:
                member.stop()
    counts = Counter(int(value) for member in members for value in member.values)
    assert sorted(counts) == list(range(sent))
    assert {number: count for number, count in counts.items() if count > 1} == {}
