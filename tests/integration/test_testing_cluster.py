"""`moldau.testing.cluster`: what it promises about its brokers."""

from __future__ import annotations

from pathlib import Path

import moldau.testing


def test_a_cluster_goes_on_without_a_leader_and_takes_it_back(tmp_path: Path) -> None:
    with moldau.testing.cluster(brokers=2, directory=tmp_path) as cluster:
        assert len(cluster.bootstrap.split(",")) == 2
        cluster.create_topic("orders", configs={"min.insync.replicas": 1})
        producer = cluster.producer(acks="all")
        producer.send("orders", b"1").result(60)
        first = cluster.leader("orders")
        first.kill()
        other = next(broker for broker in cluster.brokers if broker is not first)
        cluster.wait_until_known(cluster.brokers.index(other))
        assert cluster.leader("orders") is other
        producer.send("orders", b"2").result(60)
        cluster.start()
        values = [record.value for record in cluster.read("orders", count=2, timeout=60)]
        assert values == [b"1", b"2"]
        pids = [broker.pid for broker in cluster.brokers] + [cluster.zookeeper.pid]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
