"""A broker with two log directories and a topic that wanders between them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from moldau.client.admin.admin_results import TopicPartitionReplica
from moldau.client.admin.blocking_admin import Admin
from moldau.client.shared.client_errors import KafkaError
from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually

RECORDS = 4000
VALUE_BYTES = 1000


class TwoDisks:
    def __init__(self, directory: Path) -> None:
        self.paths = [str(directory / "a"), str(directory / "b")]
        self.settings = {
            "log.dirs": ",".join(self.paths),
            "log.segment.bytes": "1048576",
            "offsets.topic.num.partitions": "1",
        }
        self.broker = BrokerProcess(directory, overrides=self.settings)
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

    def slow_down(self, bytes_per_second: int) -> None:
        """Moves from now on."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        rate = ConfigEntry(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            str(bytes_per_second),
            incremental_operation=AlterConfigOpType.SET,
        )
        broker = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[rate])
        admin.incremental_alter_configs([broker])[broker].result(30)

    def move(self, path: str) -> KafkaError | None:
        replica = TopicPartitionReplica("t", 0, 0)
        with Admin(bootstrap_servers=self.broker.bootstrap) as admin:
            return admin.alter_replica_log_dirs({replica: path}, raise_errors=False).outcomes[
                replica
            ]


def move_by_plan(disks: TwoDisks, scratch: Path, tool: Callable[..., str]) -> None:
    """`tool(*arguments)` is a reassign-partitions and returns what it printed."""
    target = disks.other()
    row = {"topic": "t", "partition": 0, "replicas": [0], "log_dirs": [target]}
    plan = scratch / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    asked = ["--bootstrap-server", disks.broker.bootstrap, "--reassignment-json-file", str(plan)]
    executed = tool(*asked, "--execute")
    started = f"Successfully started moving log directory to {target} for replica t-0 with broker 0"
    assert started in executed
    eventually(lambda: (Path(target) / "t-0").is_dir())
    verified = tool(*asked, "--verify")
    assert verified.splitlines()[:3] == [
        "Status of partition reassignment:",
        "Reassignment of partition t-0 is completed.",
        "Reassignment of replica t-0-0 completed successfully.",
    ]
    assert disks.read() == list(range(disks.delivered))


def cancel_by_plan(disks: TwoDisks, scratch: Path, tool: Callable[..., str]) -> None:
    """A copy that is under way is given up, and what was written meanwhile is there."""
    home, target = disks.home(), disks.other()
    row = {"topic": "t", "partition": 0, "replicas": [0], "log_dirs": [target]}
    plan = scratch / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    asked = ["--bootstrap-server", disks.broker.bootstrap, "--reassignment-json-file", str(plan)]
    disks.slow_down(1)
    tool(*asked, "--execute")
    disks.produce(50)
    cancelled = tool(*asked, "--cancel", "--preserve-throttles")
    assert cancelled.splitlines() == [
        "None of the specified partition reassignments are active.",
        f"Successfully started moving log directory to {home} for replica t-0 with broker 0 ",
    ]
    eventually(lambda: not any(name.endswith("-future") for name in os.listdir(target)))
    assert disks.home() == home
    again = tool(*asked, "--cancel")
    assert "None of the specified partition moves are active.Clearing broker-level" in again
    assert disks.read() == list(range(disks.delivered))
