"""What a cluster writes to ZooKeeper, beside what Apache Kafka 3.9.1 writes for the same commands.

Each kind runs the same commands on a ZooKeeper of its own; then the two trees have the same paths
and the same JSON in them. Times, ids that are drawn and ports are compared by their type.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kazoo.client import KazooClient

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.mixed_cluster import ELECT, SECONDS_MAX, TOPICS, Cluster, Kafka39Process, cluster

pytestmark = pytest.mark.compat

CONFIGS = "kafka.admin.ConfigCommand"
OWN_TO_EACH = {
    "timestamp", "port", "endpoints", "topic_id", "id",
    # Who is the controller and who takes a block of producer ids is chance.
    "brokerid", "broker", "block_start", "block_end",
    # What a broker knows beyond 3.9.
    "features",
}  # fmt: skip
OURS_ALONE = {"/config/groups", "/config/client-metrics"}
"""For settings that Apache Kafka has since 4.0, when it had left ZooKeeper."""
COUNTED_OTHERWISE = "/brokers/topics/kept/partitions/1/state"
"""Where replicas only leave, Apache Kafka moves the leader's epoch on twice, Moldau once."""
TWO_REPLICAS = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
}
NUMBERED = re.compile(r"(config_change_)\d{10}")


def played(directory: Path, kind: type[BrokerProcess]) -> dict[str, Any]:
    """The tree after a life of a cluster, and what ZooKeeper's own shell shows of it."""
    with cluster(directory, {0: kind, 1: kind}, TWO_REPLICAS) as made:
        made.create("kept", [[0, 1], [1, 0]], retention_ms="7200000")
        made.create("gone", [[1, 0]])
        made.tool(TOPICS, "--alter", "--topic", "kept", "--partitions", "3",
                  "--replica-assignment", "0:1,1:0,0:1")  # fmt: skip
        settle(made)
        for kind_of, name, config in [
            ("topics", "kept", "max.message.bytes=2000000"),
            ("brokers", "1", "log.cleaner.threads=2"),
        ]:
            of = ("--entity-type", kind_of, "--entity-name", name)
            made.tool(CONFIGS, "--alter", *of, "--add-config", config)
        made.tool(CONFIGS, "--alter", "--entity-type", "brokers", "--entity-default",
                  "--add-config", "log.retention.ms=86400000")  # fmt: skip
        made.move({"kept": {0: [1, 0], 1: [1]}})
        made.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
        made.until_led("kept", 0, 1)
        made.tool(TOPICS, "--delete", "--topic", "gone")
        eventually(lambda: made.tree.exists("/brokers/topics/gone") is None, SECONDS_MAX)
        eventually(lambda: made.tree.get_children("/admin/delete_topics") == [], SECONDS_MAX)
        return {"tree": tree_of(made.tree), "shell": shell(made)}


def settle(made: Cluster) -> None:
    """A group that has committed and a transaction that has ended: the internal topics are."""
    settings = {"bootstrap.servers": made.bootstrap, "log_level": 0}
    producer = Producer({**settings, "transactional.id": "p", "transaction.timeout.ms": 10_000})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce("kept", "value", partition=0)
    producer.commit_transaction(SECONDS_MAX)
    member = Consumer({**settings, "group.id": "g"})
    eventually(lambda: has_offsets(member), SECONDS_MAX)
    member.close()


def has_offsets(member: Consumer) -> bool:
    """The coordinator may be known before it knows of its office; this call asks once."""
    try:
        return bool(member.committed([TopicPartition("kept", 0)], SECONDS_MAX))
    except KafkaException as refused:
        assert refused.args[0].code() == KafkaError.NOT_COORDINATOR
        return False


def tree_of(tree: KazooClient, path: str = "/") -> dict[str, Any]:
    data, stat = tree.get(path)
    name = NUMBERED.sub(r"\1#", path)
    is_internal = "/__" in path
    found = {name: (described(data, is_internal), stat.ephemeralOwner != 0)}
    for child in tree.get_children(path):
        found.update(tree_of(tree, f"{path.rstrip('/')}/{child}"))
    return found


def described(data: bytes | None, is_internal: bool) -> Any:
    if data is None:
        return None
    try:
        fields = json.loads(data)
    except ValueError:
        return data.decode()
    if not isinstance(fields, dict):
        return type(fields).__name__
    return {
        key: type(value).__name__ if is_internal or key in OWN_TO_EACH else value
        for key, value in fields.items()
    }


def shell(made: Cluster) -> dict[str, str]:
    """The last line ZooKeeper's own command-line client prints for each of the seeds' commands."""
    said = {}
    for command in ("ls /brokers/ids", "ls /brokers/topics", "get /brokers/topics", "ls /"):
        words = ["-m", "moldau.main", "zookeeper-shell", made.connect, *command.split()]
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=SECONDS_MAX
        )
        assert done.returncode == 0, done.stderr
        # Its threads write over one another now and then: the first bracket may be elsewhere.
        said[command] = done.stdout.strip().splitlines()[-1].strip("[]")
    return said


def test_a_cluster_of_moldau_writes_the_znodes_that_apache_kafka_writes(tmp_path: Path) -> None:
    theirs = played(tmp_path / "apache", Kafka39Process)
    ours = played(tmp_path / "moldau", BrokerProcess)
    assert ours["tree"].keys() - OURS_ALONE == theirs["tree"].keys()
    for path, (fields, is_ephemeral) in theirs["tree"].items():
        own_fields, own_is_ephemeral = ours["tree"][path]
        if path == COUNTED_OTHERWISE:
            assert fields.pop("leader_epoch") >= own_fields.pop("leader_epoch")
        assert own_fields == fields, path
        assert own_is_ephemeral == is_ephemeral, path
        if isinstance(fields, dict):
            assert list(own_fields) == list(fields), path
    assert ours["shell"] == theirs["shell"]
    assert ours["shell"]["ls /brokers/ids"] == "0, 1"
