"""What tests of pipelines do again and again: make topics, send records, read what is committed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau import Admin, Consumer, NewTopic, OffsetSpec, Producer, TopicPartition


def make_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> str:
    # Tests give records times of long ago, which would be deleted at once.
    settings = {"retention.ms": "-1"}
    settings |= {key.replace("_", "."): value for key, value in configs.items()}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions, configs=settings)]).check()
    return name


def send(
    bootstrap: str, topic: str, rows: Iterable[tuple[Any, Any] | tuple[Any, Any, int]]
) -> None:
    """(key, value) or (key, value, timestamp in milliseconds), one after the other."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for key, value, *stamp in rows:
            producer.send(topic, value, key=key, timestamp_ms=stamp[0] if stamp else None)


def read_committed(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[Any]:
    """Every record that is there now, partition by partition."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        count = len(admin.describe_topics([topic]).check()[topic].partitions)
        places = [TopicPartition(topic, index) for index in range(count)]
        is_committed = isolation == "read_committed"
        listed = admin.list_offsets(
            dict.fromkeys(places, OffsetSpec.LATEST), read_committed=is_committed
        ).check()
    records: list[Any] = []
    with Consumer(
        {
            "bootstrap.servers": bootstrap,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    ) as consumer:
        consumer.assign(places)
        left = {tp for tp in places if listed[tp].offset > 0}
        for _ in range(60):
            left = {tp for tp in left if consumer.position(tp) < listed[tp].offset}
            if not left:
                break
            records += list(consumer.poll(timeout=1.0))
        assert not left, f"{left} could not be read to their ends"
    return sorted(records, key=lambda record: (record.partition, record.offset))
