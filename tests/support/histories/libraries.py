"""Two client libraries behind one face: Moldau's own, and librdkafka as a foreign one.

Both give up on a silent broker soon, so that a fault of a few seconds is met by many requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import confluent_kafka
from confluent_kafka import KafkaException

from moldau import Consumer, OffsetAndMetadata, Producer, TopicPartition
from moldau.errors import KafkaError as MoldauError
from tests.support.histories.model import Place, Read

TRANSACTION_TIMEOUT_MS = 20_000
CALL_SECONDS_MAX = 15.0
FAULTS = (KafkaException, MoldauError, TimeoutError, BufferError)

Told = Callable[[int | None, str], None]
"""Called with the offset of a record, or with None and the reason if it may not be stored; with -1
where it is stored and nobody knows where."""


class Writing(Protocol):
    def begin(self) -> None: ...
    def append(self, place: Place, key: str | None, value: str, told: Told) -> None: ...
    def consume(self, ends: Mapping[Place, int], reading: Any) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class Reading(Protocol):
    def poll(self, seconds: float) -> list[Read]: ...
    def close(self) -> None: ...


class Library(Protocol):
    name: str

    def writing(self, transactional_id: str | None) -> Writing: ...
    def reading(self, places: Iterable[Place]) -> Reading: ...
    def member(self, group: str, topic: str) -> Reading: ...


class Librdkafka:
    name = "librdkafka"

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "socket.timeout.ms": 2000,
            "topic.metadata.refresh.interval.ms": 1000,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }

    def writing(self, transactional_id: str | None) -> Writing:
        return _RdkafkaWriting(self._common, transactional_id)

    def reading(self, places: Iterable[Place]) -> Reading:
        reading = _RdkafkaReading(self._common, "reader")
        reading.consumer.assign([confluent_kafka.TopicPartition(*each, 0) for each in places])
        return reading

    def member(self, group: str, topic: str) -> Reading:
        reading = _RdkafkaReading(self._common, group)
        reading.consumer.subscribe([topic])
        return reading


class _RdkafkaWriting:
    def __init__(self, common: Mapping[str, Any], transactional_id: str | None) -> None:
        settings = {**common, "linger.ms": 2, "request.timeout.ms": 2000, "retry.backoff.ms": 50}
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

    def append(self, place: Place, key: str | None, value: str, told: Told) -> None:
        def delivered(fault: Any, message: Any) -> None:
            offset = -1 if message.offset() is None else message.offset()
            told(None if fault is not None else offset, str(fault))

        self._producer.produce(
            place[0], value.encode(), key, partition=place[1], on_delivery=delivered
        )
        self._producer.poll(0)

    def consume(self, ends: Mapping[Place, int], reading: _RdkafkaReading) -> None:
        offsets = [confluent_kafka.TopicPartition(*place, end) for place, end in ends.items()]
        metadata = reading.consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, metadata, CALL_SECONDS_MAX)

    def commit(self) -> None:
        self._producer.commit_transaction(CALL_SECONDS_MAX)

    def abort(self) -> None:
        self._producer.abort_transaction(CALL_SECONDS_MAX)

    def flush(self) -> None:
        self._producer.flush(CALL_SECONDS_MAX * 8)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(1)


class _RdkafkaReading:
    def __init__(self, common: Mapping[str, Any], group: str) -> None:
        self._positions: dict[Place, int] = {}
        self.consumer = confluent_kafka.Consumer(
            {
                **common,
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
        for message in self.consumer.consume(100, seconds):
            if message.error() is None:
                place = message.topic(), message.partition()
                found.setdefault(place, []).append((message.offset(), message.value().decode()))
        reads = []
        for place, records in found.items():
            start = self._positions.get(place, records[0][0])
            self._positions[place] = records[-1][0] + 1
            reads.append(Read(place, start, self._positions[place], tuple(records)))
        return reads

    def close(self) -> None:
        self.consumer.close()


class Moldau:
    name = "moldau"

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "request.timeout.ms": 2000,
            "metadata.max.age.ms": 1000,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
        }

    def writing(self, transactional_id: str | None) -> Writing:
        return _MoldauWriting(self._common, transactional_id)

    def reading(self, places: Iterable[Place]) -> Reading:
        reading = _MoldauReading(self._common, None)
        partitions = [TopicPartition(*each) for each in places]
        reading.consumer.assign(partitions)
        reading.consumer.seek_to_beginning(partitions)
        return reading

    def member(self, group: str, topic: str) -> Reading:
        reading = _MoldauReading(self._common, group)
        reading.consumer.subscribe([topic])
        return reading


class _MoldauWriting:
    def __init__(self, common: Mapping[str, Any], transactional_id: str | None) -> None:
        settings = {**common, "linger.ms": 2, "acks": "all", "retry.backoff.ms": 50}
        if transactional_id is None:
            settings |= {"delivery.timeout.ms": 120_000}
        else:
            settings |= {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "delivery.timeout.ms": int(CALL_SECONDS_MAX * 1000),
                "max.block.ms": int(CALL_SECONDS_MAX * 1000),
            }
        self._producer = Producer(settings)
        if transactional_id is not None:
            self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def append(self, place: Place, key: str | None, value: str, told: Told) -> None:
        def delivered(metadata: Any, fault: Exception | None) -> None:
            told(None if fault is not None else metadata.offset, str(fault))

        self._producer.send(place[0], value, key, partition=place[1], on_delivery=delivered)

    def consume(self, ends: Mapping[Place, int], reading: _MoldauReading) -> None:
        offsets = {TopicPartition(*place): OffsetAndMetadata(end) for place, end in ends.items()}
        self._producer.send_offsets_to_transaction(offsets, reading.consumer.group_metadata())

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def flush(self) -> None:
        self._producer.flush(CALL_SECONDS_MAX * 8)

    def close(self) -> None:
        self._producer.close(1)


class _MoldauReading:
    def __init__(self, common: Mapping[str, Any], group: str | None) -> None:
        self._positions: dict[Place, int] = {}
        settings = {
            **common,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        if group is not None:
            settings |= {
                "group.id": group,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
            }
        self.consumer = Consumer(settings)

    def poll(self, seconds: float) -> list[Read]:
        reads = []
        for partition, records in self.consumer.poll(seconds, max_records=100).items():
            place = partition.topic, partition.partition
            rows = tuple((each.offset, each.value.decode()) for each in records)
            start = self._positions.get(place, rows[0][0])
            self._positions[place] = rows[-1][0] + 1
            reads.append(Read(place, start, rows[-1][0] + 1, rows))
        return reads

    def close(self) -> None:
        self.consumer.close()
