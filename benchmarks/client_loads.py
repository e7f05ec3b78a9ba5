"""One client of Kafka at its work, in a process of its own: produce or consume so many records.

Each client is used as its documentation recommends for throughput, and does per record what a
program would: hand over a value, or look at one. The clock of a producer starts with everything
connected and stops when all is acknowledged; that of a consumer starts with the first record in
hand, so that joining and connecting, which happen once, are not part of it. The outcome is a line
of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

LINGER_MS = 5
BATCH_BYTES = 256 * 1024
"""For clients whose own default is 16 KB: small batches are what makes them slow."""
POLL_RECORDS = 10_000
CONFLUENT_RECORDS = 1000
"""`consume` waits for as many as were asked for. Tried were 1,000 and 10,000: neither was always
the faster one."""
CONFLUENT_BACKOFF_MS = 10
"""Its default of a second lets the queue run dry before more is fetched."""
POLL_SECONDS = 1.0
SILENCE_SECONDS_MAX = 30.0
FLUSH_SECONDS_MAX = 120.0


class Work(NamedTuple):
    servers: str
    topic: str
    partitions: int
    records: int
    record_bytes: int

    @property
    def value(self) -> bytes:
        return bytes(97 + index % 26 for index in range(self.record_bytes))


class Outcome(NamedTuple):
    records: int
    seconds: float


class Reading:
    """Counts what a consumer reads, from the first record on."""

    def __init__(self, work: Work) -> None:
        self.left = work.records
        self._record_bytes = work.record_bytes
        self._bytes_left = work.records * work.record_bytes
        self._counted = 0
        self._began = 0.0
        self._heard_at = time.perf_counter()

    def limit(self, usual: int) -> int:
        """Of the next poll. The clock starts with the first record, so that one comes alone, also
        if polls before it bring nothing."""
        return usual if self._began else 1

    def add(self, records: int, size_bytes: int) -> bool:
        """Whether there is more to come."""
        now = time.perf_counter()
        if records == 0:
            if now - self._heard_at > SILENCE_SECONDS_MAX:
                raise TimeoutError(f"{self.left} records did not come")
            return True
        self._heard_at = now
        if self._began:
            self._counted += records
        else:
            self._began = now
        self.left -= records
        self._bytes_left -= size_bytes
        if self._bytes_left != self.left * self._record_bytes:
            raise ValueError(f"{size_bytes} bytes are not {records} records")
        return self.left > 0

    @property
    def outcome(self) -> Outcome:
        return Outcome(self._counted, self._heard_at - self._began)


@contextmanager
def _timed(found: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    found.append(time.perf_counter() - began)


def moldau_produce(work: Work) -> Outcome:
    from moldau import Producer

    value, topic, took = work.value, work.topic, list[float]()
    with Producer(bootstrap_servers=work.servers, linger_ms=LINGER_MS) as producer:
        producer.send(topic, value).result(FLUSH_SECONDS_MAX)
        with _timed(took):
            for _ in range(work.records - 1):
                producer.send(topic, value)
            producer.flush()
    return Outcome(work.records - 1, took[0])


def moldau_send_many(work: Work) -> Outcome:
    from moldau import Producer

    values, topic, took = [work.value] * POLL_RECORDS, work.topic, list[float]()
    with Producer(bootstrap_servers=work.servers, linger_ms=LINGER_MS) as producer:
        producer.send(topic, values[0]).result(FLUSH_SECONDS_MAX)
        with _timed(took):
            left = work.records - 1
            while left > 0:
                producer.send_many(topic, values[:left])
                left -= POLL_RECORDS
            producer.flush()
    return Outcome(work.records - 1, took[0])


def moldau_consume(work: Work) -> Outcome:
    from moldau import Consumer

    reading = Reading(work)
    with Consumer(bootstrap_servers=work.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(work.topic, number) for number in range(work.partitions)])
        more = True
        while more:
            size_bytes = 0
            records = consumer.poll(POLL_SECONDS, max_records=reading.limit(POLL_RECORDS))
            for record in records:
                size_bytes += len(record.value)
            more = reading.add(len(records), size_bytes)
    return reading.outcome


def moldau_poll_arrow(work: Work) -> Outcome:
    from moldau import Consumer
    from moldau.client.consumer.arrow_tables import schema

    schema()
    reading = Reading(work)
    with Consumer(bootstrap_servers=work.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(work.topic, number) for number in range(work.partitions)])
        more = True
        while more:
            table = consumer.poll_arrow(POLL_SECONDS, max_records=reading.limit(work.records))
            more = reading.add(len(table), _value_bytes(table))
    return reading.outcome


def _value_bytes(table: Any) -> int:
    total = 0
    for chunk in table.column("value").chunks:
        ends = memoryview(chunk.buffers()[1]).cast("i")
        total += ends[chunk.offset + len(chunk)] - ends[chunk.offset]
    return total


def confluent_produce(work: Work) -> Outcome:
    from confluent_kafka import Producer

    value, topic, took, failures = work.value, work.topic, list[float](), list[Any]()

    def told(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": work.servers, "linger.ms": LINGER_MS})
    producer.produce(topic, value)
    producer.flush(FLUSH_SECONDS_MAX)
    with _timed(took):
        for index in range(work.records - 1):
            while True:
                try:
                    producer.produce(topic, value, on_delivery=told)
                    break
                except BufferError:
                    producer.poll(0.01)
            if index % 1000 == 0:
                producer.poll(0)
        left = producer.flush(FLUSH_SECONDS_MAX)
    if failures or left:
        raise OSError(f"{left} records were not delivered, {len(failures)} failed: {failures[:1]}")
    return Outcome(work.records - 1, took[0])


def confluent_consume(work: Work, **extra: Any) -> Outcome:
    from confluent_kafka import Consumer, TopicPartition

    reading = Reading(work)
    settings = {
        "bootstrap.servers": work.servers,
        "group.id": "bench",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        **extra,
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(work.topic, n, 0) for n in range(work.partitions)])
        more = True
        while more:
            size_bytes = 0
            limit = min(reading.limit(CONFLUENT_RECORDS), reading.left)
            messages = consumer.consume(limit, POLL_SECONDS)
            for message in messages:
                if message.error() is not None:
                    raise OSError(message.error())
                size_bytes += len(message.value() or b"")
            more = reading.add(len(messages), size_bytes)
    return reading.outcome


def confluent_tuned(work: Work) -> Outcome:
    return confluent_consume(work, **{"fetch.queue.backoff.ms": CONFLUENT_BACKOFF_MS})


def kafka_python_produce(work: Work) -> Outcome:
    from kafka import KafkaProducer  # type: ignore[import-untyped]

    value, topic, took = work.value, work.topic, list[float]()
    with closing(
        KafkaProducer(
            bootstrap_servers=work.servers, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, acks="all"
        )
    ) as producer:
        producer.send(topic, value).get(FLUSH_SECONDS_MAX)
        with _timed(took):
            for _ in range(work.records - 1):
                producer.send(topic, value)
            producer.flush(FLUSH_SECONDS_MAX)
    return Outcome(work.records - 1, took[0])


def kafka_python_consume(work: Work) -> Outcome:
    from kafka import KafkaConsumer, TopicPartition

    reading = Reading(work)
    with closing(
        KafkaConsumer(
            bootstrap_servers=work.servers, auto_offset_reset="earliest", enable_auto_commit=False
        )
    ) as consumer:
        consumer.assign([TopicPartition(work.topic, n) for n in range(work.partitions)])
        more = True
        while more:
            limit = reading.limit(POLL_RECORDS)
            polled = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000), max_records=limit)
            more = reading.add(*_looked_at(polled.values()))
    return reading.outcome


def _looked_at(lists: Any) -> tuple[int, int]:
    count = size_bytes = 0
    for records in lists:
        count += len(records)
        for record in records:
            size_bytes += len(record.value)
    return count, size_bytes


async def aiokafka_produce(work: Work) -> Outcome:
    from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

    value, topic, took = work.value, work.topic, list[float]()
    producer = AIOKafkaProducer(
        bootstrap_servers=work.servers,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
        acks="all",
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, value)
        with _timed(took):
            for _ in range(work.records - 1):
                await producer.send(topic, value)
            await producer.flush()
    finally:
        await producer.stop()
    return Outcome(work.records - 1, took[0])


async def aiokafka_consume(work: Work) -> Outcome:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    reading = Reading(work)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=work.servers, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(work.topic, n) for n in range(work.partitions)])
        more = True
        while more:
            limit = reading.limit(POLL_RECORDS)
            polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=limit)
            more = reading.add(*_looked_at(polled.values()))
    finally:
        await consumer.stop()
    return reading.outcome


def awaited(load: Callable[[Work], Any]) -> Callable[[Work], Outcome]:
    return lambda work: asyncio.run(load(work))


LOADS: dict[str, Callable[[Work], Outcome]] = {
    "moldau_produce": moldau_produce,
    "moldau_send_many": moldau_send_many,
    "moldau_consume": moldau_consume,
    "moldau_poll_arrow": moldau_poll_arrow,
    "confluent_produce": confluent_produce,
    "confluent_consume": confluent_consume,
    "confluent_tuned": confluent_tuned,
    "kafka_python_produce": kafka_python_produce,
    "kafka_python_consume": kafka_python_consume,
    "aiokafka_produce": awaited(aiokafka_produce),
    "aiokafka_consume": awaited(aiokafka_consume),
}


def main(arguments: Sequence[str]) -> None:
    asked = json.loads(arguments[0])
    load = LOADS[asked.pop("load")]
    print(json.dumps(load(Work(**asked))._asdict()))


if __name__ == "__main__":
    main(sys.argv[1:])
