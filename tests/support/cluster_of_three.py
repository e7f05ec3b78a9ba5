"""Three brokers on one ZooKeeper, each a process of its own, and what tests ask of them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import ZooKeeperProcess, zookeeper
from tests.support.eventually import eventually
from tests.support.patient_zookeeper import PatientZooKeeper

SECONDS_MAX = 20
READ_AGAIN_MAX = 1_000
NOT_YET = (KafkaError.NOT_CONTROLLER, KafkaError.INVALID_REPLICA_ASSIGNMENT)
"""Another broker is the controller, or has not yet seen a broker that has just started."""
SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "controlled.shutdown.retry.backoff.ms": "100",
    "default.replication.factor": "3",
}


class ClusterOfThree:
    def __init__(
        self, directory: Path, server: ZooKeeperProcess, settings: Mapping[str, str]
    ) -> None:
        self.connect = f"{server.connect}/kafka"
        self.brokers = [
            BrokerProcess(
                directory / f"broker-{n}",
                overrides={
                    **SETTINGS,
                    **settings,
                    "broker.id": str(n),
                    "zookeeper.connect": self.connect,
                },
            )
            for n in range(3)
        ]
        self.zookeeper = PatientZooKeeper(self.connect)

    def start(self) -> None:
        for broker in self.brokers:
            broker.spawn()
        for broker in self.brokers:
            broker.wait_until_it_answers()
        self.zookeeper.start()
        self.until_live(0, 1, 2)

    def stop(self) -> None:
        for broker in self.brokers:
            if broker.process is not None:
                broker.kill()
        self.zookeeper.stop()
        self.zookeeper.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def node(self, path: str) -> Any:
        return json.loads(self.zookeeper.get(path)[0])

    def until_live(self, *brokers: int) -> None:
        def all_are_known() -> bool:
            return set(self.admin.list_topics(timeout=SECONDS_MAX).brokers) == set(brokers)

        eventually(all_are_known)

    def state(self, topic: str, partition: int = 0) -> Any:
        return self.node(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def create(self, topic: str, partitions: int = 1) -> None:
        self._make(NewTopic(topic, partitions, 3))

    def _make(self, new: NewTopic) -> None:
        """As soon as clients have found the controller, which may have changed just now."""

        def is_created() -> bool:
            admin = self.admin
            try:
                admin.create_topics([new])[new.topic].result(SECONDS_MAX)
            except KafkaException as refused:
                assert refused.args[0].code() in NOT_YET
                return False
            return True

        eventually(is_created)

    def write(self, topic: str, *values: str, acks: str = "all") -> None:
        refused = self.refusals(topic, *values, acks=acks)
        assert refused == [], f"{refused} while the first partition is {self.state(topic)}"

    def refusals(
        self, topic: str, *values: str, acks: str = "all", timeout_s: float = SECONDS_MAX
    ) -> list[KafkaError]:
        """What the producer is told of the records that were not acknowledged."""
        settings = {"bootstrap.servers": self.bootstrap, "acks": acks, "log_level": 0}
        timing = {"reconnect.backoff.max.ms": 100, "message.timeout.ms": int(timeout_s * 1000)}
        producer = Producer({**settings, **timing})
        told: list[KafkaError | None] = []
        for value in values:
            producer.produce(topic, value, on_delivery=lambda fault, _: told.append(fault))
        producer.flush(timeout_s + 5)
        assert len(told) == len(values)
        return [fault for fault in told if fault is not None]

    def place(self, topic: str, *replicas: int, **settings: str) -> None:
        """One partition on those brokers, the first of which leads."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        new = NewTopic(topic, 1, replica_assignment=[list(replicas)], config=config)
        self._make(new)
        eventually(lambda: self.state(topic)["leader"] == replicas[0])

    def revive(self) -> None:
        """Whoever a test has ended comes back, and everybody knows."""
        for broker in self.brokers:
            if broker.process is None:
                broker.spawn()
            else:
                broker.process.send_signal(signal.SIGCONT)
        for broker in self.brokers:
            broker.wait_until_it_answers()
        self.until_live(0, 1, 2)

    def kill(self, *brokers: int) -> None:
        """At once, and until nobody counts on them any more."""
        for number in brokers:
            self.brokers[number].kill()
        eventually(
            lambda: not {*map(str, brokers)} & {*self.zookeeper.get_children("/brokers/ids")}
        )

    def log_bytes(self, broker: int, topic: str, partition: int = 0) -> bytes:
        folder = self.brokers[broker].data / f"{topic}-{partition}"
        for _ in range(READ_AGAIN_MAX):
            # A segment that is being replaced has no file for a moment.
            with suppress(FileNotFoundError):
                return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        raise AssertionError(f"the segments in {folder} never stay for as long as they are read")

    def values(self, topic: str) -> list[str]:
        """All that a reader is given now."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "log_level": 0}
        # Nobody may be there to commit to.
        silent = {"enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer({**settings, **silent})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found = []
        while True:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None, f"{topic} could not be read"
            fault = message.error()
            if fault is None:
                found.append((message.value() or b"").decode())
            elif fault.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return found


@contextmanager
def cluster_of_three(
    directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[ClusterOfThree]:
    with zookeeper(directory / "zookeeper") as server:
        made = ClusterOfThree(directory, server, settings or {})
        try:
            made.start()
            yield made
        finally:
            made.stop()
