"""Two client libraries behind one face: Moldau's own here, librdkafka in `librdkafka.py`.

Both give up on a silent broker soon, so that a fault of a few seconds is met by many requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaException

from moldau import Consumer, OffsetAndMetadata, Producer, TopicPartition
from moldau.errors import KafkaError as MoldauError
from tests.support.histories.model import Place, Read
from tests.support.reach import Reach

TRANSACTION_TIMEOUT_MS = 20_000
CALL_SECONDS_MAX = 15.0


class ForeignClientGone(Exception):
    """The process of a foreign client crashed, or did not answer and was killed."""


FAULTS = (KafkaException, MoldauError, TimeoutError, BufferError, ForeignClientGone)

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


class Moldau:
    name = "moldau"

    def __init__(self, reach: Reach) -> None:
        self._common: dict[str, Any] = {
            **reach.moldau,
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
        def delivered(metadata: Any, fault: BaseException | None) -> None:
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
