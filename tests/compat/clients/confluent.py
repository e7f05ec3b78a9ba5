"""confluent-kafka, and with it librdkafka."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat.clients.port import (
    READ_UNCOMMITTED,
    REQUEST_BYTES_MAX,
    SECONDS_MAX,
    Partition,
    Received,
    Record,
    Refused,
)


class ConfluentKafka:
    name = "confluent-kafka"
    writes_null_headers = True
    alters_incrementally = True
    checks_delete_offsets_itself = False

    def __init__(self, bootstrap: str) -> None:
        self.common = {"bootstrap.servers": bootstrap, "receive.message.max.bytes": 100_000_000}
        self.admin = AdminClient(self.common)

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all"
    ) -> list[int]:
        producer = confluent_kafka.Producer(
            {
                **self.common,
                "acks": acks,
                "enable.idempotence": acks == "all",
                "compression.type": codec,
                "message.max.bytes": REQUEST_BYTES_MAX,
                "queue.buffering.max.messages": 200_000,
                "linger.ms": 5,
                "delivery.timeout.ms": SECONDS_MAX * 1000,
            }
        )
        offsets = [-1] * len(records)
        errors: list[confluent_kafka.KafkaError] = []

        def delivered(index: int, error: Any, message: Any) -> None:
            if error is not None:
                errors.append(error)
            elif acks != "0":
                offsets[index] = message.offset()

        for index, record in enumerate(records):
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=record.partition,
                timestamp=record.timestamp_ms,
                on_delivery=partial(delivered, index),
            )
        assert producer.flush(SECONDS_MAX) == 0, "some records were not delivered in time"
        if errors:
            raise Refused(errors[0].code(), errors[0].str())
        return offsets

    def consume(
        self, topic: str, counts: Mapping[int, int], *, isolation: str = READ_UNCOMMITTED
    ) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {
                **self.common,
                # The library insists on a name; nothing is joined when partitions are assigned.
                "group.id": "not-joined",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": isolation,
                "fetch.message.max.bytes": REQUEST_BYTES_MAX,
            }
        )
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([TopicPartition(topic, index, start) for index in counts])
        missing = sum(counts.values())
        received: list[Received] = []
        deadline = time.monotonic() + SECONDS_MAX
        while missing > len(received) and time.monotonic() < deadline:
            # Asked for more than is there, the library would wait the whole time.
            wanted = min(missing - len(received), 5000)
            for message in consumer.consume(num_messages=wanted, timeout=0.5):
                if (error := message.error()) is not None:
                    raise Refused(error.code(), error.str())
                received.append(received_from(message))
        consumer.close()
        return received

    def create_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> None:
        new = NewTopic(topic, num_partitions=partitions, config=dict(configs))
        settle(self.admin.create_topics([new]))

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=SECONDS_MAX).topics)

    def describe_topic(self, topic: str) -> list[Partition]:
        described = settle(
            self.admin.describe_topics(confluent_kafka.TopicCollection([topic]))
        ).partitions
        return [
            Partition(p.id, p.leader.id, ids(p.replicas), ids(p.isr))
            for p in sorted(described, key=lambda p: p.id)
        ]

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = settle(self.admin.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def alter_configs(self, topic: str, changes: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        settle(self.admin.incremental_alter_configs([resource]))

    def create_partitions(self, topic: str, total: int) -> None:
        settle(self.admin.create_partitions([NewPartitions(topic, total)]))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        settle(self.admin.delete_records([TopicPartition(topic, partition, before_offset)]))

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        start, end = (
            self.listed(topic, partition, spec)
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        return start, end

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        return self.listed(topic, partition, OffsetSpec.for_timestamp(timestamp_ms))

    def listed(self, topic: str, partition: int, spec: Any) -> int:
        wanted = {TopicPartition(topic, partition): spec}
        offset: int = settle(self.admin.list_offsets(wanted)).offset
        return offset

    def delete_topic(self, topic: str) -> None:
        settle(self.admin.delete_topics([topic]))

    def close(self) -> None:
        """The library stops its threads when the last reference goes."""


def settle(futures: Mapping[Any, Any]) -> Any:
    """The result of the one future that such a call returns."""
    (future,) = futures.values()
    try:
        return future.result(timeout=SECONDS_MAX)
    except KafkaException as refused:
        error = refused.args[0]
        raise Refused(error.code(), error.str()) from refused


def received_from(message: Any) -> Received:
    _, timestamp_ms = message.timestamp()
    record = Record(
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        timestamp_ms,
        message.partition(),
    )
    return Received(record, message.offset())


def ids(nodes: Sequence[Any]) -> tuple[int, ...]:
    return tuple(node.id for node in nodes)
