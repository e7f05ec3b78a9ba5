"""kafka-python."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from tests.compat.clients.port import (
    READ_UNCOMMITTED,
    REQUEST_BYTES_MAX,
    SECONDS_MAX,
    Partition,
    Received,
    Record,
    Refused,
)

with warnings.catch_warnings():
    # The library reads its own data files in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError

EARLIEST = -2
LATEST = -1


class KafkaPython:
    name = "kafka-python"
    writes_null_headers = False
    alters_incrementally = True
    checks_delete_offsets_itself = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all"
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=None if codec == "none" else codec,
            max_request_size=REQUEST_BYTES_MAX,
            batch_size=64 * 1024,
            linger_ms=5,
        )
        with closing(producer), refusals():
            futures = [
                producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(timeout=SECONDS_MAX)
            return [future.get(timeout=SECONDS_MAX).offset for future in futures]

    def consume(
        self, topic: str, counts: Mapping[int, int], *, isolation: str = READ_UNCOMMITTED
    ) -> list[Received]:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=isolation,
            max_partition_fetch_bytes=REQUEST_BYTES_MAX,
            max_poll_records=5000,
        )
        missing = sum(counts.values())
        received: list[Received] = []
        with closing(consumer), refusals():
            assigned = [TopicPartition(topic, index) for index in counts]
            consumer.assign(assigned)
            consumer.seek_to_beginning(*assigned)
            deadline = time.monotonic() + SECONDS_MAX
            while missing > len(received) and time.monotonic() < deadline:
                for messages in consumer.poll(timeout_ms=500).values():
                    received += map(received_from, messages)
        return received

    def create_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> None:
        new = {topic: {"num_partitions": partitions, "configs": dict(configs)}}
        with refusals():
            self.admin.create_topics(new)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics())

    def describe_topic(self, topic: str) -> list[Partition]:
        (described,) = self.admin.describe_topics([topic])
        rows = sorted(described["partitions"], key=lambda row: row["partition_index"])
        return [
            Partition(
                row["partition_index"],
                row["leader_id"],
                tuple(row["replica_nodes"]),
                tuple(row["isr_nodes"]),
            )
            for row in rows
        ]

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        with refusals():
            described = self.admin.describe_configs([resource], config_filter="all")
        entries = described["topic"][topic]
        return {name: entry["value"] for name, entry in entries.items()}

    def alter_configs(self, topic: str, changes: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(changes))
        with refusals():
            outcome = self.admin.alter_configs([resource], raise_on_unknown=False)
        # This call returns the refusal as text, "[Error 40] InvalidConfigurationError: ...".
        text = str(outcome["topic"][topic])
        if text != "OK":
            raise Refused(int(text.partition("[Error ")[2].partition("]")[0]), text)

    def create_partitions(self, topic: str, total: int) -> None:
        with refusals():
            self.admin.create_partitions({topic: total})

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        with refusals():
            self.admin.delete_records({TopicPartition(topic, partition): before_offset})

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        return self.listed(topic, partition, EARLIEST), self.listed(topic, partition, LATEST)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        return self.listed(topic, partition, timestamp_ms)

    def listed(self, topic: str, partition: int, timestamp_ms: int) -> int:
        asked = TopicPartition(topic, partition)
        with refusals():
            offset: int = self.admin.list_partition_offsets({asked: timestamp_ms})[asked].offset
        return offset

    def delete_topic(self, topic: str) -> None:
        with refusals():
            self.admin.delete_topics([topic])

    def close(self) -> None:
        self.admin.close()


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        code = getattr(error, "errno", None)
        if code is None:
            raise
        raise Refused(code, str(error)) from error


def received_from(message: Any) -> Received:
    record = Record(
        message.key, message.value, tuple(message.headers), message.timestamp, message.partition
    )
    return Received(record, message.offset)
