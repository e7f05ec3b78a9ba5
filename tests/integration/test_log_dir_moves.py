"""A replica moves to another log directory of its broker while clients write and read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.client.admin import Admin
from moldau.client.admin_results import TopicPartitionReplica
from moldau.client.errors import KafkaError, LogDirNotFoundError
from tests.support.apache_kafka import run_tool
from tests.support.broker_process import BrokerProcess
from tests.support.eventually import eventually

RECORDS = 4000
VALUE_BYTES = 1000
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


class TwoDisks:
    def __init__(self, directory: Path) -> None:
        self.paths = [str(directory / "a"), str(directory / "b")]
        settings = {"log.dirs": ",".join(self.paths), "log.segment.bytes": "1048576"}
        self.broker = BrokerProcess(directory, overrides=settings)
        self.delivered = 0

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        for number in range(self.delivered, self.delivered + count):
            producer.produce("t", b"%d " % number + b"x" * VALUE_BYTES, on_delivery=self.count)
        assert producer.flush(30) == 0

    def count(self, error: object, _message: object) -> None:
        assert error is None, error
        self.delivered += 1

    def read(self) -> list[int]:
        settings = {"bootstrap.servers": self.broker.bootstrap, "group.id": "-", "log_level": 0}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("t", 0, 0)])
        numbers: list[int] = []
        try:
            while len(numbers) < self.delivered:
                messages = consumer.consume(min(1000, self.delivered - len(numbers)), timeout=20)
                assert messages, f"only {len(numbers)} of {self.delivered} records came"
                numbers += [int((message.value() or b"").split()[0]) for message in messages]
        finally:
            consumer.close()
        return numbers

    def home(self) -> str:
        """The directory that the topic's log is in; a copy on its way does not count."""
        (found,) = (path for path in self.paths if (Path(path) / "t-0").is_dir())
        return found

    def other(self) -> str:
        return self.paths[1 - self.paths.index(self.home())]

    def move(self, path: str) -> KafkaError | None:
        replica = TopicPartitionReplica("t", 0, 0)
        with Admin(bootstrap_servers=self.broker.bootstrap) as admin:
            return admin.alter_replica_log_dirs({replica: path})[replica]


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[TwoDisks]:
    two = TwoDisks(tmp_path)
    two.broker.start()
    try:
        two.produce(RECORDS)
        yield two
    finally:
        two.broker.stop()


def test_records_written_while_a_replica_moves_are_all_there_and_survive_a_kill(
    disks: TwoDisks,
) -> None:
    source, target = disks.home(), disks.other()
    assert disks.move(target) is None
    while not (Path(target) / "t-0").is_dir():
        disks.produce(200)
    assert disks.home() == target
    disks.produce(200)
    assert disks.read() == list(range(disks.delivered))
    assert [name for name in os.listdir(target) if name.endswith("-future")] == []
    assert any(name.endswith("-delete") for name in os.listdir(source))
    disks.broker.kill()
    disks.broker.start()
    disks.produce(10)
    assert disks.home() == target
    assert disks.read() == list(range(disks.delivered))


def tool_of_apache_kafka(*arguments: str, scratch: Path) -> str:
    ran = run_tool(REASSIGN, *arguments, scratch=scratch)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def tool_of_moldau(*arguments: str, scratch: Path) -> str:
    command = [sys.executable, "-m", "moldau.main", "reassign-partitions", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    "tool", [pytest.param(tool_of_apache_kafka, marks=pytest.mark.compat), tool_of_moldau]
)
def test_the_reassignment_tool_moves_a_replica_between_directories(
    tool: Callable[..., str], disks: TwoDisks, tmp_path: Path
) -> None:
    target = disks.other()
    row = {"topic": "t", "partition": 0, "replicas": [0], "log_dirs": [target]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    asked = ["--bootstrap-server", disks.broker.bootstrap, "--reassignment-json-file", str(plan)]
    executed = tool(*asked, "--execute", scratch=tmp_path / "tool")
    started = f"Successfully started moving log directory to {target} for replica t-0 with broker 0"
    assert started in executed
    eventually(lambda: (Path(target) / "t-0").is_dir())
    verified = tool(*asked, "--verify", scratch=tmp_path / "tool")
    assert verified.splitlines()[:3] == [
        "Status of partition reassignment:",
        "Reassignment of partition t-0 is completed.",
        "Reassignment of replica t-0-0 completed successfully.",
    ]
    assert disks.read() == list(range(disks.delivered))


def test_moves_that_cannot_be_are_refused_as_by_apache_kafka(disks: TwoDisks) -> None:
    assert isinstance(disks.move("/nowhere"), LogDirNotFoundError)
    assert disks.move(disks.home()) is None
