"""What is measured, in one table, and how each group of measures is taken from a running broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Literal

from benchmarks import clients, requests
from benchmarks.brokers import Peer
from benchmarks.control import Control, wait_for_first_ack
from benchmarks.load import Limits
from benchmarks.process_usage import resident_bytes

KB, MB, GB = 1000, 1000**2, 1000**3
LOAD_SECONDS_MAX = 300
WINDOW = 5
"""Requests in flight per connection: what an idempotent Java producer allows itself."""
ONE_RECORD_BYTES = 100
RECORD_BYTES = 1000
BATCH_SIZES = {"16k": 16 * 1024, "128k": 128 * 1024, "1m": 1024 * 1024}
PRODUCE_CONNECTIONS = 4
FETCHED_SIZE = "128k"
TRANSACTION_BATCH = "16k"
MEMBERS_PER_GROUP = 5


@dataclass(frozen=True, slots=True)
class Measure:
    key: str
    group: str
    label: str
    unit: str
    better: Literal["lower", "higher"]
    target: float | None = None
    """The bound on Moldau's value divided by Apache Kafka's."""
    own_target: float | None = None
    """The bound on Moldau's value itself."""


MEASURES: tuple[Measure, ...] = (
    Measure("start_s", "start", "start to first acknowledged record", "s", "lower", 0.1),
    Measure("idle_mb", "start", "resident memory, idle", "MB", "lower", 0.15),
    Measure("requests_1", "requests", "one-record requests, 1 connection", "/s", "higher", 2.0),
    Measure("requests_8", "requests", "one-record requests, 8 connections", "/s", "higher", 2.0),
    Measure("produce_16k", "produce", "produce, 16 KB batches", "MB/s", "higher", 1.5),
    Measure("produce_128k", "produce", "produce, 128 KB batches", "MB/s", "higher", 1.5),
    Measure("produce_1m", "produce", "produce, 1 MB batches", "MB/s", "higher", 1.5),
    Measure("cpu_16k", "produce", "broker CPU per GB, 16 KB batches", "s", "lower", 0.5),
    Measure("cpu_128k", "produce", "broker CPU per GB, 128 KB batches", "s", "lower", 0.5),
    Measure("cpu_1m", "produce", "broker CPU per GB, 1 MB batches", "s", "lower", 0.5),
    Measure("fetch_1", "fetch", "fetch of 1 MB answers, 1 connection", "MB/s", "higher", 1.2),
    Measure("fetch_4", "fetch", "fetch of 1 MB answers, 4 connections", "MB/s", "higher", 1.2),
    Measure("loaded_mb", "fetch", "resident memory after the load", "MB", "lower"),
    Measure("p50", "latency", "end-to-end p50 at 1,000 records/s", "ms", "lower", 0.7),
    Measure("p99", "latency", "end-to-end p99 at 1,000 records/s", "ms", "lower", 1.0),
    Measure("p99_9", "latency", "end-to-end p99.9 at 1,000 records/s", "ms", "lower", 1.0),
    Measure("idempotent", "transactions", "produce without transactions", "MB/s", "higher"),
    Measure("transactional", "transactions", "produce, a commit each 100 ms", "MB/s", "higher"),
    Measure(
        "transactions_cost",
        "transactions",
        "throughput that transactions cost",
        "%",
        "lower",
        own_target=5.0,
    ),
    Measure("groups_cpu", "groups", "broker CPU, members heartbeating", "% of a core", "lower"),
    Measure("heartbeat_p50", "groups", "heartbeat answered, p50", "ms", "lower"),
    Measure("heartbeat_p99", "groups", "heartbeat answered, p99", "ms", "lower"),
    Measure("cluster_16k", "cluster", "cluster: produce, 16 KB batches", "MB/s", "higher"),
    Measure("cluster_128k", "cluster", "cluster: produce, 128 KB batches", "MB/s", "higher"),
    Measure("cluster_cpu_16k", "cluster", "cluster: CPU per GB, 16 KB batches", "s", "lower"),
    Measure("cluster_cpu_128k", "cluster", "cluster: CPU per GB, 128 KB batches", "s", "lower"),
    Measure("acks_all_p50", "cluster", "cluster: acknowledged, p50", "ms", "lower"),
    Measure("acks_all_p99", "cluster", "cluster: acknowledged, p99", "ms", "lower"),
    Measure("acks_all_p99_9", "cluster", "cluster: acknowledged, p99.9", "ms", "lower"),
    Measure("create_many", "cluster", "cluster: 1,000 partitions created", "s", "lower"),
    Measure("failover_one", "cluster", "fail-over of 1 partition", "s", "lower"),
    Measure("failover_one_beyond", "cluster", "… beyond the session's end", "s", "lower"),
    Measure("failover_many", "cluster", "fail-over of 1,000 partitions", "s", "lower"),
    Measure(
        "failover_many_beyond",
        "cluster",
        "… beyond the session's end, all 1,000",
        "s",
        "lower",
        own_target=5.0,
    ),
)
COMPACTION = (
    ("compaction_s", "2 GB of 1 million keys compacted", "s", None),
    ("compaction_cpu", "broker CPU per GB compacted", "s", None),
    ("compaction_left", "of the bytes, left over", "%", None),
    ("compaction_mb", "memory that compaction adds", "MB", 150.0),
    ("compaction_idle_p99", "produce p99 before it", "ms", None),
    ("compaction_busy_p99", "produce p99 during it", "ms", None),
    ("compaction_slower", "p99 during / before", "times", 2.0),
)
MEASURES += tuple(
    Measure(key, "compaction", label, unit, "lower", own_target=target)
    for key, label, unit, target in COMPACTION
)
PARTITIONS = (
    ("partitions_create_s", "10,000 partitions created", "s"),
    ("partitions_create_max", "longest answer to others meanwhile", "ms"),
    ("partitions_used_mb", "resident memory, all in use", "MB"),
    ("partitions_used_files", "open files, all in use", ""),
    ("partitions_used_maps", "mapped indexes, all in use", ""),
    ("partitions_stop_s", "stop in order", "s"),
    ("partitions_start_s", "start after it, to the first acknowledged record", "s"),
    ("partitions_mb", "resident memory after that start", "MB"),
    ("partitions_files", "open files after that start", ""),
    ("partitions_maps", "mapped indexes after that start", ""),
    ("partitions_cpu", "processor time while idle", "% of a core"),
    ("partitions_recover_s", "start after kill -9, to the first acknowledged record", "s"),
)
MEASURES += tuple(
    Measure(key, "partitions", label, unit, "lower") for key, label, unit in PARTITIONS
)
TLS: tuple[tuple[str, str, str, Literal["lower", "higher"], float | None], ...] = (
    ("requests_1", "one-record requests, 1 connection", "/s", "higher", 1.0),
    ("requests_8", "one-record requests, 8 connections", "/s", "higher", 1.0),
    *(
        (f"produce_{size}", f"produce, {size} batches", "MB/s", "higher", 1.0)
        for size in BATCH_SIZES
    ),
    *(
        (f"cpu_{size}", f"broker CPU per GB, {size} batches", "s", "lower", None)
        for size in BATCH_SIZES
    ),
    ("fetch_1", "fetch of 1 MB answers, 1 connection", "MB/s", "higher", 1.0),
    ("fetch_4", "fetch of 1 MB answers, 4 connections", "MB/s", "higher", 1.0),
)
MEASURES += tuple(
    Measure(f"tls_{key}", "tls", f"TLS: {label}", unit, better, target)
    for key, label, unit, better, target in TLS
)
MEASURES += (
    Measure("guarded_requests", "guards", "locked: one-record requests", "/s", "higher"),
    Measure("guarded_produce", "guards", "locked: produce, 16 KB batches", "MB/s", "higher"),
)
MEASURES += tuple(
    Measure(
        f"guarded_{key}_cost", "guards", f"… what the locks cost {label}", "%", "lower", None, 3.0
    )
    for key, label in (("requests", "one-record requests"), ("produce", "produce"))
)
GROUPS = (*dict.fromkeys(measure.group for measure in MEASURES), "clients", "tables")
ONLY_WHEN_ASKED = {"cluster", "compaction", "partitions", "tls", "guards", "tables"}
"""Groups that need brokers of their own: several of a kind, or with other settings."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How long and how much; every bound that a run has."""

    rounds: int
    idle_seconds: float
    warm_up_seconds: float
    requests: Limits
    produce: Limits
    fetch: Limits
    latency_warm_up_seconds: float
    latency_seconds: float
    transaction_slices: int
    transaction_slice_seconds: float
    groups: int
    heartbeat_seconds: float
    client_records: int
    cluster_rounds: int
    cluster_produce: Limits
    cluster_latency_seconds: float
    cluster_partitions: int
    compaction_keys: int
    compaction_bytes: int
    partitions: int


