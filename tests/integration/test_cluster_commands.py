"""A person at the shell of a cluster: the scripts of bin/, in the order in which guides show them.

Three brokers on one machine, a replicated topic, a leader that is killed, partitions that move, and
ZooKeeper's own shell, which shows the nodes that Kafka's brokers would have made.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from tests.support.cluster_of_three import ClusterOfThree
from tests.support.eventually import eventually

BIN = Path(__file__).parents[2] / "bin"
TOPIC = "my-replicated-topic"


def script(name: str, *words: str, given: str | None = None, code: int = 0) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(BIN / name), *words],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PATH": path, "MAKELEVEL": ""},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def shell(cluster: ClusterOfThree, *commands: str) -> list[str]:
    """What ZooKeeper's shell prints for each of the commands, in one session."""
    given = "".join(f"{command}\n" for command in (*commands, "quit"))
    told = script("zkCli.sh", "-server", cluster.connect, given=given)
    answers = re.findall(r"^\[zk: \S+\(CONNECTED\) \d+\] (.*)$", told, re.MULTILINE)
    assert len(answers) >= len(commands), told
    return answers[: len(commands)]


def described(cluster: ClusterOfThree) -> dict[str, Any]:
    told = script("kafka-topics.sh", "--describe", "--bootstrap-server", cluster.bootstrap)
    row = re.search(
        rf"Topic: {TOPIC}\s+Partition: 0\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)", told
    )
    assert row is not None, told
    return {
        "leader": row[1],
        "replicas": [int(each) for each in row[2].split(",")],
        "isr": {int(each) for each in row[3].split(",")},
    }


def test_a_replicated_topic_outlives_its_leader(cluster: ClusterOfThree) -> None:
    words = ["--replication-factor", "3", "--partitions", "1", "--topic", TOPIC]
    created = script("kafka-topics.sh", "--create", "--bootstrap-server", cluster.bootstrap, *words)
    assert f"Created topic {TOPIC}." in created
    before = described(cluster)
    assert before["isr"] == {0, 1, 2}
    assert int(before["leader"]) == before["replicas"][0]
    script("kafka-console-producer.sh", "--broker-list", cluster.bootstrap, "--topic", TOPIC,
           given="my test message 1\nmy test message 2\n")  # fmt: skip
    words = ["--from-beginning", "--topic", TOPIC, "--max-messages", "2"]
    # The group's own topic needs three brokers, too, when it is made.
    read = script("kafka-console-consumer.sh", "--bootstrap-server", cluster.bootstrap, *words)
    assert read.splitlines() == ["my test message 1", "my test message 2"]

    leader = int(before["leader"])
    cluster.kill(leader)
    eventually(lambda: cluster.state(TOPIC)["leader"] not in (leader, -1))
    others = ",".join(b.bootstrap for n, b in enumerate(cluster.brokers) if n != leader)
    told = script("kafka-topics.sh", "--describe", "--bootstrap-server", others, "--topic", TOPIC)
    assert f"Leader: {cluster.state(TOPIC)['leader']}" in told
    read = script("kafka-console-consumer.sh", "--bootstrap-server", others, *words)
    assert read.splitlines() == ["my test message 1", "my test message 2"]
    cluster.revive()
    eventually(lambda: len(cluster.state(TOPIC)["isr"]) == 3)


def test_the_old_way_to_name_a_cluster_by_its_zookeeper_works(cluster: ClusterOfThree) -> None:
    words = ["--replication-factor", "1", "--partitions", "1", "--topic", "mytopic"]
    script("kafka-topics.sh", "--create", "--zookeeper", cluster.connect, *words)
    listed = script("kafka-topics.sh", "--list", "--zookeeper", cluster.connect)
    assert "mytopic" in listed.splitlines()


def test_the_nodes_are_those_that_guides_show_in_the_shell_of_zookeeper(
    cluster: ClusterOfThree,
) -> None:
    ids, topics, first, holder, epoch, topic, state, config = shell(
        cluster,
        "ls /brokers/ids",
        "ls /brokers/topics",
        "get /brokers/ids/0",
        "get /controller",
        "get /controller_epoch",
        f"get /brokers/topics/{TOPIC}",
        f"get /brokers/topics/{TOPIC}/partitions/0/state",
        f"get /config/topics/{TOPIC}",
    )
    assert ids == "[0, 1, 2]"
    assert TOPIC in topics
    broker = json.loads(first)
    assert broker["endpoints"] == [f"PLAINTEXT://{cluster.brokers[0].bootstrap}"]
    assert (broker["port"], broker["version"]) == (cluster.brokers[0].port, 5)
    assert json.loads(holder).keys() == {"version", "brokerid", "timestamp", "kraftControllerEpoch"}
    assert int(epoch) >= 1
    assert sorted(json.loads(topic)["partitions"]["0"]) == [0, 1, 2]
    assert sorted(json.loads(state)["isr"]) == [0, 1, 2]
    assert json.loads(config) == {"version": 1, "config": {}}
    # Whoever deletes /controller makes the brokers elect another, or the same one again.
    script("zookeeper-shell.sh", cluster.connect, "delete", "/controller")
    eventually(lambda: int(cluster.zookeeper.get("/controller_epoch")[0]) > int(epoch))


