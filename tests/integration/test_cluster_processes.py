"""Three brokers and a real ZooKeeper: created, killed, stopped, deleted, as an operator would."""

from __future__ import annotations

from pathlib import Path

from moldau.testing.broker_process import BrokerProcess
from tests.support.cluster_of_three import SECONDS_MAX, SETTINGS, ClusterOfThree
from tests.support.eventually import eventually


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
    eventually(lambda: "Controlled shutdown succeeded" in cluster.brokers[stopping].log_text)
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
