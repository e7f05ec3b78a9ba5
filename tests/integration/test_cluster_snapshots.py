"""Snapshots of a cluster on ZooKeeper under transactional load, and forks of them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import moldau.testing
from moldau import ConfigResource, errors
from moldau.admin import SnapshotInfo
from moldau.testing.forks import fork
from moldau.testing.local_broker import LocalBroker
from moldau.testing.local_cluster import LocalCluster
from tests.support import seeds
from tests.support.eventually import eventually
from tests.support.fork_load import TransactionalLoad, check_fork

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "1048576",
    # Brokers that only wait for the processor must not be taken for dead.
    "zookeeper.session.timeout.ms": "6000",
}
LOADS = 3
"""Each writes to three topics, and copies to a fourth: twelve topics with three groups."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with moldau.testing.cluster(SETTINGS) as cluster:
        yield cluster


def path_of(info: SnapshotInfo) -> Path:
    return Path(f"{info.directories[0]}-snapshots") / info.name


def check_forks_under_load(cluster: LocalCluster, count: int) -> None:
    chance = seeds.chance()
    held: list[float] = []
    with cluster.admin() as admin:
        loads = [TransactionalLoad(cluster.bootstrap, f"load-{n}") for n in range(LOADS)]
        with loads[0], loads[1], loads[2]:
            for number in range(count):
                chance.choice(loads).wait_for_more(chance.randrange(1, 20))
                before = [load.acknowledged for load in loads]
                info = admin.create_snapshot(f"moment-{number}")
                after = [load.begun for load in loads]
                held.append(info.held_ms)
                with fork(path_of(info), with_faults=False) as forked:
                    wait_for_decided_transactions(forked)
                    for load, least, most in zip(loads, before, after, strict=True):
                        check_fork(forked.bootstrap, load, least, most)
        assert len(admin.describe_snapshots()) == count
        for number in range(count):
            admin.delete_snapshot(f"moment-{number}")
        assert not admin.describe_snapshots()
    assert left_over(cluster) == []
    print(f"held back for {max(held):.1f} ms at most, {sum(held) / count:.1f} on average")


def wait_for_decided_transactions(forked: LocalBroker) -> None:
    """Those whose end was decided at the moment are ended by the fork's coordinator, as after a
    crash; readers of one partition may see that before those of another."""
    with forked.admin() as admin:

        def are_ended() -> bool:
            listed = admin.list_transactions()
            return not any(
                row.state.startswith("Prepare") for rows in listed.values() for row in rows
            )

        eventually(are_ended)


def left_over(cluster: LocalCluster) -> list[str]:
    """What lies beside the log directories."""
    roots = [Path(f"{broker.data}-snapshots") for broker in cluster.brokers]
    return [str(path) for root in roots if root.exists() for path in root.iterdir()]


def test_in_a_fork_of_a_cluster_every_transaction_is_whole_or_absent(
    cluster: LocalCluster,
) -> None:
    check_forks_under_load(cluster, 3)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_in_thirty_forks_of_a_cluster_every_transaction_is_whole_or_absent(
    cluster: LocalCluster,
) -> None:
    check_forks_under_load(cluster, 30)


def check_a_broker_that_dies(cluster: LocalCluster, chance: Random) -> None:
    victim = chance.choice(cluster.brokers)
    with cluster.admin() as admin:
        admin.describe_snapshots()
        making = threading.Thread(target=make_and_hear, args=(cluster,))
        making.start()
        time.sleep(chance.uniform(0, 0.15))
        victim.kill()
        making.join()
    victim.start()
    cluster.wait_until_known(*range(len(cluster.brokers)))
    with cluster.admin() as admin:
        for each in admin.describe_snapshots():
            with fork(path_of(each), with_faults=False) as forked:
                assert len(forked.read("numbers", 60, timeout=60)) == 60
            admin.delete_snapshot(each.name)
        eventually(lambda: admin.describe_snapshots() == [] == left_over(cluster))
        admin.create_snapshot("afterwards")
        admin.delete_snapshot("afterwards")


def make_and_hear(cluster: LocalCluster) -> None:
    with cluster.admin() as admin:
        try:
            admin.create_snapshot("doomed", timeout=20)
        except errors.KafkaError as fault:
            print(fault)


def fill(cluster: LocalCluster) -> None:
    cluster.create_topic("numbers", 6)
    with cluster.producer(acks="all") as producer:
        for number in range(60):
            producer.send("numbers", str(number), key=str(number))


def test_a_broker_that_is_killed_during_a_snapshot_leaves_nothing(cluster: LocalCluster) -> None:
    fill(cluster)
    check_a_broker_that_dies(cluster, seeds.chance())
    with cluster.admin() as admin:
        admin.delete_topics(["numbers"])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_brokers_that_are_killed_during_snapshots_leave_nothing(cluster: LocalCluster) -> None:
    fill(cluster)
    chance = seeds.chance()
    for _ in range(20):
        check_a_broker_that_dies(cluster, chance)


@pytest.mark.long
def test_a_fork_of_a_cluster_has_its_settings_and_goes_its_own_way(cluster: LocalCluster) -> None:
    cluster.create_topic("kept", 6, {"retention.ms": "1234567"})
    with cluster.producer(acks="all") as producer:
        for number in range(60):
            producer.send("kept", str(number), key=str(number))
    with cluster.admin() as admin:
        info = admin.create_snapshot("settings")
        original = admin.describe_topics(["kept"])["kept"]
        with fork(path_of(info), with_faults=False) as forked, forked.admin() as of_fork:
            assert of_fork.describe_cluster().cluster_id != info.cluster_id
            topic = of_fork.describe_topics(["kept"])["kept"]
            assert topic.topic_id == original.topic_id
            assert all(row.replicas == row.isr for row in topic.partitions)
            assert len(topic.partitions) == 6
            resource = ConfigResource.topic("kept")
            settings = of_fork.describe_configs([resource])[resource]
            assert settings["retention.ms"].value == "1234567"
            with forked.producer() as producer:
                for number in range(60, 90):
                    producer.send("kept", str(number), key=str(number))
            forked.restart()
            values = {int(record.value) for record in forked.read("kept", 90)}
            assert values == set(range(90))
        assert len(cluster.read("kept", 60)) == 60
        command = ["snapshot", "verify", "--name", "settings", "--bootstrap-server"]
        done = subprocess.run(
            [sys.executable, "-m", "moldau.main", *command, cluster.bootstrap],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "nothing is missing or damaged" in done.stdout
        admin.delete_snapshot("settings")
