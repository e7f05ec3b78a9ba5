"""A cluster under fire: brokers, the controller and ZooKeeper's leader fall while clients work.

Every record that was acknowledged is there at the end, once and in order, on every replica. Beside
the plain load there are transactions, a group that processes one topic into another and topics that
are compacted all the while; the checker of histories judges them. The short mode runs for some
twenty seconds, the long one for MOLDAU_FIRE_MINUTES (15); MOLDAU_SEED chooses the faults.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.zookeeper_process import ensemble
from tests.support import seeds
from tests.support.eventually import eventually
from tests.support.fire import COMPACTING, HOW, WHOM, ClusterUnderFire
from tests.support.fire_load import Load
from tests.support.histories.judgement import has_compacted, judge
from tests.support.histories.model import History
from tests.support.histories.stage import PARTITIONS as STAGED
from tests.support.histories.stage import Stage
from tests.support.secured_cluster import secured_ensemble

TOPIC = "fire"
PARTITIONS = 6
RATE = 300.0
SHORT_SECONDS = 20.0
SHORT_SEED = 4665
"""Begins with a broker killed, a controller held and a broker that loses its connections."""
ALL_TOPICS = {TOPIC: PARTITIONS, **STAGED, "__consumer_offsets": 3, "__transaction_state": 3}
WARM_SECONDS_MAX = 90.0
UNAVAILABLE_SECONDS_MAX = 30.0
"""A bound that only a fault of the cluster's can break; how long it really took is printed."""


def set_on_fire(directory: Path, seconds: float, seed: int, *, secured: bool = False) -> History:
    draw = random.Random(seed)
    with contextlib.ExitStack() as stack:
        locks = None
        if secured:
            servers, locks = stack.enter_context(secured_ensemble(directory))
        else:
            servers = stack.enter_context(ensemble(directory))
        cluster = stack.enter_context(ClusterUnderFire(directory, servers, draw, COMPACTING, locks))
        return burn(cluster, seconds, seed, draw)


def burn(cluster: ClusterUnderFire, seconds: float, seed: int, draw: random.Random) -> History:
    with contextlib.closing(Stage(cluster.reach, random.Random(seed))) as stage:
        admin = AdminClient({**cluster.reach.librdkafka, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 3)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
        load = Load(cluster.reach, TOPIC, PARTITIONS, RATE)
        load.start()
        stage.start()
        try:
            eventually(lambda: any(load.seen) and stage.is_under_way(), WARM_SECONDS_MAX)
            stage.compact_internal_topics()
            cluster.until_whole(ALL_TOPICS)
            waits = rage(cluster, load, seconds, draw)
            load.finish_writing()
            cluster.until_whole(ALL_TOPICS)
            eventually(load.group_has_all)
        finally:
            load.finish()
            stage.finish()
        history = stage.history()
        judge(history)
        print(dict(stage.notes.faults.most_common(20)))
        print(f"seed {seed}: {len(waits)} faults, {load.account.count} records acknowledged")
        for name, wait_s in sorted(waits, key=lambda row: -row[1])[:10]:
            print(f"  {wait_s:5.2f} s at worst while: {name}")
        assert load.mistakes() == []
        assert load.account.count == sum(load.account.written)
        assert_replicas_are_alike(cluster)
        assert max(wait_s for _, wait_s in waits) < UNAVAILABLE_SECONDS_MAX
        return history


def rage(
    cluster: ClusterUnderFire, load: Load, seconds: float, draw: random.Random
) -> list[tuple[str, float]]:
    """One fault after the other, each when the last is over; how long records had to wait."""
    kinds = list(itertools.product(WHOM, HOW))
    draw.shuffle(kinds)
    endless = itertools.cycle(kinds)
    deadline = time.monotonic() + seconds
    waits = []
    while time.monotonic() < deadline:
        fault = cluster.next_fault(*next(endless))
        began = time.monotonic()
        load.take_longest_wait()
        cluster.begin(fault)
        time.sleep(fault.seconds)
        cluster.end(fault)
        cluster.until_whole(ALL_TOPICS)
        eventually(load.has_caught_up())
        waits.append((str(fault), load.take_longest_wait()))
        print(f"{fault}: whole after {time.monotonic() - began:.1f} s, wait {waits[-1][1]:.2f} s")
    return waits


def assert_replicas_are_alike(cluster: ClusterUnderFire) -> None:
    for number in range(PARTITIONS):

        def are_alike(number: int = number) -> bool:
            return len({_bytes(each.data / f"{TOPIC}-{number}") for each in cluster.brokers}) == 1

        eventually(are_alike)


def _bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))


def test_some_faults_lose_double_tear_and_reorder_nothing(tmp_path: Path) -> None:
    set_on_fire(tmp_path, SHORT_SECONDS, seeds.one(SHORT_SEED))


@pytest.mark.long
def test_a_secured_cluster_on_a_secured_zookeeper_loses_nothing_either(tmp_path: Path) -> None:
    set_on_fire(tmp_path, SHORT_SECONDS, seeds.one(SHORT_SEED), secured=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_minutes_of_faults_in_a_secured_cluster_lose_nothing_either(tmp_path: Path) -> None:
    minutes = float(os.environ.get("MOLDAU_FIRE_MINUTES", "15"))
    assert has_compacted(set_on_fire(tmp_path, minutes * 60, seeds.one(), secured=True))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_minutes_of_faults_lose_double_tear_and_reorder_nothing(tmp_path: Path) -> None:
    minutes = float(os.environ.get("MOLDAU_FIRE_MINUTES", "15"))
    assert has_compacted(set_on_fire(tmp_path, minutes * 60, seeds.one()))
