"""The load on a cluster, a process of its own: acks=all to a topic that every broker leads a part
of, over one connection to each leader. As many bytes as possible, or one record every 4 ms.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks import requests
from benchmarks.cluster_requests import ALL_ACKS, LOAD_PRODUCE_VERSION, ask_cluster
from benchmarks.control import Control
from benchmarks.latency import percentile
from benchmarks.load import Limits, Loop, ProduceStream, measure

RATE_PER_SECOND = 250
"""Low enough to leave every broker idle between records: this is about waiting, not about load."""
RECORD_BYTES = 100
ANSWER_SECONDS_MAX = 30.0


def leading_ports(port: int, topic: str) -> list[int]:
    """Of each partition in order."""
    cluster = ask_cluster(port, topic)
    return [cluster.brokers[state.leader] for _, state in sorted(cluster.partitions.items())]


def run_produce(
    port: int,
    pids: list[int],
    topic: str,
    window: int,
    record_bytes: int,
    record_count: int,
    limits: dict[str, Any],
) -> dict[str, float]:
    """Afterwards the leaders' logs must hold exactly what was sent."""
    batch = requests.batch(record_bytes, record_count, int(time.time() * 1000))
    ports = leading_ports(port, topic)
    streams = [
        ProduceStream(
            {"port": leader},
            *(topic, partition, batch.encoded, window),
            acks=ALL_ACKS,
            version=LOAD_PRODUCE_VERSION,
        )
        for partition, leader in enumerate(ports)
    ]
    outcome = measure(Loop(streams, window), Limits(**limits), *pids)
    for partition, stream in enumerate(streams):
        with Control(ports[partition]) as control:
            expected = stream.sent * record_count
            if control.end_offset(topic, partition) != expected:
                raise RuntimeError(f"{topic}-{partition} does not hold {expected} records")
    return asdict(outcome)


class Acknowledgements:
    """Reads answers of all connections in a thread; they come in the order of the requests."""

    def __init__(self, topic: str, ports: list[int], count: int) -> None:
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for port in ports]
        self.waiting: list[deque[int]] = [deque() for _ in ports]
        self.error_position = requests.produce_error_position(topic)
        self.missing = count
        self.latencies_ns = array("q")
        self.fault: str | None = None
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        received = [bytearray() for _ in self.sockets]
        while self.missing:
            ready, _, _ = select.select(self.sockets, [], [], ANSWER_SECONDS_MAX)
            now_ns = time.perf_counter_ns()
            if not ready:
                self.fault = f"{self.missing} records were not acknowledged in time"
                return
            for one in ready:
                index = self.sockets.index(one)
                received[index] += one.recv(65536)
                if not self.take(received[index], self.waiting[index], now_ns):
                    return

    def take(self, received: bytearray, waiting: deque[int], now_ns: int) -> bool:
        """Whether all went well."""
        while len(received) >= 4:
            size = 4 + int.from_bytes(received[:4])
            if len(received) < size:
                break
            at = self.error_position
            if error := int.from_bytes(received[at : at + 2], signed=True):
                self.fault = f"a record was refused with error {error}"
                return False
            self.latencies_ns.append(now_ns - waiting.popleft())
            self.missing -= 1
            del received[:size]
        return True


def run_latency(port: int, topic: str, warm_up_seconds: float, seconds: float) -> dict[str, float]:
    """From sending a record to knowing that every in-sync replica has it."""
    # The default of 5 ms would let one thread keep the other from its clock.
    sys.setswitchinterval(0.0001)
    ports = leading_ports(port, topic)
    record = requests.batch(RECORD_BYTES, 1, int(time.time() * 1000)).encoded
    asked = [
        requests.produce(topic, partition, record, ALL_ACKS, version=LOAD_PRODUCE_VERSION)
        for partition in range(len(ports))
    ]
    skipped = int(warm_up_seconds * RATE_PER_SECOND)
    count = skipped + int(seconds * RATE_PER_SECOND)
    answers = Acknowledgements(topic, ports, count)
    for one in answers.sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers.thread.start()
    started = time.perf_counter_ns()
    for number in range(count):
        ahead_ns = started + number * 1_000_000_000 // RATE_PER_SECOND - time.perf_counter_ns()
        if ahead_ns > 0:
            time.sleep(ahead_ns / 1e9)
        index = number % len(ports)
        answers.waiting[index].append(time.perf_counter_ns())
        answers.sockets[index].sendall(asked[index])
    answers.thread.join()
    for one in answers.sockets:
        one.close()
    if answers.fault:
        raise RuntimeError(answers.fault)
    ordered = sorted(each / 1e6 for each in answers.latencies_ns[skipped:])
    shares = {"acks_all_p50": 0.5, "acks_all_p99": 0.99, "acks_all_p99_9": 0.999}
    return {name: percentile(ordered, share) for name, share in shares.items()}


def main() -> None:
    asked = json.loads(sys.argv[1])
    kinds: dict[str, Callable[..., dict[str, float]]] = {
        "produce": run_produce,
        "latency": run_latency,
    }
    print(json.dumps(kinds[asked.pop("kind")](**asked)))


if __name__ == "__main__":
    main()
