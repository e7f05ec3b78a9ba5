"""What was acknowledged in a topic, and what can be read of it: plain numbers as values."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS_MAX = 60
SMALL = {"offsets.topic.num.partitions": "1"}
"""Settings of a broker that starts quickly."""


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create(bootstrap: str, topic: str, partitions: int = 1, **settings: str) -> None:
    wanted = NewTopic(topic, partitions, 1, config=settings)
    admin = admin_of(bootstrap)
    admin.create_topics([wanted])[topic].result(SECONDS_MAX)


def delete(bootstrap: str, topic: str) -> None:
    admin = admin_of(bootstrap)
    admin.delete_topics([topic])[topic].result(SECONDS_MAX)


def delete_records(bootstrap: str, topic: str, offset: int) -> None:
    place = TopicPartition(topic, 0, offset)
    admin = admin_of(bootstrap)
    admin.delete_records([place])[place].result(SECONDS_MAX)


def produce(bootstrap: str, topic: str, values: range, prefix: str = "", size: int = 0) -> None:
    """All of them acknowledged."""
    failures: list[object] = []

    def told(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, f"{prefix}{value} ".encode() + b"x" * size, on_delivery=told)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    assert not failures, failures[0]


def read(bootstrap: str, topic: str, partition: int = 0) -> list[str]:
    """The first word of every record, up to the end that the broker tells."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "-", "log_level": 0})
    place = TopicPartition(topic, partition)
    try:
        start, end = consumer.get_watermark_offsets(place, SECONDS_MAX)
        place.offset = start
        consumer.assign([place])
        words: list[str] = []
        position = start
        # Compaction leaves gaps, and never takes the last record.
        while position < end:
            messages = consumer.consume(min(1000, end - position), timeout=SECONDS_MAX / 3)
            assert messages, f"{topic}-{partition}: {len(words)} records from {start} to {end}"
            for message in messages:
                assert message.error() is None, message.error()
                words.append((message.value() or b"").split()[0].decode())
                position = (message.offset() or 0) + 1
        return words
    finally:
        consumer.close()