FULL = Scale(
    rounds=5,
    idle_seconds=3.0,
    # A JVM goes on compiling for as long as this; its speed doubles on the way.
    warm_up_seconds=20.0,
    requests=Limits(2.0, GB, 5.0, GB),
    # Together below the amount of unwritten data at which Linux starts to hold writers up.
    produce=Limits(2.0, 500 * MB, 8.0, 1000 * MB),
    fetch=Limits(2.0, 4 * GB, 4.0, 12 * GB),
    latency_warm_up_seconds=5.0,
    latency_seconds=20.0,
    transaction_slices=7,
    transaction_slice_seconds=1.0,
    groups=1000,
    heartbeat_seconds=12.0,
    client_records=1_000_000,
    cluster_rounds=2,
    cluster_produce=Limits(2.0, 200 * MB, 6.0, 400 * MB),
    cluster_latency_seconds=10.0,
    cluster_partitions=1000,
    compaction_keys=1_000_000,
    compaction_bytes=2 * GB,
    partitions=10_000,
)
QUICK = Scale(
    rounds=1,
    idle_seconds=1.0,
    warm_up_seconds=2.0,
    requests=Limits(1.0, 100 * MB, 1.5, 100 * MB),
    produce=Limits(1.0, 100 * MB, 2.0, 200 * MB),
    fetch=Limits(0.5, GB, 1.0, 2 * GB),
    latency_warm_up_seconds=1.0,
    latency_seconds=3.0,
    transaction_slices=3,
    transaction_slice_seconds=0.5,
    groups=200,
    heartbeat_seconds=3.0,
    client_records=100_000,
    cluster_rounds=1,
    cluster_produce=Limits(1.0, 50 * MB, 2.0, 100 * MB),
    cluster_latency_seconds=3.0,
    cluster_partitions=100,
    compaction_keys=100_000,
    compaction_bytes=600 * MB,
    partitions=1_000,
)

