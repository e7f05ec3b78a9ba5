"""Apache Kafka 3.9.1 in ZooKeeper mode and Moldau as brokers of one cluster.

Brokers 1 and 2 are Apache Kafka's, broker 3 is Moldau's. Which of them is the controller is decided
by holding the others still for the moment in which /controller is vacant.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic
from kazoo.client import KazooClient

from moldau.testing.broker_process import BrokerProcess, free_port
from moldau.testing.zookeeper_process import zookeeper
from tests.support.apache_kafka_39 import java39_command, run_tool_39
from tests.support.eventually import eventually

SECONDS_MAX = 60
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "200",
    "auto.leader.rebalance.enable": "false",
}
HEAP = ("-Xms256m", "-Xmx256m")
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


class Kafka39Process(BrokerProcess):
    """A broker of Apache Kafka 3.9.1, handled as Moldau's are."""

    start_seconds_max = 60.0

    def spawn(self) -> None:
        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        java, *rest = java39_command("kafka.Kafka", self.directory, "INFO")
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [java, *with_heap(rest), str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start(self) -> None:
        """Until it knows a controller: librdkafka asks once, and then waits for a request that
        creates topics to run out of time."""
        super().start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def knows_controller() -> bool:
            try:
                return bool(admin.list_topics(timeout=30).controller_id >= 0)
            except KafkaException:
                # A broker that has just begun may answer in part.
                return False

        eventually(knows_controller, SECONDS_MAX)


def with_heap(words: Sequence[str]) -> list[str]:
    return [*HEAP, *(word for word in words if not word.startswith("-Xmx"))]


class Cluster:
    """Brokers by id on one ZooKeeper, with the eyes and hands of an operator."""

    def __init__(
        self,
        directory: Path,
        address: str,
        kinds: Mapping[int, type[BrokerProcess]],
        settings: Mapping[str, str],
    ) -> None:
        self.directory = directory
        self.connect = f"{address}/kafka"
        self.tree = KazooClient(self.connect)
        self.brokers = {
            number: kind(
                directory / f"broker-{number}",
                port=free_port(),
                overrides={
                    **SETTINGS,
                    **settings,
                    "broker.id": str(number),
                    "zookeeper.connect": self.connect,
                },
            )
            for number, kind in kinds.items()
        }

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.spawn()
        for broker in self.brokers.values():
            broker.wait_until_it_answers()
        self.tree.start()
        self.until_known(*self.brokers)

    def stop(self) -> None:
        for broker in self.brokers.values():
            if broker.process is not None:
                broker.process.send_signal(signal.SIGCONT)
                broker.kill()
        self.tree.stop()
        self.tree.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def until_known(self, *brokers: int) -> None:
        def all_know() -> bool:
            return all(
                set(self.seen_by(number).brokers) == set(brokers)
                for number, broker in self.brokers.items()
                if broker.process is not None
            )

        eventually(all_know, SECONDS_MAX)

    def seen_by(self, number: int, topic: str | None = None) -> Any:
        """The cluster as that broker describes it: empty until the controller has told it."""
        admin = AdminClient({"bootstrap.servers": self.brokers[number].bootstrap, "log_level": 0})
        try:
            return admin.list_topics(topic, timeout=SECONDS_MAX)
        except KafkaException as nothing:
            assert nothing.args[0].code() == KafkaError._PARTIAL, nothing
            return ClusterMetadata()

    # The tree

    def node(self, path: str) -> Any:
        return json.loads(self.tree.get(path)[0])

    def state(self, topic: str, partition: int = 0) -> Any:
        return self.node(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def until_in_sync(self, topic: str, partition: int, *replicas: int) -> None:
        eventually(
            lambda: sorted(self.state(topic, partition)["isr"]) == sorted(replicas), SECONDS_MAX
        )

    def until_led(self, topic: str, partition: int, leader: int) -> None:
        """In the tree, and to the knowledge of every broker that runs."""

        def all_know() -> bool:
            running = [n for n, broker in self.brokers.items() if broker.process is not None]
            seen = [self.seen_by(n, topic).topics for n in running]
            return self.state(topic, partition)["leader"] == leader and all(
                topic in topics
                and partition in topics[topic].partitions
                and topics[topic].partitions[partition].leader == leader
                for topics in seen
            )

        eventually(all_know, SECONDS_MAX)

    def put_in_office(self, number: int) -> None:
        """Make that broker the controller."""
        others = [b.pid for n, b in self.brokers.items() if n != number and b.process is not None]
        if self.node("/controller")["brokerid"] != number:
            with stopped(others):
                self.tree.delete("/controller")
                eventually(self._has_controller)
        assert self.node("/controller")["brokerid"] == number
        eventually(
            lambda: all(
                self.seen_by(n).controller_id == number
                for n, broker in self.brokers.items()
                if broker.process is not None
            ),
            SECONDS_MAX,
        )

    def _has_controller(self) -> bool:
        return self.tree.exists("/controller") is not None

    # Work

    def create(self, topic: str, replicas: Sequence[Sequence[int]], **config: str) -> None:
        placed = [list(each) for each in replicas]
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(topic, len(placed), replica_assignment=placed, config=settings)
        admin = self.admin
        admin.create_topics([new])[topic].result(SECONDS_MAX)
        for partition, each in enumerate(placed):
            self.until_led(topic, partition, each[0])

    def tool(self, main_class: str, *words: str) -> str:
        """A tool of Apache Kafka 3.9.1 at this cluster; what it printed."""
        done = run_tool_39(
            main_class, "--bootstrap-server", self.bootstrap, *words, scratch=self.directory
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def move(self, assignment: Mapping[str, Mapping[int, Sequence[int]]], throttle: int = 0) -> str:
        """Reassign partitions and wait; what the tool said at the end."""
        partitions = [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for topic, rows in assignment.items()
            for partition, replicas in rows.items()
        ]
        file = self.directory / "reassignment.json"
        file.write_text(json.dumps({"version": 1, "partitions": partitions}))
        words = ("--reassignment-json-file", str(file))
        more = ("--throttle", str(throttle)) if throttle else ()
        self.tool(REASSIGN, *words, "--execute", *more)
        said = ""
        deadline = time.monotonic() + SECONDS_MAX
        while not said or "still in progress" in said:
            assert time.monotonic() < deadline, said
            said = self.tool(REASSIGN, *words, "--verify")
        return said

    # Files

    def log_bytes(self, number: int, topic: str, partition: int) -> bytes:
        """All batches of a replica, as they lie on that broker's disk."""
        folder = self.brokers[number].data / f"{topic}-{partition}"
        return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))

    def dump(self, number: int, topic: str, partition: int) -> list[str]:
        """A replica's batches and records as Apache Kafka's own tool reads them."""
        folder = self.brokers[number].data / f"{topic}-{partition}"
        files = ",".join(str(file) for file in sorted(folder.glob("*.log")))
        words = ("--files", files, "--deep-iteration", "--print-data-log")
        done = run_tool_39("kafka.tools.DumpLogSegments", *words, scratch=self.directory)
        assert done.returncode == 0, done.stderr
        return [line for line in done.stdout.splitlines() if not line.startswith("Dumping ")]

    def until_replicas_agree(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Every replica in sync, and every log the same to the byte: batches, offsets, epochs."""
        for partition, replicas in enumerate(assignment):
            self.until_in_sync(topic, partition, *replicas)

            def agree(partition: int = partition, replicas: Sequence[int] = replicas) -> bool:
                logs = {self.log_bytes(number, topic, partition) for number in replicas}
                return len(logs) == 1 and b"" not in logs

            eventually(agree, SECONDS_MAX)


@contextlib.contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """Those processes stand still for as long as this lasts."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def cluster(
    directory: Path,
    kinds: Mapping[int, type[BrokerProcess]],
    settings: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    with zookeeper(directory / "zookeeper") as server:
        made = Cluster(directory, server.connect, kinds, settings or {})
        try:
            made.start()
            yield made
        finally:
            made.stop()
