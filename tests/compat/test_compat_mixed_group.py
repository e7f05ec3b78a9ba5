"""Moldau's library beside Java's and librdkafka's: one group, and one hash of keys.

The members of one group are a Moldau consumer, a Java one and a confluent-kafka one. Each commits
what it has read before it gives partitions up, so through rebalances nothing is lost or doubled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau import Consumer, Producer
from tests.client.test_library_interop import ConfluentMember
from tests.compat.clients.catalogue import GROUPS, Clients
from tests.compat.clients.group_port import Subscription, owned, values
from tests.compat.waiting import eventually
from tests.support.apache_kafka import run_tool
from tests.support.group_members import Member
from tests.support.topics import create_topic

pytestmark = pytest.mark.compat

PARTITIONS = 6
WRITTEN = 300
KEYS = ["", "a", "key", "Größe", "日本", *(f"order-{number}" for number in range(200))]
JAVA_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"

NewName = Callable[[str], str]


class JavaMember:
    """The Java consumer of the compat client, with the words of the other two."""

    def __init__(self, clients: Clients, topic: str, group: str, strategy: str) -> None:
        wanted = Subscription(group, (topic,), assignor=strategy, commits=True)
        self._member = GROUPS["java"](clients["java"]).join(wanted)

    @property
    def owned(self) -> set[Any]:
        return set(owned(self._member))

    @property
    def values(self) -> list[bytes]:
        return values([self._member])

    def stop(self) -> None:
        self._member.stop()


class Load:
    """Numbers, spread over all partitions."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.sent = 0

    def write(self) -> None:
        for number in range(self.sent, self.sent + WRITTEN):
            self.producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
        self.producer.flush(30)
        self.sent += WRITTEN


def is_spread(*members: Any) -> bool:
    sizes = [len(member.owned) for member in members]
    return sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_of_three_libraries_loses_and_doubles_nothing_through_rebalances(
    bootstrap: str, clients: Clients, new_name: NewName, strategy: str
) -> None:
    topic, group = create_topic(bootstrap, new_name("mixed"), PARTITIONS), new_name("mixed")
    settings: dict[str, Any] = {
        "partition_assignment_strategy": strategy,
        "heartbeat_interval_ms": 100,
    }
    joins: list[Callable[[], Any]] = [
        lambda: JavaMember(clients, topic, group, strategy),
        lambda: Member("moldau", [topic], bootstrap_servers=bootstrap, group_id=group, **settings),
        lambda: ConfluentMember(bootstrap, topic, group, strategy),
    ]
    members: list[Any] = []
    with Producer(bootstrap_servers=bootstrap) as producer:
        load = Load(producer, topic)
        try:
            for join in joins:
                load.write()
                members.append(join())
                eventually(lambda: is_spread(*members), 60)
            load.write()
            eventually(lambda: all(member.values for member in members), 60)
            for gone in range(2):
                members[gone].stop()
                left = members[gone + 1 :]
                eventually(partial(is_spread, *left), 60)
                load.write()
            eventually(lambda: sum(len(each.values) for each in members) >= load.sent, 60)
        finally:
            for member in members:
                member.stop()
    counts = Counter(int(value) for member in members for value in member.values)
    assert sorted(counts) == list(range(load.sent))
    assert [number for number, count in counts.items() if count > 1] == []
    assert all(member.values for member in members)


def places_of_keys(bootstrap: str, topic: str) -> dict[str, int]:
    found = {}
    settings = {"group_id": topic, "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        consumer.subscribe([topic])

        def is_read() -> bool:
            for record in consumer.poll(0.5):
                found[record.key.decode()] = record.partition
            return len(found) == len(KEYS)

        eventually(is_read, 30)
    return found


def test_keys_go_to_the_partitions_that_javas_producer_chooses(
    bootstrap: str, new_name: NewName, tmp_path: Path
) -> None:
    ours, theirs = (create_topic(bootstrap, new_name("keys"), 7) for _ in range(2))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for key in KEYS:
            producer.send(ours, b"value", key.encode())
    parsed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    words = ("--bootstrap-server", bootstrap, "--topic", theirs, *parsed)
    lines = "".join(f"{key}:value\n" for key in KEYS)
    assert run_tool(JAVA_PRODUCER, *words, scratch=tmp_path, stdin=lines).returncode == 0

    places = places_of_keys(bootstrap, ours)
    assert places == places_of_keys(bootstrap, theirs)
    assert set(places.values()) == set(range(7))
