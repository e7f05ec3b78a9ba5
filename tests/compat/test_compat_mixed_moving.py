"""Groups and transactions in a mixed cluster, and the way from Apache Kafka to Moldau under load.

A producer with acks=all and idempotence writes and a group reads while every partition, those of
the internal topics too, is reassigned and the brokers that held them stop. Afterwards the log holds
each acknowledged record once and in order, and the group has seen each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.mixed_cluster import ELECT, SECONDS_MAX, Cluster, Kafka39Process, cluster

pytestmark = pytest.mark.compat

APACHE, APACHE_2, MOLDAU = 1, 2, 3
KINDS = {APACHE: Kafka39Process, APACHE_2: Kafka39Process, MOLDAU: BrokerProcess}
PARTITIONS = 3
INTERNAL = ("__consumer_offsets", "__transaction_state")
INTERNAL_PARTITIONS = 4
TRANSACTION_MS_MAX = 10_000


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, KINDS) as made:
        yield made


class SteadyProducer(threading.Thread):
    """Writes numbers by partition until it is told to stop; `acknowledged` are the ones kept."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._topic = topic
        self._ends = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "delivery.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self.acknowledged: list[list[str]] = [[] for _ in range(PARTITIONS)]
        self.faults: list[object] = []

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged))

    def run(self) -> None:
        number = 0
        while not self._ends.wait(0.02):
            for partition in range(PARTITIONS):
                for _ in range(5):
                    self._producer.produce(
                        self._topic, str(number), partition=partition, on_delivery=self._told
                    )
                    number += 1
            self._producer.poll(0)
        self._producer.flush(SECONDS_MAX)

    def _told(self, fault: object, message: Message) -> None:
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        if fault is None:
            self.acknowledged[partition].append(value.decode())
        else:
            self.faults.append(fault)

    def end(self) -> None:
        self._ends.set()
        self.join(SECONDS_MAX)


class SteadyMember(threading.Thread):
    """Reads as a member of a group and commits what it has read; `seen` are the values."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__()
        self._topic = topic
        self._ends = threading.Event()
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "cooperative-sticky",
            "log_level": 0,
        }
        self.seen: list[list[str]] = [[] for _ in range(PARTITIONS)]

    def run(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        while not self._ends.is_set():
            batch = consumer.consume(100, 0.1)
            for message in batch:
                if message.error() is None:
                    value, partition = message.value(), message.partition()
                    assert value is not None
                    assert partition is not None
                    self.seen[partition].append(value.decode())
            if batch:
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException:
                    # The next commit stands for this one as well.
                    continue
        consumer.close()

    def end(self) -> None:
        self._ends.set()
        self.join(SECONDS_MAX)


def everything(bootstrap: str, topic: str) -> list[list[str]]:
    """What the log holds, by partition, up to its end."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "all", "log_level": 0}
    reader = Consumer({**settings, "enable.auto.commit": False})
    values: list[list[str]] = [[] for _ in range(PARTITIONS)]
    for partition in range(PARTITIONS):
        place = TopicPartition(topic, partition, 0)
        end = reader.get_watermark_offsets(place, SECONDS_MAX)[1]
        reader.assign([place])
        while len(values[partition]) < end:
            message = reader.poll(SECONDS_MAX)
            assert message is not None, f"{len(values[partition])} of {end} records came"
            value = message.value()
            assert message.error() is None
            assert value is not None
            values[partition].append(value.decode())
    reader.close()
    return values


def transaction(mixed: Cluster, name: str, topic: str, values: Sequence[str], keep: bool) -> None:
    settings = {"bootstrap.servers": mixed.bootstrap, "log_level": 0}
    producer = Producer(
        {**settings, "transactional.id": name, "transaction.timeout.ms": TRANSACTION_MS_MAX}
    )
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    producer.flush(SECONDS_MAX)
    if keep:
        producer.commit_transaction(SECONDS_MAX)
    else:
        producer.abort_transaction(SECONDS_MAX)


def committed(mixed: Cluster, group: str, topic: str, offset: int | None = None) -> list[int]:
    """The offsets a group has committed, after committing this one if one is given."""
    settings = {"bootstrap.servers": mixed.bootstrap, "group.id": group, "log_level": 0}
    member = Consumer({**settings, "enable.auto.commit": False})
    if offset is not None:
        places = [TopicPartition(topic, n, offset) for n in range(PARTITIONS)]
        eventually(lambda: is_committed(member, places), SECONDS_MAX)
    places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    found = [place.offset for place in member.committed(places, SECONDS_MAX)]
    member.close()
    return found


def is_committed(member: Consumer, places: list[TopicPartition]) -> bool:
    try:
        member.commit(offsets=places, asynchronous=False)
    except KafkaException:
        return False
    return True


