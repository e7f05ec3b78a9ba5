"""Clients of a cluster under fire, and the account of what they were told.

One idempotent producer writes numbers to every partition, acknowledged by all in-sync replicas; a
group of two consumes and commits. At the end the log itself is read: everything acknowledged has
to be there once, in order, where the producer was told and the group has seen it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from tests.support.lost_offsets import has_lost_offsets
from tests.support.reach import Reach

READ_SECONDS_MAX = 60.0
CLIENT = {
    # A client gives up on a broker that is silent after a second, and looks around for the leader.
    "socket.timeout.ms": 1000,
    "topic.metadata.refresh.interval.ms": 1000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}


@dataclass
class Account:
    """By partition: what was written in which order, and what was said about it."""

    partitions: int
    written: list[int] = field(default_factory=list)
    acknowledged: list[dict[int, int]] = field(default_factory=list)
    """Offset by number; -1 where the client only knows that an earlier attempt had succeeded."""
    faults: list[str] = field(default_factory=list)
    longest_wait_s: float = 0.0
    longest_wait_at: float = 0.0

    def __post_init__(self) -> None:
        self.written = [0] * self.partitions
        self.acknowledged = [{} for _ in range(self.partitions)]

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged))

    def told(self, fault: KafkaError | None, message: Message, number: int, since: float) -> None:
        partition = message.partition()
        if fault is not None:
            self.faults.append(f"{partition}: {number}: {fault}")
            return
        assert partition is not None
        offset = message.offset()
        self.acknowledged[partition][number] = -1 if offset is None else offset
        wait_s = time.monotonic() - since
        if wait_s > self.longest_wait_s:
            self.longest_wait_s, self.longest_wait_at = wait_s, time.monotonic()


class Load:
    def __init__(self, reach: Reach, topic: str, partitions: int, rate: float) -> None:
        self.account = Account(partitions)
        self.seen: list[dict[int, int]] = [{} for _ in range(partitions)]
        """What the group was given: number by offset."""
        self.changed: list[str] = []
        """Offsets that were given twice with different records."""
        self.wait_s_by_fault: dict[str, float] = {}
        self._reach = reach.librdkafka
        self._topic = topic
        self._pause_s = 1 / rate
        self._is_over = threading.Event()
        self._may_end = threading.Event()
        self._threads = [threading.Thread(target=self._write, daemon=True)]
        self._threads += [threading.Thread(target=self._consume, daemon=True) for _ in range(2)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish_writing(self) -> None:
        self._is_over.set()
        self._threads[0].join(180)
        assert not self._threads[0].is_alive(), "the producer does not come to an end"

    def finish(self) -> None:
        self._is_over.set()
        self._may_end.set()
        for thread in self._threads:
            thread.join(180)

    def take_longest_wait(self) -> float:
        """The longest time a record took since the last call."""
        wait_s, self.account.longest_wait_s = self.account.longest_wait_s, 0.0
        return wait_s

    def has_caught_up(self) -> Callable[[], bool]:
        """Asks whether everything written up to now is acknowledged."""
        before = tuple(self.account.written)

        def is_so() -> bool:
            return all(map(int.__ge__, map(len, self.account.acknowledged), before))

        return is_so

    def _write(self) -> None:
        producer = Producer(
            {
                **CLIENT,
                **self._reach,
                "client.id": "fire",
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "request.timeout.ms": 1000,
                "retry.backoff.ms": 50,
                "message.timeout.ms": 300_000,
            }
        )
        partition = 0
        account = self.account
        while not self._is_over.is_set():
            number = account.written[partition]
            since = time.monotonic()

            def told(f: Any, m: Message, n: int = number, at: float = since) -> None:
                account.told(f, m, n, at)

            producer.produce(
                self._topic, str(number).encode(), partition=partition, on_delivery=told
            )
            account.written[partition] += 1
            partition = (partition + 1) % account.partitions
            producer.poll(0)
            time.sleep(self._pause_s)
        left = producer.flush(120)
        if left:
            account.faults.append(f"{left} records were still on their way")

    def _consume(self) -> None:
        consumer = Consumer(
            {
                **CLIENT,
                **self._reach,
                "client.id": "fire-group",
                "group.id": "fire",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 200,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                "coordinator.query.interval.ms": 1000,
            }
        )
        consumer.subscribe([self._topic])
        while not self._may_end.is_set():
            for message in consumer.consume(500, 0.2):
                fault = message.error()
                if fault is None:
                    self._see(message)
                elif has_lost_offsets(fault):
                    consumer.unsubscribe()
                    consumer.subscribe([self._topic])
        consumer.close()

    def _see(self, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and value is not None
        number = int(value)
        before = self.seen[partition].setdefault(offset, number)
        if before != number:
            self.changed.append(f"{partition}@{offset}: {before}, later {number}")

    def group_has_all(self) -> bool:
        return all(
            acknowledged.keys() <= set(seen.values())
            for acknowledged, seen in zip(self.account.acknowledged, self.seen, strict=True)
        )

    # The judgement

    def log(self) -> list[dict[int, int]]:
        """What the partitions hold now: number by offset."""
        settings = {**CLIENT, **self._reach, "client.id": "reader"}
        consumer = Consumer({**settings, "group.id": "reader", "enable.partition.eof": True})
        count = self.account.partitions
        consumer.assign(
            [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in range(count)]
        )
        found: list[dict[int, int]] = [{} for _ in range(count)]
        ended: set[int | None] = set()
        deadline = time.monotonic() + READ_SECONDS_MAX
        while len(ended) < count:
            assert time.monotonic() < deadline, "the log could not be read to its end"
            for message in consumer.consume(1000, 0.5):
                fault = message.error()
                partition, offset, value = message.partition(), message.offset(), message.value()
                if fault is None:
                    assert partition is not None and offset is not None and value is not None
                    found[partition][offset] = int(value)
                elif fault.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
        consumer.close()
        return found

    def mistakes(self) -> list[str]:
        """Everything that must not be; empty if all promises were kept."""
        wrong = [*self.account.faults, *self.changed]
        for partition, found in enumerate(self.log()):
            numbers = list(found.values())
            acknowledged = self.account.acknowledged[partition]
            lost = sorted(acknowledged.keys() - set(numbers))
            if lost:
                wrong.append(f"{partition}: lost {len(lost)} acknowledged: {lost[:10]}")
            if len(set(numbers)) < len(numbers):
                twice = sorted({n for n in numbers if numbers.count(n) > 1})
                wrong.append(f"{partition}: twice: {twice[:10]}")
            if numbers != sorted(numbers):
                wrong.append(f"{partition}: out of order")
            for number, offset in acknowledged.items():
                if offset >= 0 and found.get(offset) != number:
                    wrong.append(f"{partition}@{offset} was {number}, is {found.get(offset)}")
                    break
            for offset, number in self.seen[partition].items():
                if found.get(offset) != number:
                    wrong.append(f"{partition}@{offset}: the group saw {number}, it is gone")
                    break
        return wrong
