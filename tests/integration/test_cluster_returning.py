"""A broker that was away while the cluster went on, on real processes: what it no longer has, it
does not serve when it is back.
"""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from moldau.model.cluster import Endpoint
from moldau.model.errors import Error
from moldau.net.peers import Peers
from moldau.wire.messages.metadata import MetadataRequest
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.schema import Message
from tests.support.cluster_of_three import SECONDS_MAX, ClusterOfThree
from tests.support.eventually import eventually
from tests.support.services import batch

SETTINGS = {"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}
TIMEOUT_MS = 15_000


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, str]:
    return SETTINGS


def ask(cluster: ClusterOfThree, broker: int, request: Message, version: int) -> Any:
    """One broker, whatever it thinks that it is."""

    async def asking() -> Any:
        here = Endpoint("PLAINTEXT", "127.0.0.1", cluster.brokers[broker].port)
        peers = Peers(asyncio.get_running_loop(), lambda _: here, client_id="test")
        try:
            return await peers.call(broker, request, timeout_ms=TIMEOUT_MS, version=version)
        finally:
            await peers.close()

    return asyncio.run(asking())


def write_to(cluster: ClusterOfThree, broker: int, topic: str) -> Error:
    """With acks=1, as a client that has not heard of another leader."""
    rows = [PartitionProduceData(index=0, records=batch(b"late"))]
    data = [TopicProduceData(name=topic, partition_data=rows)]
    request = ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=data)
    answer = ask(cluster, broker, request, 9)
    return Error(answer.responses[0].partition_responses[0].error_code)


def pause(cluster: ClusterOfThree, broker: int) -> None:
    """Until nobody counts on it any more."""
    process = cluster.brokers[broker].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: str(broker) not in cluster.zookeeper.get_children("/brokers/ids"))


def go_on(cluster: ClusterOfThree, broker: int) -> None:
    process = cluster.brokers[broker].process
    assert process is not None
    process.send_signal(signal.SIGCONT)
    eventually(lambda: str(broker) in cluster.zookeeper.get_children("/brokers/ids"))


def not_the_controller(cluster: ClusterOfThree) -> int:
    controller = cluster.node("/controller")["brokerid"]
    return next(n for n in range(3) if n != controller)


def move(cluster: ClusterOfThree, topic: str, *replicas: int) -> None:
    rows = [{"topic": topic, "partition": 0, "replicas": list(replicas)}]
    data = json.dumps({"version": 1, "partitions": rows}).encode()
    cluster.zookeeper.create("/admin/reassign_partitions", data)
    node = f"/brokers/topics/{topic}"
    eventually(lambda: cluster.node(node)["partitions"] == {"0": list(replicas)})


def test_a_leader_that_was_away_while_its_partition_moved_does_not_lead_on(
    cluster: ClusterOfThree,
) -> None:
    away = not_the_controller(cluster)
    first, second = (n for n in range(3) if n != away)
    cluster.place("moved", away, first)
    cluster.write("moved", "a")
    pause(cluster, away)
    move(cluster, "moved", first, second)
    cluster.write("moved", "b")
    go_on(cluster, away)
    eventually(lambda: write_to(cluster, away, "moved") is not Error.NONE)
    assert write_to(cluster, away, "moved") is Error.NOT_LEADER_OR_FOLLOWER
    assert cluster.values("moved") == ["a", "b"]
    # The controller that moved it also has its log removed.
    eventually(lambda: not (cluster.brokers[away].data / "moved-0").exists())


def test_a_leader_that_comes_back_to_another_controller_does_not_lead_on(
    cluster: ClusterOfThree,
) -> None:
    away = not_the_controller(cluster)
    first, second = (n for n in range(3) if n != away)
    cluster.place("changed", away, first)
    cluster.write("changed", "a")
    pause(cluster, away)
    move(cluster, "changed", first, second)
    before = int(cluster.zookeeper.get("/controller_epoch")[0])
    cluster.zookeeper.delete("/controller")
    eventually(lambda: int(cluster.zookeeper.get("/controller_epoch")[0]) > before)
    go_on(cluster, away)
    eventually(lambda: write_to(cluster, away, "changed") is not Error.NONE)
    assert write_to(cluster, away, "changed") is Error.NOT_LEADER_OR_FOLLOWER
    assert cluster.values("changed") == ["a"]


def test_a_broker_that_was_away_while_a_topic_was_deleted_does_not_know_it_any_more(
    cluster: ClusterOfThree,
) -> None:
    away = not_the_controller(cluster)
    other = next(n for n in range(3) if n != away)
    cluster.place("deleted", away)
    cluster.place("elsewhere", other)
    cluster.write("deleted", "a")
    pause(cluster, away)
    admin = cluster.admin
    for name in ("deleted", "elsewhere"):
        admin.delete_topics([name])[name].result(SECONDS_MAX)
    go_on(cluster, away)

    def is_gone() -> bool:
        try:
            cluster.zookeeper.get("/brokers/topics/deleted")
        except NoNodeError:
            return True
        return False

    eventually(is_gone)
    assert not (cluster.brokers[away].data / "deleted-0").exists()
    assert write_to(cluster, away, "deleted") is Error.UNKNOWN_TOPIC_OR_PARTITION
    known = ask(cluster, away, MetadataRequest(topics=None), 9)
    assert {topic.name for topic in known.topics}.isdisjoint({"deleted", "elsewhere"})


@pytest.mark.long
def test_a_broker_that_was_down_while_a_topic_was_made_anew_keeps_nothing_of_the_old_one(
    cluster: ClusterOfThree,
) -> None:
    away = not_the_controller(cluster)
    stays, third = (n for n in range(3) if n != away)
    cluster.place("anew", away, stays)
    cluster.write("anew", *"abcde")
    eventually(lambda: sorted(cluster.state("anew")["isr"]) == sorted([away, stays]))
    cluster.kill(away)
    move(cluster, "anew", stays)
    eventually(lambda: cluster.node("/brokers/topics/anew")["partitions"]["0"] == [stays])
    admin = cluster.admin
    admin.delete_topics(["anew"])["anew"].result(SECONDS_MAX)
    eventually(lambda: cluster.zookeeper.exists("/brokers/topics/anew") is None)
    cluster.place("anew", stays, third)
    cluster.write("anew", *"xy")

    cluster.brokers[away].start()
    cluster.until_live(0, 1, 2)
    move(cluster, "anew", stays, away)
    eventually(lambda: sorted(cluster.state("anew")["isr"]) == sorted([away, stays]))
    cluster.kill(stays)
    eventually(lambda: cluster.state("anew")["leader"] == away)
    assert cluster.values("anew") == ["x", "y"]
    cluster.write("anew", "z")
    assert cluster.values("anew") == ["x", "y", "z"]
    # The old log is not lost either: somebody may still want it.
    (stray,) = cluster.brokers[away].data.glob("anew-0.*-stray")
    assert any(file.stat().st_size for file in stray.glob("*.log"))
