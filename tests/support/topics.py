"""Topics with records in them, for tests of the client library."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau import Admin, NewTopic, Producer, TopicPartition
from tests.support.eventually import eventually


def create_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> str:
    with Admin(bootstrap_servers=bootstrap) as admin:
        new = NewTopic(name, partitions=partitions, replication_factor=1, configs=configs)
        admin.create_topics([new]).check()
        # Brokers of Apache Kafka learn of a topic a moment after it was created.
        eventually(lambda: name in admin.list_topics())
    return name


def fill(bootstrap: str, tp: TopicPartition, values: Sequence[str], **settings: object) -> None:
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for value in values:
            producer.send(tp.topic, value.encode(), partition=tp.partition)
        producer.flush(30)


Names = Callable[[str], str]
