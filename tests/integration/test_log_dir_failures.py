"""A log directory that fails under one broker of a cluster, under the metadata of a lone broker,
and under a replica on its way there: the rest goes on, and nobody lives by half."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from tests.support.eventually import eventually
from tests.support.two_disks import TwoDisks

PARTITIONS = 4


class Member:
    """Two brokers on a ZooKeeper; the second has two log directories and leads everything."""

    def __init__(self, directory: Path, connect: str) -> None:
        shared = {"zookeeper.connect": connect, "offsets.topic.replication.factor": "1"}
        self.other = BrokerProcess(directory / "1", overrides={**shared, "broker.id": "1"})
        self.paths = [directory / "2" / "a", directory / "2" / "b"]
        dirs = ",".join(map(str, self.paths))
        own = {**shared, "broker.id": "2", "log.dirs": dirs}
        self.broker = BrokerProcess(directory / "2", overrides=own)
        for each in (self.other, self.broker):
            each.start()
        self.admin = AdminClient({"bootstrap.servers": self.other.bootstrap, "log_level": 0})
        eventually(lambda: len(self.admin.list_topics(timeout=30).brokers) == 2, 30)
        topic = NewTopic("t", PARTITIONS, replica_assignment=[[2, 1]] * PARTITIONS)
        self.admin.create_topics([topic])["t"].result(30)
        # The topic's makers are answered when the controller has decided; brokers hear of it then.
        eventually(lambda: sum(map(len, map(self.in_directory, self.paths))) == PARTITIONS, 30)
        self.written = 0

    def in_directory(self, path: Path) -> set[int]:
        return {int(each.name[2:]) for each in path.glob("t-*") if each.name[2:].isdigit()}

    def leaders(self) -> dict[int, int]:
        partitions = self.admin.list_topics("t", 30).topics["t"].partitions
        return {number: each.leader for number, each in partitions.items()}

    def in_sync(self) -> set[frozenset[int]]:
        partitions = self.admin.list_topics("t", 30).topics["t"].partitions
        return {frozenset(each.isrs) for each in partitions.values()}

    def produce(self) -> None:
        """One record to every partition, acknowledged by all in sync."""
        errors: list[KafkaError | None] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            errors.append(error)

        settings = {"bootstrap.servers": self.other.bootstrap, "log_level": 0, "acks": "all"}
        producer = Producer(settings)
        for partition in range(PARTITIONS):
            value = b"%d" % self.written
            producer.produce("t", value, partition=partition, on_delivery=answered)
        assert producer.flush(60) == 0
        assert errors == [None] * PARTITIONS
        self.written += 1

    def read(self, partition: int) -> list[int]:
        settings = {"bootstrap.servers": self.other.bootstrap, "group.id": "g", "log_level": 0}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("t", partition, 0)])
        numbers: list[int] = []
        while len(numbers) < self.written:
            message = consumer.poll(30)
            assert message is not None, f"only {numbers} of {self.written} came"
            if message.error() is None:
                numbers.append(int(message.value() or b""))
        consumer.close()
        return numbers

    def check_nothing_lost(self) -> None:
        for partition in range(PARTITIONS):
            assert self.read(partition) == list(range(self.written))


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    with zookeeper(tmp_path / "zk") as ensemble:
        found = Member(tmp_path, ensemble.connect)
        yield found
        found.broker.kill()
        found.other.kill()


@pytest.mark.parametrize("failing", [0, 1])
def test_in_a_cluster_others_lead_what_was_in_a_failed_directory(
    member: Member, failing: int
) -> None:
    bad, good = member.paths[failing], member.paths[1 - failing]
    lost, kept = member.in_directory(bad), member.in_directory(good)
    assert lost
    assert kept
    member.produce()
    assert set(member.leaders().values()) == {2}
    elsewhere = bad.with_name("elsewhere")
    bad.rename(elsewhere)
    wanted = {number: 1 if number in lost else 2 for number in range(PARTITIONS)}
    eventually(lambda: member.leaders() == wanted, 60)
    sentence = f"Log directory {bad} is offline: "
    eventually(lambda: member.broker.log_text.count(sentence) == 1)
    member.produce()
    member.check_nothing_lost()
    assert member.broker.is_running
    assert member.broker.stop() == 0
    elsewhere.rename(bad)
    member.broker.start()
    eventually(lambda: member.in_sync() == {frozenset({1, 2})}, 60)
    member.produce()
    member.check_nothing_lost()
    for broker in (member.broker, member.other):
        assert "Traceback" not in broker.log_text


def test_a_lone_broker_stops_with_a_sentence_when_its_metadata_are_gone(tmp_path: Path) -> None:
    two = TwoDisks(tmp_path)
    two.broker.start()
    first = Path(two.paths[0])
    assert (first / "moldau.metadata").exists()
    admin = AdminClient({"bootstrap.servers": two.broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    two.produce(10)
    first.rename(tmp_path / "elsewhere")
    assert two.broker.wait(60) == 1
    sentence = f"Shutdown broker because the log dir {first}, which has the metadata, has failed"
    eventually(lambda: two.broker.log_text.count(sentence) == 1)
    assert "Traceback" not in two.broker.log_text
    (tmp_path / "elsewhere").rename(first)
    two.broker.start()
    try:
        assert two.read() == list(range(10))
    finally:
        assert two.broker.stop() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give up its privileges")
def test_a_lone_broker_does_not_start_without_its_metadata(tmp_path: Path) -> None:
    two = TwoDisks(tmp_path)
    prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    two.broker = BrokerProcess(tmp_path, overrides=two.settings, prefix=prefix)
    two.broker.start()
    assert two.broker.stop() == 0
    first = Path(two.paths[0])
    first.chmod(0o000)
    try:
        two.broker.spawn()
        assert two.broker.wait(60) == 1
        eventually(lambda: f"Log directory {first} is offline: cannot use" in two.broker.log_text)
        eventually(lambda: "Fatal error during KafkaServer startup" in two.broker.log_text)
        assert "Traceback" not in two.broker.log_text
    finally:
        first.chmod(0o755)
    two.broker.start()
    assert two.broker.stop() == 0


def test_a_move_whose_target_fails_leaves_the_replica_where_it_is(tmp_path: Path) -> None:
    """The target is the second directory, so that the metadata stay."""
    two = TwoDisks(tmp_path)
    two.broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": two.broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        two.produce(3_000)
        home, target = two.paths
        if two.home() != home:
            assert two.move(home) is None
            eventually(lambda: (Path(home) / "t-0").is_dir(), 60)
            eventually(lambda: not (Path(target) / "t-0").is_dir(), 60)
        two.slow_down(1_000_000)
        assert two.move(target) is None
        eventually(lambda: any(name.endswith("-future") for name in os.listdir(target)), 30)
        Path(target).rename(tmp_path / "elsewhere")
        eventually(lambda: f"Log directory {target} is offline" in two.broker.log_text, 30)
        two.produce(100)
        assert two.read() == list(range(two.delivered))
        assert two.home() == home
        assert two.move(target) is not None, "the directory is offline"
        assert two.broker.stop() == 0
        assert "Traceback" not in two.broker.log_text
        (tmp_path / "elsewhere").rename(target)
        two.broker.start()
        assert two.read() == list(range(two.delivered))
    finally:
        two.broker.kill()
