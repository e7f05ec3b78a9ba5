"""Nodes that hold nonsense, on real processes: they are named in the log and everything goes on.

A controller that a bad node had made blind would stay and move nothing; one that it kept
from beginning would keep everybody else from becoming it. So every test ends with a broker that is
killed, and looks whether another one leads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from kazoo.exceptions import NodeExistsError, NoNodeError

from tests.support.cluster_of_three import SECONDS_MAX, ClusterOfThree
from tests.support.eventually import eventually

SETTINGS = {"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}
DEEP = b"[" * 200_000
BAD_NODES = {
    "/admin/reassign_partitions": b'{"version":1,"partitions":[{"topic":"t","partition":"0",'
    b'"replicas":["1"]}]}',
    "/admin/preferred_replica_election": b'{"version":1,"partitions":[{"topic":7}]}',
    "/admin/delete_topics/no such topic": b"\xff",
    "/brokers/topics/bad-json": b"{",
    "/brokers/topics/bad-form": b'{"version":3,"partitions":{"0":["one"]}}',
    "/brokers/topics/bad-depth": DEEP,
    "/brokers/ids/77": b"nonsense",
    "/brokers/ids/not-a-number": b"{}",
    "/config/topics/unreadable": b"\x00\x01",
    "/config/brokers/<default>": b'{"version":1,"config":[]}',
    "/config/changes/config_change_9000000000": b"[]",
    "/config/changes/config_change_9000000001": b'{"version":2,"entity_path":"topics/unreadable"}',
    "/isr_change_notification/isr_change_0000000000": b'{"partitions":[{"topic":"t"}]}',
    "/isr_change_notification/isr_change_0000000001": b'{"partitions":5}',
    "/log_dir_event_notification/log_dir_event_0000000000": b'{"broker":"first"}',
}


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, str]:
    return SETTINGS


@pytest.fixture
def cluster(cluster: ClusterOfThree) -> Iterator[ClusterOfThree]:
    """Without the bad nodes before the brokers come back."""
    yield cluster
    for path in BAD_NODES:
        with contextlib.suppress(NoNodeError):
            cluster.zookeeper.delete(path, recursive=True)


def put(cluster: ClusterOfThree, path: str, data: bytes) -> None:
    try:
        cluster.zookeeper.create(path, data)
    except NodeExistsError:
        cluster.zookeeper.set(path, data)


def controller(cluster: ClusterOfThree) -> int:
    found: list[int] = []

    def is_there() -> bool:
        with contextlib.suppress(NoNodeError):
            found.append(cluster.node("/controller")["brokerid"])
        return bool(found)

    eventually(is_there)
    return found[0]


def name_in_log(cluster: ClusterOfThree, path: str) -> bool:
    return any(
        f"The node {path} holds something that cannot be read" in broker.log_text
        for broker in cluster.brokers
    )


def leaderships_move(cluster: ClusterOfThree, topic: str, victim: int) -> None:
    """A broker that is not the controller dies, and another one leads."""
    survivors = [n for n in range(3) if n != victim]
    cluster.place(topic, victim, *survivors)
    cluster.write(topic, "before")
    cluster.kill(victim)
    eventually(lambda: cluster.state(topic)["leader"] in survivors)
    cluster.write(topic, "after")
    assert cluster.values(topic) == ["before", "after"]


def test_bad_nodes_leave_the_controller_in_office_with_its_eyes_open(
    cluster: ClusterOfThree,
) -> None:
    cluster.place("t", 0, 1, 2)
    elected = controller(cluster)
    victim = (elected + 1) % 3
    said = {n: broker.log_text for n, broker in enumerate(cluster.brokers)}
    for path, data in BAD_NODES.items():
        put(cluster, path, data)
    leaderships_move(cluster, "open-eyes", victim)
    assert controller(cluster) == elected, "nobody had to resign"
    for number in range(3):
        news = cluster.brokers[number].log_text[len(said[number]) :]
        assert "Resigning" not in news
        assert "Traceback" not in news, news
    named = [path for path in BAD_NODES if name_in_log(cluster, path)]
    assert {
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
        "/brokers/topics/bad-json",
        "/brokers/topics/bad-form",
        "/brokers/topics/bad-depth",
        "/brokers/ids/77",
        "/brokers/ids/not-a-number",
        "/config/changes/config_change_9000000000",
        "/config/topics/unreadable",
        "/isr_change_notification/isr_change_0000000000",
        "/isr_change_notification/isr_change_0000000001",
        "/log_dir_event_notification/log_dir_event_0000000000",
    } <= {*named}


def test_bad_nodes_do_not_keep_a_new_controller_from_its_office(cluster: ClusterOfThree) -> None:
    cluster.place("keeps", 0, 1, 2)
    for path, data in BAD_NODES.items():
        put(cluster, path, data)
    elected = controller(cluster)
    cluster.kill(elected)
    eventually(lambda: controller(cluster) != elected)
    eventually(lambda: cluster.state("keeps")["leader"] != elected)
    cluster.brokers[elected].start()
    leaderships_move(
        cluster, "as-controller", next(n for n in range(3) if n != controller(cluster))
    )


def test_a_topic_whose_node_cannot_be_read_is_left_alone_until_it_is_mended(
    cluster: ClusterOfThree,
) -> None:
    cluster.place("mended", 0, 1, 2)
    cluster.write("mended", "kept")
    path = "/brokers/topics/mended"
    good, _ = cluster.zookeeper.get(path)
    cluster.zookeeper.set(path, b"{nonsense")
    epoch, _ = cluster.zookeeper.get("/controller_epoch")
    cluster.zookeeper.delete("/controller")
    eventually(lambda: cluster.zookeeper.get("/controller_epoch")[0] != epoch)
    elected = controller(cluster)
    # Nobody may make a topic where there is one, and asking for it ends no term.
    new = NewTopic("mended", 1, replica_assignment=[[1]])

    def is_refused() -> bool:
        admin = cluster.admin
        with pytest.raises(KafkaException) as refused:
            admin.create_topics([new])["mended"].result(SECONDS_MAX)
        return "ALREADY_EXISTS" in str(refused.value)

    eventually(is_refused)
    assert controller(cluster) == elected
    cluster.zookeeper.set(path, good)
    eventually(lambda: "mended" in cluster.admin.list_topics(timeout=SECONDS_MAX).topics)
    cluster.write("mended", "goes on")
    assert cluster.values("mended") == ["kept", "goes on"]


def test_settings_that_lost_their_topic_or_are_lost_end_no_term(cluster: ClusterOfThree) -> None:
    elected, epoch = controller(cluster), cluster.zookeeper.get("/controller_epoch")[0]
    put(cluster, "/config/topics/again", b'{"version":1,"config":{"retention.ms":"1"}}')
    cluster.create("again")
    assert cluster.node("/config/topics/again")["config"] == {}
    cluster.write("again", "kept")
    assert cluster.values("again") == ["kept"]
    cluster.zookeeper.delete("/config/topics/again")
    admin = cluster.admin
    admin.delete_topics(["again"])["again"].result(SECONDS_MAX)
    eventually(lambda: cluster.zookeeper.exists("/brokers/topics/again") is None)
    assert (controller(cluster), cluster.zookeeper.get("/controller_epoch")[0]) == (elected, epoch)