Values = dict[str, float]


def run_load(module: str, **asked: Any) -> dict[str, float]:
    """One load process, from its start to the line it prints at its end."""
    ran = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", json.dumps(asked)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LOAD_SECONDS_MAX,
    )
    outcome: dict[str, float] = json.loads(ran.stdout)
    return outcome


def transfer(peer: Peer, kind: str, limits: Limits, **asked: Any) -> dict[str, float]:
    where = {"port": peer.port, "pid": peer.pid, "door": peer.way_in}
    return run_load("load", kind=kind, limits=asdict(limits), **where, **asked)


def start(peer: Peer, scale: Scale) -> Values:
    """Launches the broker, so every round begins with it."""
    began = time.perf_counter()
    peer.launch()
    wait_for_first_ack(peer.port)
    took = time.perf_counter() - began
    time.sleep(scale.idle_seconds)
    return {"start_s": took, "idle_mb": resident_bytes(peer.pid) / MB}


def warm_up(peer: Peer, scale: Scale) -> None:
    """Many small requests: much code is run, little is written."""
    send_records(peer, "warm-up", 8, Limits(0.0, 0, scale.warm_up_seconds, GB))


def send_records(peer: Peer, topic: str, connections: int, limits: Limits) -> dict[str, float]:
    """One record of 100 bytes per request."""
    shape = {"record_bytes": ONE_RECORD_BYTES, "record_count": 1, "window": WINDOW}
    return transfer(peer, "produce", limits, topic=topic, connections=connections, **shape)


def one_record_requests(peer: Peer, scale: Scale) -> Values:
    values = {}
    for connections in (1, 8):
        topic = f"requests-{connections}"
        outcome = send_records(peer, topic, connections, scale.requests)
        values[f"requests_{connections}"] = outcome["answers"] / outcome["seconds"]
        values[f"load_share_requests_{connections}"] = load_share(outcome)
    return values


def produce(peer: Peer, scale: Scale) -> Values:
    values = {}
    for name, size in BATCH_SIZES.items():
        # What the phase before left unwritten must not slow this one down.
        os.sync()
        outcome = transfer(
            peer,
            "produce",
            scale.produce,
            topic=f"produce-{name}",
            connections=PRODUCE_CONNECTIONS,
            window=WINDOW,
            record_bytes=RECORD_BYTES,
            record_count=records_per_batch(size),
        )
        values[f"produce_{name}"] = outcome["bytes"] / MB / outcome["seconds"]
        values[f"cpu_{name}"] = outcome["broker_cpu_seconds"] / (outcome["bytes"] / GB)
        values[f"load_share_produce_{name}"] = load_share(outcome)
    return values


