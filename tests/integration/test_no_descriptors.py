"""A broker that runs out of file descriptors while topics are made: it goes on, and every topic is
served once there are descriptors again, without a restart."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from tests.support.eventually import eventually


def allow_no_more_files(pid: int) -> tuple[int, int]:
    """What is open stays open; nothing else can be. The limits as they were."""
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    free = next(number for number in range(len(taken) + 1) if number not in taken)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, before[1]))
    return before


def produce(producer: Producer, topic: str) -> list[KafkaError | None]:
    answers: list[KafkaError | None] = []

    def answered(error: KafkaError | None, message: Message) -> None:
        answers.append(error)

    try:
        producer.produce(topic, b"x", partition=0, on_delivery=answered)
    except KafkaException as unknown:
        return [unknown.args[0]]
    producer.flush(30)
    return answers


def leader_of(admin: AdminClient, topic: str) -> int:
    partitions = admin.list_topics(topic, 30).topics[topic].partitions
    return partitions[0].leader if partitions else -1


def test_topics_made_without_descriptors_are_served_once_there_are_some(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        settings = {"bootstrap.servers": broker.bootstrap}
        admin, producer = AdminClient(settings), Producer({**settings, "message.timeout.ms": 5_000})
        admin.create_topics([NewTopic("before", 1, 1)])["before"].result(30)
        assert produce(producer, "before") == [None]
        before = allow_no_more_files(broker.pid)
        try:
            made = admin.create_topics([NewTopic(name, 2, 1) for name in ("a", "b")])
            outcomes = {name: future.exception(30) for name, future in made.items()}
            assert produce(producer, "before") == [None], "others are served meanwhile"
        finally:
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, before)
        assert outcomes == {"a": None, "b": None}
        eventually(lambda: "Too many open files" in broker.log_text)
        for name in ("a", "b"):
            eventually(lambda name=name: produce(producer, name) == [None], seconds_max=60)
        assert "Traceback" not in broker.log_text
    finally:
        broker.kill()


def test_a_broker_of_a_cluster_without_descriptors_takes_its_roles_once_there_are_some(
    tmp_path: Path,
) -> None:
    """Without a restart, and without any other change that would give it a role again."""
    with zookeeper(tmp_path / "zk") as ensemble:
        shared = {"zookeeper.connect": ensemble.connect, "offsets.topic.replication.factor": "1"}
        brokers = [
            BrokerProcess(tmp_path / str(number), overrides={**shared, "broker.id": str(number)})
            for number in (1, 2)
        ]
        controller, short = brokers
        try:
            for broker in brokers:
                broker.start()
            settings = {"bootstrap.servers": controller.bootstrap}
            admin = AdminClient(settings)
            producer = Producer({**settings, "message.timeout.ms": 5_000})
            eventually(lambda: len(admin.list_topics(timeout=30).brokers) == 2, 30)
            before = NewTopic("before", 1, replica_assignment=[[2]])
            admin.create_topics([before])["before"].result(30)
            assert produce(producer, "before") == [None]
            # What it has answered once it can answer later, too: code is read from files.
            AdminClient({"bootstrap.servers": short.bootstrap}).list_topics(timeout=30)
            limits = allow_no_more_files(short.pid)
            try:
                topics = [
                    NewTopic("alone", 1, replica_assignment=[[2]]),
                    NewTopic("shared", 1, replica_assignment=[[2, 1]]),
                ]
                made = admin.create_topics(topics)
                assert [future.exception(30) for future in made.values()] == [None, None]
                eventually(lambda: "Too many open files" in short.log_text, 30)
                assert produce(producer, "before") == [None], "others are served meanwhile"
                eventually(lambda: leader_of(admin, "shared") == 1, 60)
                assert produce(producer, "shared") == [None]
            finally:
                resource.prlimit(short.pid, resource.RLIMIT_NOFILE, limits)
            eventually(lambda: leader_of(admin, "alone") == 2, 60)
            assert produce(producer, "alone") == [None]

            def in_sync() -> set[int]:
                return set(admin.list_topics("shared", 30).topics["shared"].partitions[0].isrs)

            eventually(lambda: in_sync() == {1, 2}, 60)
            # The other one cannot load the code of a request that nobody has sent before, and says
            # so with a trace: it closes that connection and serves the next.
            assert "Traceback" not in controller.log_text
        finally:
            for broker in brokers:
                broker.kill()
