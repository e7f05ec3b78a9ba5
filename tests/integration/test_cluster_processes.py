"""Three brokers and a real ZooKeeper: created, killed, stopped, deleted, as an operator would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from tests.support.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.zookeeper import ZooKeeperProcess, zookeeper

SECONDS_MAX = 20
SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "controlled.shutdown.retry.backoff.ms": "100",
    "default.replication.factor": "3",
}


class ClusterOfThree:
    def __init__(self, directory: Path, server: ZooKeeperProcess) -> None:
        self.connect = f"{server.connect}/kafka"
        self.brokers = [
            BrokerProcess(
                directory / f"broker-{n}",
                overrides={**SETTINGS, "broker.id": str(n), "zookeeper.connect": self.connect},
            )
            for n in range(3)
        ]
        self.zookeeper = KazooClient(self.connect)

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
        """As soon as clients have found the controller, which may have changed just now."""

        def is_created() -> bool:
            admin = self.admin
            try:
                admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(SECONDS_MAX)
            except KafkaException as refused:
                assert refused.args[0].code() == KafkaError.NOT_CONTROLLER
                return False
            return True

        eventually(is_created)

    def write(self, topic: str, *values: str) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0}
        producer = Producer({**settings, "reconnect.backoff.max.ms": 100})
        faults: list[object] = []
        for value in values:
            producer.produce(topic, value, on_delivery=lambda fault, _: faults.append(fault))
        producer.flush(SECONDS_MAX)
        assert faults == [None] * len(values)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfThree]:
    directory = tmp_path_factory.mktemp("cluster")
    with zookeeper(directory / "zookeeper") as server:
        made = ClusterOfThree(directory, server)
        try:
            made.start()
            yield made
        finally:
            made.stop()


def test_a_cluster_serves_through_kills_shutdowns_and_forced_elections(
    cluster: ClusterOfThree,
) -> None:
    cluster.create("t", 3)
    assert cluster.node("/brokers/topics/t")["version"] == 3
    state = cluster.state("t")
    assert state.keys() == {"controller_epoch", "leader", "version", "leader_epoch", "isr"}
    assert sorted(state["isr"]) == [0, 1, 2]
    cluster.write("t", *"abc")

    # The leader is killed: another takes over, and nothing that was acknowledged is lost.
    leader = state["leader"]
    cluster.brokers[leader].kill()
    eventually(lambda: cluster.state("t")["leader"] != leader)
    assert leader not in cluster.state("t")["isr"]
    cluster.write("t", *"def")
    cluster.brokers[leader].start()
    eventually(lambda: sorted(cluster.state("t")["isr"]) == [0, 1, 2])

    # Deleting /controller forces an election.
    epoch = int(cluster.zookeeper.get("/controller_epoch")[0])
    cluster.zookeeper.delete("/controller")
    eventually(lambda: int(cluster.zookeeper.get("/controller_epoch")[0]) > epoch)
    eventually(lambda: cluster.zookeeper.exists("/controller") is not None)
    cluster.create("u")

    # A broker that stops in order has handed over before it is gone.
    stopping = cluster.state("t")["leader"]
    assert cluster.brokers[stopping].stop() == 0
    assert "Controlled shutdown succeeded" in cluster.brokers[stopping].log_text
    assert cluster.state("t")["leader"] not in (stopping, -1)
    cluster.write("t", *"ghi")
    cluster.brokers[stopping].start()
    cluster.until_live(0, 1, 2)

    admin = cluster.admin
    admin.delete_topics(["u"])["u"].result(SECONDS_MAX)
    eventually(lambda: cluster.zookeeper.exists("/brokers/topics/u") is None)
    assert cluster.zookeeper.get_children("/admin/delete_topics") == []


def test_a_broker_with_an_id_that_is_taken_does_not_start(
    cluster: ClusterOfThree, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "broker.id": "1", "zookeeper.connect": cluster.connect}
    second = BrokerProcess(tmp_path / "second", overrides=settings)
    second.spawn()
    assert second.wait() == 1
    assert "A broker is already registered on the path /brokers/ids/1" in second.log_text