def test_partitions_move_by_a_plan_that_the_tool_proposes(
    cluster: ClusterOfThree, tmp_path: Path
) -> None:
    tool = "kafka-reassign-partitions.sh"
    at = ["--bootstrap-server", cluster.bootstrap]
    wanted = tmp_path / "topics to move.json"
    wanted.write_text(json.dumps({"topics": [{"topic": TOPIC}], "version": 1}))
    words = ["--topics-to-move-json-file", str(wanted), "--broker-list", "0,1,2", "--generate"]
    proposed = script(tool, *at, *words)
    assert "Current partition replica assignment" in proposed
    lines = [line for line in proposed.splitlines() if line.startswith("{")]
    replicas = json.loads(lines[0])["partitions"][0]["replicas"]
    plan = tmp_path / "reassignment configuration.json"
    row = {"topic": TOPIC, "partition": 0, "replicas": [*replicas[1:], replicas[0]]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    told = script(tool, *at, "--reassignment-json-file", str(plan), "--execute",
                  "--throttle", "10000000")  # fmt: skip
    assert "Successfully started partition reassignment" in told
    done = f"Reassignment of partition {TOPIC}-0 is completed."
    verify = [*at, "--reassignment-json-file", str(plan), "--verify"]
    eventually(lambda: done in script(tool, *verify))
    assert cluster.node(f"/brokers/topics/{TOPIC}")["partitions"]["0"] == row["replicas"]

    preferred = row["replicas"][0]
    words = ["--election-type", "preferred", "--topic", TOPIC, "--partition", "0"]
    script("kafka-leader-election.sh", *at, *words)
    eventually(lambda: cluster.state(TOPIC)["leader"] == preferred)
    # With everybody where they belong there is nothing to do, and that is said.
    script("kafka-preferred-replica-election.sh", *at)


def test_the_doctor_says_why_it_cannot_look_at_clocks(cluster: ClusterOfThree) -> None:
    command = (sys.executable, "-m", "moldau.main", "doctor", "--json")
    asked = [*command, "--bootstrap-server", cluster.bootstrap]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    (unchecked,) = json.loads(done.stdout)["unchecked"]
    assert unchecked.startswith("clocks, because brokers on ZooKeeper tell nobody their time")


def test_log_dirs_shows_the_replicas_of_every_broker(cluster: ClusterOfThree) -> None:
    at = ["--bootstrap-server", cluster.bootstrap]
    words = ["--describe", "--broker-list", "0,1", "--topic-list", TOPIC]
    told = script("kafka-log-dirs.sh", *at, *words)
    rows = json.loads(told.splitlines()[-1])["brokers"]
    assert {row["broker"] for row in rows} == {0, 1}
    for row in rows:
        (partition,) = row["logDirs"][0]["partitions"]
        assert partition["partition"] == f"{TOPIC}-0"
        assert partition["size"] > 0


def test_zookeeper_says_whether_it_stands_alone(cluster: ClusterOfThree, tmp_path: Path) -> None:
    port = cluster.connect.partition("/")[0].rpartition(":")[2]
    config = tmp_path / "zoo.cfg"
    config.write_text(f"clientPort={port}\nclientPortAddress=127.0.0.1\n")
    assert script("zkServer.sh", "status", str(config)).splitlines()[-1] == "Mode: standalone"
    config.write_text("clientPort=1\nclientPortAddress=127.0.0.1\n")
    told = script("zkServer.sh", "status", str(config), code=1)
    assert told.splitlines()[-1] == "Error contacting service. It is probably not running."


def test_a_second_broker_needs_no_more_than_the_file_that_ships(
    cluster: ClusterOfThree, tmp_path: Path
) -> None:
    """config/server-1.properties, with the line for ZooKeeper that it has as a comment."""
    shipped = (BIN.parent / "config" / "server-1.properties").read_text()
    assert "#zookeeper.connect=localhost:2181" in shipped
    connect = cluster.connect.partition("/")[0] + "/shipped"
    text = shipped.replace("#zookeeper.connect=localhost:2181", f"zookeeper.connect={connect}")
    text = re.sub(r"listeners=.*", "listeners=PLAINTEXT://127.0.0.1:0", text)
    (tmp_path / "server-1.properties").write_text(text)
    with open(tmp_path / "log", "wb") as log:
        broker = subprocess.Popen(
            [str(BIN / "kafka-server-start.sh"), "server-1.properties"],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            env={**os.environ, "MOLDAU_RUN_DIR": str(tmp_path / "run"), "MAKELEVEL": ""},
        )
    try:
        is_up = "started (kafka.server.KafkaServer)"
        eventually(lambda: is_up in (tmp_path / "log").read_text())
        tree = KazooClient(connect)
        tree.start()
        try:
            assert tree.get_children("/brokers/ids") == ["1"]
        finally:
            tree.stop()
            tree.close()
    finally:
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0, (tmp_path / "log").read_text()
