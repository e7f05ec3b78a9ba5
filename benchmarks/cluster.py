"""The measures of a cluster: replicated writes, and what happens when a leader is killed."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from benchmarks.cluster_peers import BROKERS, LocalCluster
from benchmarks.cluster_requests import ask_cluster
from benchmarks.failover import create, delete, kill_and_measure
from benchmarks.load import Limits
from benchmarks.measures import (
    BATCH_SIZES,
    GB,
    MB,
    ONE_RECORD_BYTES,
    PRODUCE_CONNECTIONS,
    RECORD_BYTES,
    WINDOW,
    Scale,
    Values,
    load_share,
    records_per_batch,
    run_load,
)

SIZES = ("16k", "128k")
SPREAD = [
    [(first + more) % BROKERS for more in range(BROKERS)]
    for first in range(BROKERS * PRODUCE_CONNECTIONS)
]
"""Every broker leads as many partitions as a single one is given connections: Apache Kafka takes
up a connection's next request only when the one before is answered, here by all replicas."""


def take(name: str, scale: Scale, directory: Path) -> Values:
    with LocalCluster(name, directory) as cluster:
        warm_up(cluster, scale)
        values = produce(cluster, scale) | latency(cluster, scale)
        return values | failovers(cluster, scale)


def send(
    cluster: LocalCluster, topic: str, limits: Limits, record_bytes: int, count: int
) -> dict[str, float]:
    os.sync()
    create(cluster, topic, SPREAD)
    outcome = run_load(
        "cluster_load",
        kind="produce",
        port=cluster.port,
        pids=cluster.pids,
        topic=topic,
        window=WINDOW,
        record_bytes=record_bytes,
        record_count=count,
        limits=asdict(limits),
    )
    # The brokers that are killed later shall lead nothing but what is measured then.
    delete(cluster, topic)
    return outcome


def warm_up(cluster: LocalCluster, scale: Scale) -> None:
    send(cluster, "warm-up", Limits(0.0, 0, scale.warm_up_seconds, GB), ONE_RECORD_BYTES, 1)


def produce(cluster: LocalCluster, scale: Scale) -> Values:
    values = {}
    for name in SIZES:
        count = records_per_batch(BATCH_SIZES[name])
        outcome = send(cluster, f"produce-{name}", scale.cluster_produce, RECORD_BYTES, count)
        values[f"cluster_{name}"] = outcome["bytes"] / MB / outcome["seconds"]
        values[f"cluster_cpu_{name}"] = outcome["broker_cpu_seconds"] / (outcome["bytes"] / GB)
        values[f"load_share_cluster_{name}"] = load_share(outcome)
    return values


def latency(cluster: LocalCluster, scale: Scale) -> Values:
    os.sync()
    create(cluster, "latency", SPREAD)
    values = run_load(
        "cluster_load",
        kind="latency",
        port=cluster.port,
        topic="latency",
        warm_up_seconds=scale.latency_warm_up_seconds,
        seconds=scale.cluster_latency_seconds,
    )
    delete(cluster, "latency")
    return values


def failovers(cluster: LocalCluster, scale: Scale) -> Values:
    """The controller survives: its own fail-over is another matter."""
    values: Values = {}
    for key, count in {"one": 1, "many": scale.cluster_partitions}.items():
        os.sync()
        topic = f"failover-{key}"
        controller = ask_cluster(cluster.port, topic).controller
        victim = (controller + 1) % BROKERS
        others = [number for number in range(BROKERS) if number != victim]
        # The followers take turns in being first to inherit.
        placement = [[victim, *(others if number % 2 else others[::-1])] for number in range(count)]
        values[f"create_{key}"] = create(cluster, topic, placement)
        failover = kill_and_measure(cluster, topic, victim, count)
        values[f"failover_{key}"] = failover.seconds
        values[f"failover_{key}_beyond"] = failover.beyond_session_seconds
        if key == "one":
            cluster.brokers[victim].spawn()
            cluster.wait_for_all()
    return values
