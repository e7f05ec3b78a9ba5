"""Ten thousand partitions on one broker: what it takes to make, to keep, to stop and to start them.

Each gets one record, so that none is empty. The broker is then stopped in order and started again,
and once more after kill -9; a start ends with the acknowledgement of a record in one of the
partitions. Idle is measured after the clean start, when nobody has asked for anything else.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from pathlib import Path

from benchmarks import requests
from benchmarks.brokers import PEERS, Peer
from benchmarks.compaction import PROBE, Prober
from benchmarks.control import Control, wait_for_first_ack
from benchmarks.process_usage import cpu_seconds, resident_bytes

MB = 1000**2
PER_TOPIC = 100
SETTLE_SECONDS = 20.0
"""Long enough for the jobs that a broker starts with, a little after its start."""
IDLE_SECONDS = 10.0
START_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 180.0
RETRY_SECONDS = 0.005


def take(name: str, directory: Path, partitions: int) -> dict[str, float]:
    peer = PEERS[name](directory)
    try:
        peer.launch()
        wait_for_first_ack(peer.port)
        values = _make(peer.port, partitions)
        _fill(peer.port, partitions)
        values |= {"partitions_used_" + key: value for key, value in _held(peer.pid).items()}
        values["partitions_stop_s"] = _end(peer, signal.SIGTERM)
        values["partitions_start_s"] = _start(peer)
        time.sleep(SETTLE_SECONDS)
        before = cpu_seconds(peer.pid)
        time.sleep(IDLE_SECONDS)
        values["partitions_cpu"] = 100 * (cpu_seconds(peer.pid) - before) / IDLE_SECONDS
        values |= {"partitions_" + key: value for key, value in _held(peer.pid).items()}
        _end(peer, signal.SIGKILL)
        values["partitions_recover_s"] = _start(peer)
        return values
    finally:
        _end(peer, signal.SIGKILL)


def _make(port: int, partitions: int) -> dict[str, float]:
    """With another client who writes to a topic of his own meanwhile."""
    with Control(port) as control:
        control.create_topic(PROBE, 1)
        with Prober(port) as prober:
            began = time.perf_counter()
            for number in range(partitions // PER_TOPIC):
                control.create_topic(_topic(number), PER_TOPIC)
            took = time.perf_counter() - began
    return {"partitions_create_s": took, "partitions_create_max": max(prober.took_ms)}


def _fill(port: int, partitions: int) -> None:
    record = requests.batch(100, 1, int(time.time() * 1000)).encoded
    with Control(port) as control:
        for number in range(partitions):
            topic = _topic(number // PER_TOPIC)
            answer = control.ask(requests.produce(topic, number % PER_TOPIC, record))
            _check(answer, topic)


def _start(peer: Peer) -> float:
    began = time.perf_counter()
    peer.launch()
    record = requests.batch(100, 1, int(time.time() * 1000)).encoded
    while time.perf_counter() - began < START_SECONDS_MAX:
        try:
            with Control(peer.port) as control:
                _check(control.ask(requests.produce(_topic(0), 0, record)), _topic(0))
            return time.perf_counter() - began
        except (OSError, RuntimeError):
            time.sleep(RETRY_SECONDS)
    raise TimeoutError("no record was acknowledged in time after a start")


def _end(peer: Peer, number: int) -> float:
    """How long it took; nothing if it has ended."""
    process: subprocess.Popen[bytes] | None = getattr(peer, "process", None)
    if process is None:
        return 0.0
    began = time.perf_counter()
    process.send_signal(number)
    process.wait(STOP_SECONDS_MAX)
    setattr(peer, "process", None)  # noqa: B010 - a Peer does not promise it
    return time.perf_counter() - began


def _held(pid: int) -> dict[str, float]:
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {
        "mb": resident_bytes(pid) / MB,
        "files": float(len(os.listdir(f"/proc/{pid}/fd"))),
        "maps": float(sum("index" in row for row in maps)),
    }


def _topic(number: int) -> str:
    return f"many-{number:04d}"


def _check(answer: bytes, topic: str) -> None:
    (error,) = struct.unpack_from(">h", answer, requests.produce_error_position(topic) - 4)
    if error:
        raise RuntimeError(f"a record for {topic} was refused with error {error}")
