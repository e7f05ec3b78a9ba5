"""librdkafka as clients of a history use it: in a process of its own, asked over a pipe.

`python -m tests.support.histories.librdkafka_calls` reads calls from its standard input and writes
answers to its standard output, one after the other, each a length and a pickle. `librdkafka.py` is
the other end.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from typing import IO, Any, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException

from tests.support.histories.libraries import CALL_SECONDS_MAX, TRANSACTION_TIMEOUT_MS
from tests.support.histories.model import Place, Read
from tests.support.lost_offsets import has_lost_offsets

T = TypeVar("T")

COMMON: dict[str, Any] = {
    "socket.timeout.ms": 2000,
    "topic.metadata.refresh.interval.ms": 1000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
READ_SECONDS_MAX = 180.0
LENGTH = struct.Struct(">I")


def send(pipe: IO[bytes], content: object) -> None:
    body = pickle.dumps(content)
    pipe.write(LENGTH.pack(len(body)) + body)
    pipe.flush()


def known(value: T | None) -> T:
    """A message that is no error has everything."""
    assert value is not None
    return value


class Calls:
    """What the other end may ask for: each method is a call. One writer and one reader at a time;
    a second one takes the place of the first, which is forgotten as it is."""

    def __init__(self, reach: Mapping[str, str]) -> None:
        self._reach = reach
        self._common = {**COMMON, **reach}
        self._producer: Any = None
        self._consumer: Any = None
        self._positions: dict[Place, int] = {}
        self._told: list[tuple[int, int | None, str]] = []

    def take_told(self) -> list[tuple[int, int | None, str]]:
        """What has become of records since the last call."""
        told, self._told = self._told, []
        return told

    def open_producer(self, transactional_id: str | None) -> None:
        settings = {
            **self._common,
            "linger.ms": 2,
            "request.timeout.ms": 2000,
            "retry.backoff.ms": 50,
        }
        if transactional_id is None:
            settings |= {"enable.idempotence": True, "message.timeout.ms": 120_000}
        else:
            settings |= {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        self._producer = confluent_kafka.Producer(settings)
        if transactional_id is not None:
            self._producer.init_transactions(CALL_SECONDS_MAX * 2)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def append(self, number: int, place: Place, key: str | None, value: str) -> None:
        def delivered(fault: Any, message: Any) -> None:
            offset = -1 if message.offset() is None else message.offset()
            self._told.append((number, None if fault is not None else offset, str(fault)))

        self._producer.produce(
            place[0], value.encode(), key, partition=place[1], on_delivery=delivered
        )
        self._producer.poll(0)

    def send_offsets(self, ends: Mapping[Place, int]) -> None:
        offsets = [confluent_kafka.TopicPartition(*place, end) for place, end in ends.items()]
        metadata = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, metadata, CALL_SECONDS_MAX)

    def commit(self) -> None:
        self._producer.commit_transaction(CALL_SECONDS_MAX)

    def abort(self) -> None:
        self._producer.abort_transaction(CALL_SECONDS_MAX)

    def flush(self) -> None:
        self._producer.flush(CALL_SECONDS_MAX * 8)

    def close_producer(self) -> None:
        self._producer.purge()
        self._producer.flush(1)

    def assign(self, places: Iterable[Place]) -> None:
        self._open_consumer("reader")
        self._consumer.assign([confluent_kafka.TopicPartition(*each, 0) for each in places])

    def subscribe(self, group: str, topic: str) -> None:
        self._open_consumer(group)
        self._consumer.subscribe([topic])

    def _open_consumer(self, group: str) -> None:
        self._positions = {}
        self._consumer = confluent_kafka.Consumer(
            {
                **self._common,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "coordinator.query.interval.ms": 1000,
            }
        )

    def poll(self, seconds: float) -> list[Read]:
        found: dict[Place, list[tuple[int, str]]] = {}
        for message in self._consumer.consume(100, seconds):
            fault = message.error()
            if fault is not None and has_lost_offsets(fault):
                raise KafkaException(fault)
            if fault is None:
                place = known(message.topic()), known(message.partition())
                value = known(message.value()).decode()
                found.setdefault(place, []).append((known(message.offset()), value))
        reads = []
        for place, records in found.items():
            start = self._positions.get(place, records[0][0])
            self._positions[place] = records[-1][0] + 1
            reads.append(Read(place, start, self._positions[place], tuple(records)))
        return reads

    def close_consumer(self) -> None:
        self._consumer.close()

    def committed(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        """The group's offsets, of those places that have one."""
        consumer = confluent_kafka.Consumer(
            {**self._common, "group.id": group, "isolation.level": "read_committed"}
        )
        try:
            asked = [confluent_kafka.TopicPartition(*each) for each in places]
            rows = consumer.committed(asked, timeout=10)
            return {
                (row.topic, row.partition): row.offset
                for row in rows
                if row.error is None and row.offset >= 0
            }
        finally:
            consumer.close()

    def read_whole(
        self, places: list[Place]
    ) -> tuple[dict[Place, tuple[tuple[int, str], ...]], dict[Place, int]]:
        """The committed records of every place, and where each ends."""
        settings = {
            **self._reach,
            "group.id": "last",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
        consumer = confluent_kafka.Consumer(settings)
        consumer.assign([confluent_kafka.TopicPartition(*each, 0) for each in places])
        found: dict[Place, list[tuple[int, str]]] = {place: [] for place in places}
        ends: dict[Place, int] = {}
        deadline = time.monotonic() + READ_SECONDS_MAX
        while len(ends) < len(places):
            if time.monotonic() > deadline:
                raise TimeoutError("the logs could not be read to their ends")
            for message in consumer.consume(1000, 0.5):
                place = known(message.topic()), known(message.partition())
                fault = message.error()
                if fault is None:
                    found[place].append((known(message.offset()), known(message.value()).decode()))
                elif fault.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    ends[place] = known(message.offset())
        consumer.close()
        return {place: tuple(records) for place, records in found.items()}, ends


def serve(reach: Mapping[str, str], questions: IO[bytes], answers: IO[bytes]) -> None:
    calls = Calls(reach)
    while head := questions.read(LENGTH.size):
        name, arguments = pickle.loads(questions.read(*LENGTH.unpack(head)))
        result, refusal = None, None
        try:
            result = getattr(calls, name)(*arguments)
        except (KafkaException, TimeoutError, BufferError) as fault:
            # librdkafka's own exceptions do not travel by pickle with all they hold.
            refusal = f"{type(fault).__name__}: {fault}"
        send(answers, (result, refusal, calls.take_told()))


if __name__ == "__main__":
    faulthandler.enable()
    # Whatever prints must not print between two answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(json.loads(sys.argv[1]), sys.stdin.buffer, answers)
    # A client that hangs while it is destroyed may not hold up the end of its process.
    os._exit(0)