def move_internal(mixed: Cluster, *replicas: int) -> None:
    rows = {partition: list(replicas) for partition in range(INTERNAL_PARTITIONS)}
    mixed.move(dict.fromkeys(INTERNAL, rows))
    # A leader that stays among the replicas stays the leader until the first is preferred.
    mixed.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    for topic in INTERNAL:
        for partition in range(INTERNAL_PARTITIONS):
            mixed.until_led(topic, partition, replicas[0])


def values_of(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


@pytest.mark.parametrize(
    "controller", [pytest.param(APACHE, id="apache"), pytest.param(MOLDAU, id="moldau")]
)
def test_groups_and_transactions_follow_their_coordinators_between_the_kinds(
    mixed: Cluster, controller: int
) -> None:
    mixed.put_in_office(controller)
    everywhere = [
        [APACHE, APACHE_2, MOLDAU],
        [MOLDAU, APACHE, APACHE_2],
        [APACHE_2, MOLDAU, APACHE],
    ]
    mixed.create("t", everywhere)
    written: list[str] = []
    # Each kind takes over what the other has written to the internal topics.
    transaction(mixed, "first", "t", ["none"], keep=True)
    written.append("none")
    committed(mixed, "g", "t", 0)
    for turn, order in enumerate([(APACHE, MOLDAU), (MOLDAU, APACHE_2), (APACHE_2, MOLDAU)]):
        move_internal(mixed, *order)
        assert committed(mixed, "g", "t") == [turn] * PARTITIONS
        assert committed(mixed, "g", "t", turn + 1) == [turn + 1] * PARTITIONS
        kept = values_of(range(turn * 100, turn * 100 + 30))
        transaction(mixed, "mover", "t", kept, keep=True)
        transaction(mixed, "mover", "t", ["aborted"] * 9, keep=False)
        written += kept
    mixed.until_replicas_agree("t", everywhere)
    reader = SteadyMember(mixed.bootstrap, "t", "readers")
    reader.start()
    try:
        eventually(lambda: sum(map(len, reader.seen)) >= len(written), SECONDS_MAX)
    finally:
        reader.end()
    assert sorted(value for values in reader.seen for value in values) == sorted(written)


@pytest.mark.parametrize(
    ("sources", "target", "controller"),
    [
        pytest.param([APACHE, APACHE_2], MOLDAU, APACHE, id="to-moldau-by-apache"),
        pytest.param([APACHE, APACHE_2], MOLDAU, MOLDAU, id="to-moldau-by-moldau"),
        pytest.param([MOLDAU], APACHE, MOLDAU, id="back-to-apache"),
    ],
)
def test_all_partitions_move_under_load_and_nothing_is_lost_or_doubled(
    mixed: Cluster, sources: list[int], target: int, controller: int
) -> None:
    mixed.put_in_office(controller)
    mixed.create("t", [sources] * PARTITIONS)
    transaction(mixed, "before", "u", ["x"], keep=True)
    producer = SteadyProducer(mixed.bootstrap, "t")
    members = [SteadyMember(mixed.bootstrap, "t", "readers") for _ in range(2)]
    threads = [producer, *members]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: sum(len(v) for m in members for v in m.seen) > 1000, SECONDS_MAX)
        move_internal(mixed, *sources)
        # First the new broker beside the old ones, then alone.
        rows = {partition: [target, *sources] for partition in range(PARTITIONS)}
        mixed.move({"t": rows}, throttle=50_000_000)
        before = producer.count
        eventually(lambda: producer.count > before + 500, SECONDS_MAX)
        mixed.move({"t": {partition: [target] for partition in range(PARTITIONS)}})
        move_internal(mixed, target)
        others = mixed.admin.list_topics(timeout=SECONDS_MAX).topics.keys() - {"t", *INTERNAL}
        mixed.move({topic: {0: [target]} for topic in others})
        for number in [n for n in KINDS if n != target]:
            assert mixed.brokers[number].stop() in (0, 143)
        before = producer.count
        eventually(lambda: producer.count > before + 1000, SECONDS_MAX)
        producer.end()
        eventually(
            lambda: len({v for m in members for p in m.seen for v in p}) >= producer.count,
            SECONDS_MAX,
        )
    finally:
        for thread in threads:
            thread.end()
    assert producer.faults == []
    assert mixed.node("/controller")["brokerid"] == target
    assert everything(mixed.brokers[target].bootstrap, "t") == producer.acknowledged
    seen = [value for member in members for values in member.seen for value in values]
    assert set(seen) == {value for values in producer.acknowledged for value in values}
    assert len(seen) == len(set(seen))