def fetch(peer: Peer, scale: Scale) -> Values:
    """Reads what `produce` wrote, from the page cache."""
    values = {}
    for connections in (1, 4):
        outcome = transfer(
            peer,
            "fetch",
            scale.fetch,
            topic=f"produce-{FETCHED_SIZE}",
            connections=connections,
            record_bytes=RECORD_BYTES,
            record_count=records_per_batch(BATCH_SIZES[FETCHED_SIZE]),
        )
        values[f"fetch_{connections}"] = outcome["bytes"] / MB / outcome["seconds"]
        values[f"load_share_fetch_{connections}"] = load_share(outcome)
    values["loaded_mb"] = resident_bytes(peer.pid) / MB
    return values


def latency(peer: Peer, scale: Scale) -> Values:
    os.sync()
    return run_load(
        "latency",
        port=peer.port,
        topic="latency",
        warm_up_seconds=scale.latency_warm_up_seconds,
        seconds=scale.latency_seconds,
    )


def transactions(peer: Peer, scale: Scale) -> Values:
    os.sync()
    return run_load(
        "transactions",
        port=peer.port,
        topic="transactions",
        record_bytes=RECORD_BYTES,
        record_count=records_per_batch(BATCH_SIZES[TRANSACTION_BATCH]),
        slices=scale.transaction_slices,
        slice_seconds=scale.transaction_slice_seconds,
    )


def groups(peer: Peer, scale: Scale) -> Values:
    return run_load(
        "groups",
        port=peer.port,
        pid=peer.pid,
        groups=scale.groups,
        members_each=MEMBERS_PER_GROUP,
        seconds=scale.heartbeat_seconds,
    )


def compare_clients(peer: Peer, scale: Scale) -> Values:
    """Each producer writes a topic of its own, all consumers read one and the same."""
    values = {}
    turn = next(_turns)
    for size in clients.RECORD_SIZES:
        loads = [(load, f"{load.name}-{size}") for load in clients.in_turn(clients.PRODUCERS, turn)]
        read = f"moldau_produce-{size}"
        loads += [(load, read) for load in clients.in_turn(clients.CONSUMERS, turn)]
        for load, topic in loads:
            if topic != read or load.name == "moldau_produce":
                with Control(peer.port) as control:
                    control.create_topic(topic, clients.PARTITIONS)
            os.sync()
            outcome = run_load(
                "client_loads",
                load=load.name,
                servers=f"127.0.0.1:{peer.port}",
                topic=topic,
                partitions=clients.PARTITIONS,
                records=clients.number_of(load, scale.client_records),
                record_bytes=size,
            )
            values[clients.key(load.name, size)] = outcome["records"] / outcome["seconds"]
    return values


def records_per_batch(batch_bytes: int) -> int:
    """How many records of RECORD_BYTES a batch of at most this size holds."""
    one = len(requests.batch(RECORD_BYTES, 1, 0).encoded)
    two = len(requests.batch(RECORD_BYTES, 2, 0).encoded)
    return max(1, 1 + (batch_bytes - one) // (two - one + 2))


def load_share(outcome: dict[str, float]) -> float:
    """How much of one core the load itself needed."""
    return outcome["load_cpu_seconds"] / outcome["seconds"]


_turns = count()

TAKEN: dict[str, Callable[[Peer, Scale], Values]] = {
    "requests": one_record_requests,
    "produce": produce,
    "fetch": fetch,
    "latency": latency,
    "transactions": transactions,
    "groups": groups,
    "clients": compare_clients,
}
NEEDS = {"fetch": "produce"}
"""Groups that read what another one wrote."""


def take(peer: Peer, scale: Scale, wanted: set[str]) -> Values:
    """One round on one broker: the groups in order, each on topics of its own."""
    needed = wanted | {NEEDS[group] for group in wanted if group in NEEDS}
    values = start(peer, scale)
    if needed - {"start"}:
        warm_up(peer, scale)
    for group, taken in TAKEN.items():
        if group in needed:
            values |= taken(peer, scale)
    return values
