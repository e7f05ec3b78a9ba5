"""A mirror of a cluster whose leaders change: the leader epochs go with the records."""

from __future__ import annotations

from pathlib import Path

import pytest

import moldau.testing
from moldau.testing.local_cluster import LocalCluster
from tests.support.eventually import eventually
from tests.support.mirrors import bytes_of, kill, mirror_file, mirror_well, start_mirror

SECONDS_MAX = 120
COUNT = 300

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def send(cluster: LocalCluster, numbers: range) -> None:
    with cluster.producer(acks="all") as producer:
        for number in numbers:
            producer.send("orders", str(number), key=str(number))


def test_a_mirror_follows_leaders_that_change(tmp_path: Path) -> None:
    with (
        moldau.testing.cluster({"zookeeper.session.timeout.ms": "6000"}) as cluster,
        moldau.testing.broker(with_faults=False) as target,
    ):
        cluster.create_topic("orders", 3)
        file = mirror_file(tmp_path, cluster.bootstrap, target.bootstrap, topics_regex="orders")
        process = start_mirror(file)
        try:
            for life, broker in enumerate(cluster.brokers):
                send(cluster, range(life * COUNT, (life + 1) * COUNT))
                broker.kill()
                send(cluster, range(10_000 + life * COUNT, 10_000 + (life + 1) * COUNT))
                broker.start()
                cluster.wait_until_known(*range(len(cluster.brokers)))
        finally:
            kill(process)
        mirror_well("run", file, "--once")
        with cluster.admin() as there, target.admin() as here:
            originals = there.describe_topics(["orders"])["orders"].partitions
            repeated = here.describe_topics(["orders"])["orders"].partitions
            assert any(row.leader_epoch > 0 for row in originals)
            for original, repeat in zip(originals, repeated, strict=True):
                assert repeat.leader_epoch >= original.leader_epoch

        def is_same() -> bool:
            # Followers may be a moment behind.
            return all(
                bytes_of(target, "orders", number)
                in {bytes_of(broker, "orders", number) for broker in cluster.brokers}
                for number in range(3)
            )

        eventually(is_same, SECONDS_MAX)
        values = sorted(int(row.value) for row in target.read("orders", 6 * COUNT, timeout=60))
        wanted = [*range(3 * COUNT), *range(10_000, 10_000 + 3 * COUNT)]
        assert values == wanted
