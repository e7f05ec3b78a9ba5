"""The lines that operators of Kafka search their logs for, each in the file it belongs to."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from moldau import Producer as OwnProducer
from moldau.testing import LocalCluster, cluster

SECONDS_MAX = 60


class Files:
    """The log files of two brokers."""

    def __init__(self, folder: Path, brokers: LocalCluster) -> None:
        self.folder = folder
        self.cluster = brokers

    def text(self, name: str) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.rglob(f"{name}*")))

    def find(self, name: str, pattern: str) -> None:
        """The line ends with its logger, and stands in no other file."""
        deadline = time.monotonic() + SECONDS_MAX
        while not re.search(pattern, self.text(name), re.MULTILINE):
            assert time.monotonic() < deadline, f"{pattern!r} is not in {name}:\n{self.text(name)}"
            time.sleep(0.05)
        for other in {path.name for path in self.folder.rglob("*.log")} - {name}:
            assert not re.search(pattern, self.text(other), re.MULTILINE), other

    def find_all(self, name: str, logger: str, *patterns: str) -> None:
        for pattern in patterns:
            self.find(name, rf"{pattern}.*\({re.escape(logger)}\)$")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    folder = tmp_path_factory.mktemp("lines")
    settings = {
        "kafka.logs.dir": str(folder / "logs"),
        "group.initial.rebalance.delay.ms": "0",
        "leader.imbalance.check.interval.seconds": "1",
        "group.min.session.timeout.ms": "100",
    }
    with cluster(settings, brokers=2, directory=folder) as running:
        yield Files(folder / "logs", running)


def test_the_controllers_lines_stand_in_controller_log(files: Files) -> None:
    files.cluster.create_topic("T-XXX", partitions=2)
    files.find_all(
        "controller.log",
        "kafka.controller.KafkaController",
        r"INFO \[Controller id=\d\] New topics: \[Set\(T-XXX\)\], deleted topics: \[Set\(\)\], "
        r"new partition replica assignment \[Map\(T-XXX-0 -> Vector\(\d, \d\), "
        r"T-XXX-1 -> Vector\(\d, \d\)\)\]",
        r"INFO \[Controller id=\d\] New partition creation callback for T-XXX-0,T-XXX-1",
        r"DEBUG \[Controller id=\d\] Broker \d has been elected as the controller, so stopping the "
        r"election process\.",
        r"DEBUG \[Controller id=\d\] Preferred replicas by broker Map\(0 -> Map\(",
        r"INFO \[Controller id=\d\] Leader imbalance ratio for broker \d is 0\.0",
    )
    files.find_all(
        "state-change.log",
        "state.change.logger",
        r"INFO \[Controller id=\d epoch=\d\] Changed partition T-XXX-1 state from "
        r"NonExistentPartition to NewPartition with assigned replicas \d,\d",
        r"INFO \[Controller id=\d epoch=\d\] Changed partition T-XXX-1 from NewPartition to "
        r"OnlinePartition with state LeaderAndIsr\(leader=\d",
    )


def test_the_group_coordinators_lines_stand_in_server_log(files: Files) -> None:
    bootstrap = {"bootstrap.servers": files.cluster.bootstrap}
    consumer = Consumer(
        {**bootstrap, "group.id": "G-SZL", "session.timeout.ms": 6000, "client.id": "consumer-1"}
    )
    consumer.subscribe(["T-XXX"])
    deadline = time.monotonic() + SECONDS_MAX
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.2)
    place = r"\(__consumer_offsets-\d+\)"
    files.find_all(
        "server.log",
        "kafka.coordinator.group.GroupCoordinator",
        r"INFO \[GroupCoordinator \d\]: Preparing to rebalance group G-SZL in state "
        rf"PreparingRebalance with old generation 0 {place} \(reason: Adding new member "
        r"consumer-1-",
        rf"INFO \[GroupCoordinator \d\]: Stabilized group G-SZL generation 1 {place}",
        r"INFO \[GroupCoordinator \d\]: Assignment received from leader .*for group G-SZL for "
        r"generation 1",
    )
    consumer.close()
    files.find_all(
        "server.log",
        "kafka.coordinator.group.GroupCoordinator",
        rf"INFO \[GroupCoordinator \d\]: Group G-SZL with generation 2 is now empty {place}",
    )


def test_the_lines_of_a_consumer_that_dies_and_of_a_group_that_goes(files: Files) -> None:
    command = [sys.executable, "-m", "moldau.main", "console-consumer", "--topic", "T-XXX"]
    command += ["--bootstrap-server", files.cluster.bootstrap, "--group", "G-DEAD"]
    for each in ("session.timeout.ms=600", "heartbeat.interval.ms=100", "client.id=consumer-9"):
        command += ["--consumer-property", each]
    consumer = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    files.find("server.log", r"Stabilized group G-DEAD generation 1")
    consumer.kill()
    consumer.wait()
    files.find_all(
        "server.log",
        "kafka.coordinator.group.GroupCoordinator",
        r"INFO \[GroupCoordinator \d\]: Member consumer-9-.* in group G-DEAD has failed, "
        r"removing it from the group",
        r"INFO \[GroupCoordinator \d\]: Preparing to rebalance group G-DEAD .*\(reason: removing "
        r"member consumer-9-.* on heartbeat expiration\)",
    )
    with files.cluster.admin() as admin:
        admin.delete_groups(["G-DEAD"]).check()
    files.find_all(
        "server.log",
        "kafka.coordinator.group.GroupMetadataManager",
        r"INFO \[GroupMetadataManager brokerId=\d\] Group G-DEAD transitioned to Dead in "
        r"generation \d",
    )


def test_the_transaction_coordinators_line_and_the_clients(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "moldau")
    with OwnProducer(
        bootstrap_servers=files.cluster.bootstrap, transactional_id="TID-0"
    ) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("T-XXX", b"x")
    files.find_all(
        "server.log",
        "kafka.coordinator.transaction.TransactionCoordinator",
        r"INFO \[TransactionCoordinator id=\d\] Initialized transactionalId TID-0 with producerId "
        r"\d+ and producer epoch 0 on partition __transaction_state-\d+",
    )
    said = [record.getMessage() for record in caplog.records]
    assert any(line.endswith("ProducerId set to -1 with epoch -1") for line in said), said
    assert any(re.search(r"ProducerId set to \d+ with epoch 0$", line) for line in said), said
    assert any(re.search(r"Cluster ID: [\w-]{22}$", line) for line in said), said


def test_the_lines_of_a_broker_that_goes_and_comes_back(files: Files) -> None:
    producer = Producer({"bootstrap.servers": files.cluster.bootstrap})
    producer.produce("T-XXX", b"x")
    assert producer.flush(SECONDS_MAX) == 0
    files.cluster.brokers[1].stop()
    files.find_all(
        "server.log",
        "org.apache.kafka.common.utils.LoggingSignalHandler",
        r"INFO Terminating process due to signal SIGTERM",
    )
    files.find_all(
        "server.log",
        "kafka.server.KafkaServer",
        r"INFO \[KafkaServer id=1\] shutting down",
        r"INFO \[KafkaServer id=1\] Starting controlled shutdown",
    )
    files.find_all(
        "server.log",
        "kafka.server.ReplicaFetcherManager",
        r"INFO \[ReplicaFetcherManager on broker 1\] Removed fetcher for partitions Set\(",
    )
    files.cluster.brokers[1].start()
    files.find_all(
        "controller.log",
        "kafka.controller.KafkaController",
        r"INFO \[Controller id=\d\] Partition T-XXX-\d completed preferred replica leader "
        r"election\. New leader is \d",
    )
