"""Compaction of one large partition: how long it takes, what it costs in memory, and what a
producer notices of it.

A topic is filled with keyed records while its cleaner is held back by a compaction lag; then the
lag goes, and until the cleaner's checkpoint says that it is through, the broker's memory is looked
at and single records are produced to another topic. Needs confluent-kafka, for the settings.
"""

from __future__ import annotations

import os
import random
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import requests
from benchmarks.control import Control, wait_for_first_ack
from benchmarks.process_usage import tree_cpu_seconds, tree_resident_bytes
from moldau.testing.broker_process import BrokerProcess
from tests.support.apache_kafka import ApacheKafka

TOPIC, PROBE = "compacted", "beside"
MB, GB = 1000**2, 1000**3
VALUE_BYTES = 1000
RECORDS_PER_BATCH = 64
SEGMENT_BYTES = 256 * 1024 * 1024
NEVER_MS = 10**14
PROBES_PER_SECOND = 500
IDLE_SECONDS = 10.0
LOOK_SECONDS = 0.1
CLEAN_SECONDS_MAX = 120.0
SETTINGS = {"log.cleaner.backoff.ms": "200"}
CHECKPOINT = "cleaner-offset-checkpoint"


class Prober:
    """Produces a record on schedule and waits for its acknowledgement, until it is stopped."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.took_ms = array("d")

    def __enter__(self) -> Prober:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        record = requests.batch(100, 1, int(time.time() * 1000))
        request = requests.produce(PROBE, 0, record.encoded)
        with Control(self._port) as control:
            due = time.perf_counter()
            while not self._stop.is_set():
                due += 1 / PROBES_PER_SECOND
                time.sleep(max(0.0, due - time.perf_counter()))
                began = time.perf_counter()
                control.ask(request)
                self.took_ms.append((time.perf_counter() - began) * 1000)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.took_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextmanager
def running(name: str, directory: Path) -> Iterator[tuple[int, int, Path]]:
    """(port, process id, log directory)"""
    if name == "Moldau":
        moldau = BrokerProcess(directory, overrides=SETTINGS)
        moldau.start()
        try:
            yield moldau.port, moldau.pid, moldau.data
        finally:
            moldau.stop()
    else:
        with ApacheKafka(directory, SETTINGS) as apache:
            yield apache.port, apache.pid, apache.log_directory


def fill(port: int, keys: int, bytes_total: int) -> int:
    """Keys at random, so that most of the log is old values; how many records."""
    from moldau.records.batch_codec import Record, encode_batch

    chance, value, sent = random.Random(7), bytes(VALUE_BYTES), 0
    now_ms = int(time.time() * 1000)
    with Control(port) as control:
        while sent * VALUE_BYTES < bytes_total:
            picked = (b"key-%012d" % chance.randrange(keys) for _ in range(RECORDS_PER_BATCH))
            batch = encode_batch([Record(0, now_ms, key, value) for key in picked])
            control.ask(requests.produce(TOPIC, 0, batch))
            sent += RECORDS_PER_BATCH
    return sent


def set_topic(port: int, **configs: object) -> None:
    """Make the topic with these settings, or give it these."""
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewTopic,
    )

    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    named = {key.replace("_", "."): str(value) for key, value in configs.items()}
    if "cleanup.policy" in named:
        topics = [NewTopic(TOPIC, 1, 1, config=named), NewTopic(PROBE, 1, 1)]
        futures = list(admin.create_topics(topics).values())
    else:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in named.items()
        ]
        resource = ConfigResource("topic", TOPIC, incremental_configs=entries)
        futures = list(admin.incremental_alter_configs([resource]).values())
    for future in futures:
        future.result(60)


def cleaned_end(data: Path) -> int:
    path = data / CHECKPOINT
    rows = path.read_text().splitlines()[2:] if path.exists() else []
    return next((int(row.split()[2]) for row in rows if row.startswith(f"{TOPIC} 0 ")), 0)


def closed_bytes(data: Path) -> tuple[int, int]:
    """(bytes of all segments but the last, where the last starts)"""
    paths = sorted((data / f"{TOPIC}-0").glob("*.log"))
    return sum(path.stat().st_size for path in paths[:-1]), int(paths[-1].stem)


def watch(pid: int, is_over: Callable[[], bool]) -> int:
    """The most memory seen until then. Alike in both phases, for it costs the prober a little."""
    deadline = time.monotonic() + CLEAN_SECONDS_MAX
    most = tree_resident_bytes(pid)
    while not is_over():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the log was not compacted in {CLEAN_SECONDS_MAX:.0f} seconds")
        time.sleep(LOOK_SECONDS)
        most = max(most, tree_resident_bytes(pid))
    return most


def take(name: str, directory: Path, keys: int, bytes_total: int) -> dict[str, float]:
    """One broker, from an empty directory to a compacted one."""
    with running(name, directory) as (port, pid, data):
        wait_for_first_ack(port)
        set_topic(
            port,
            cleanup_policy="compact",
            segment_bytes=SEGMENT_BYTES,
            min_compaction_lag_ms=NEVER_MS,
            min_cleanable_dirty_ratio=0.01,
        )
        fill(port, keys, bytes_total)
        # What the kernel has still to write would disturb one phase or the other.
        os.sync()
        before, active = closed_bytes(data)
        idle_end = time.monotonic() + IDLE_SECONDS
        with Prober(port) as idle:
            resident = watch(pid, lambda: time.monotonic() >= idle_end)
        cpu = tree_cpu_seconds(pid)
        began = time.monotonic()
        set_topic(port, min_compaction_lag_ms=0)
        with Prober(port) as busy:
            peak = watch(pid, lambda: cleaned_end(data) >= active)
            took = time.monotonic() - began
        return {
            "compaction_s": took,
            "compaction_rate": before / MB / took,
            "compaction_cpu": (tree_cpu_seconds(pid) - cpu) / (before / GB),
            "compaction_left": 100 * closed_bytes(data)[0] / before,
            "compaction_mb": (peak - resident) / MB,
            "compaction_idle_p99": idle.percentile(0.99),
            "compaction_busy_p99": busy.percentile(0.99),
            "compaction_slower": busy.percentile(0.99) / idle.percentile(0.99),
        }
