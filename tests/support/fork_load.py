"""Transactions over several topics, and a pipeline from one topic to another, while snapshots are
taken; and what must hold in a fork of one.

Transaction n writes the number n to every topic. The pipeline copies the first topic to `copies`
exactly once: its offsets and its outputs are in one transaction. So in a fork all topics end with
the same number, and the group's offset is the number of copies.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.tracked_topic import create

TOPICS = ("first", "second", "third")
COPIES = "copies"
GROUP = "copiers"
SECONDS_MAX = 60


class TransactionalLoad:
    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.begun = 0
        """Transactions that were begun: later ones cannot be anywhere yet."""
        self.acknowledged = 0
        self._copied = 0
        self._stop = threading.Event()
        self._faults: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guard, args=(work,)) for work in self._works]

    @property
    def _works(self) -> tuple[object, ...]:
        return (self._write, self._copy)

    def topic(self, name: str) -> str:
        return f"{self.name}-{name}"

    def __enter__(self) -> Self:
        for topic in (*TOPICS, COPIES):
            create(self.bootstrap, self.topic(topic))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._faults and value is None:
            raise self._faults[0]

    def wait_for_more(self, count: int) -> None:
        wanted, deadline = self.acknowledged + count, time.monotonic() + SECONDS_MAX
        while self.acknowledged < wanted:
            if self._faults:
                raise self._faults[0]
            assert time.monotonic() < deadline, f"no {count} transactions in {SECONDS_MAX} s"
            time.sleep(0.002)

    def _guard(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as fault:
            self._faults.append(fault)
            raise

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": f"{self.name}-writer",
                "log_level": 0,
                "linger.ms": 0,
            }
        )
        producer.init_transactions(SECONDS_MAX)
        while not self._stop.is_set():
            number = self.begun
            self.begun += 1
            producer.begin_transaction()
            for topic in TOPICS:
                producer.produce(self.topic(topic), b"%d" % number)
            if number % 5 == 4:
                # Nobody may ever see this one.
                producer.produce(self.topic(TOPICS[0]), b"aborted")
                producer.flush(SECONDS_MAX)
                producer.abort_transaction(SECONDS_MAX)
                self.begun = number
                producer.begin_transaction()
                for topic in TOPICS:
                    producer.produce(self.topic(topic), b"%d" % number)
                self.begun = number + 1
            producer.commit_transaction(SECONDS_MAX)
            self.acknowledged = number + 1

    def _copy(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.topic(GROUP),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": f"{self.name}-copier",
                "log_level": 0,
            }
        )
        producer.init_transactions(SECONDS_MAX)
        consumer.subscribe([self.topic(TOPICS[0])])
        while not self._stop.is_set():
            messages = consumer.consume(20, 0.1)
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce(self.topic(COPIES), message.value())
            offsets = consumer.position(consumer.assignment())
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, metadata, SECONDS_MAX)
            producer.commit_transaction(SECONDS_MAX)
        consumer.close()


def check_fork(bootstrap: str, load: TransactionalLoad, before: int, after: int) -> None:
    """`before` transactions were acknowledged when the snapshot was asked for; `after` were begun
    when it was there."""
    written = {topic: _committed(bootstrap, load.topic(topic)) for topic in TOPICS}
    first = written[TOPICS[0]]
    assert first == list(range(len(first))), "the transactions of one producer are a beginning"
    assert all(each == first for each in written.values()), "a transaction is torn"
    assert before <= len(first) <= after
    copies = _committed(bootstrap, load.topic(COPIES))
    assert copies == first[: len(copies)], "the pipeline's outputs are not its inputs"
    offset = _group_offset(bootstrap, load.topic(GROUP), load.topic(TOPICS[0]))
    behind = _committed(bootstrap, load.topic(TOPICS[0]), start=offset)
    assert behind == first[len(copies) :], "the group does not stand where its outputs end"


def _committed(bootstrap: str, topic: str, start: int = 0) -> list[int]:
    consumer = _reader(bootstrap, "-")
    try:
        place = TopicPartition(topic, 0, start)
        _, end = consumer.get_watermark_offsets(place, SECONDS_MAX)
        consumer.assign([place])
        numbers: list[int] = []
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            assert time.monotonic() < deadline, f"{topic} could not be read to its end, {end}"
            (position,) = consumer.position([place])
            if position.offset >= end or start >= end:
                return numbers
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    value = message.value()
                    assert isinstance(value, bytes)
                    numbers.append(int(value))
    finally:
        consumer.close()


def _group_offset(bootstrap: str, group: str, topic: str) -> int:
    consumer = _reader(bootstrap, group)
    try:
        (place,) = consumer.committed([TopicPartition(topic, 0)], SECONDS_MAX)
        return max(place.offset, 0)
    finally:
        consumer.close()


def _reader(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
