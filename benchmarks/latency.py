"""End-to-end latency: from sending a record to having it in a consumer's hands.

One thread sends a one-record request every millisecond whether or not earlier ones were answered;
another keeps a long-poll fetch parked at the end of the log. Both read the same clock.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from array import array

from benchmarks import requests
from benchmarks.control import Control

RATE_PER_SECOND = 1000
RECORD_BYTES = 100
FETCH_BYTES = 1024 * 1024
BATCH_HEAD = struct.Struct(">qi")
LAST_OFFSET_DELTA_POSITION = 23


class Sender:
    """Sends on schedule and remembers when; answers are read only to keep the socket empty."""

    def __init__(self, port: int, topic: str, count: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        record = requests.batch(RECORD_BYTES, 1, int(time.time() * 1000))
        self.request = requests.produce(topic, 0, record.encoded)
        self.sent_at_ns = array("q", bytes(8 * count))
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        started = time.perf_counter_ns()
        every_ns = 1_000_000_000 // RATE_PER_SECOND
        for number in range(len(self.sent_at_ns)):
            ahead_ns = started + number * every_ns - time.perf_counter_ns()
            if ahead_ns > 0:
                time.sleep(ahead_ns / 1e9)
            self.sent_at_ns[number] = time.perf_counter_ns()
            self.socket.sendall(self.request)
            try:
                self.socket.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass


def whole_batches(records: bytes) -> list[tuple[int, int]]:
    """(base offset, offset after the last) of each batch that is there in full."""
    position, found = 0, []
    while position + 61 <= len(records):
        base_offset, length = BATCH_HEAD.unpack_from(records, position)
        if position + 12 + length > len(records):
            break
        (delta,) = struct.unpack_from(">i", records, position + LAST_OFFSET_DELTA_POSITION)
        found.append((base_offset, base_offset + delta + 1))
        position += 12 + length
    return found


def receive_all(control: Control, topic: str, sender: Sender) -> array[int]:
    """When each record arrived, by its offset."""
    count = len(sender.sent_at_ns)
    arrived_at_ns = array("q", bytes(8 * count))
    at, offset = requests.fetch_records_position(topic) - 4, 0
    deadline = time.monotonic() + count / RATE_PER_SECOND + 60
    while offset < count:
        answer = control.ask(requests.fetch(topic, 0, offset, FETCH_BYTES))
        now_ns = time.perf_counter_ns()
        length_bytes = next(n for n in range(1, 6) if answer[at + n - 1] < 0x80)
        for base_offset, offset_end in whole_batches(answer[at + length_bytes :]):
            for number in range(max(base_offset, offset), offset_end):
                arrived_at_ns[number] = now_ns
            offset = offset_end
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {offset} of {count} records arrived")
    return arrived_at_ns


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    asked = json.loads(sys.argv[1])
    port, topic = asked["port"], asked["topic"]
    skipped = int(asked["warm_up_seconds"] * RATE_PER_SECOND)
    count = skipped + int(asked["seconds"] * RATE_PER_SECOND)
    # The default of 5 ms would let one thread keep the other from its clock.
    sys.setswitchinterval(0.0001)
    with Control(port) as control:
        control.create_topic(topic, 1)
        sender = Sender(port, topic, count)
        sender.thread.start()
        arrived_at_ns = receive_all(control, topic, sender)
        sender.thread.join()
        if control.end_offset(topic, 0) != count:
            raise RuntimeError(f"{topic} does not hold {count} records")
    latencies_ms = sorted(
        (arrived_at_ns[number] - sender.sent_at_ns[number]) / 1e6
        for number in range(skipped, count)
    )
    shares = {"p50": 0.5, "p99": 0.99, "p99_9": 0.999}
    print(json.dumps({name: percentile(latencies_ms, at) for name, at in shares.items()}))


if __name__ == "__main__":
    main()
