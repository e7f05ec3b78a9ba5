"""The load: a process of its own that sends bytes made beforehand and counts what comes back.

Raw non-blocking sockets on epoll; an answer is known by its size, and error codes are looked at
where an answer starts at the start of what was received. Fetched records are dropped inside the
kernel (MSG_TRUNC). Whatever was sent is counted again afterwards in the broker's log end offsets.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks import requests
from benchmarks.control import Control
from benchmarks.doors import Door, connect
from benchmarks.process_usage import cpu_seconds

RECEIVE_BYTES = 4 * 1024 * 1024
JOINED_BYTES_MAX = 64 * 1024
DRAIN_SECONDS_MAX = 60.0
READABLE = select.EPOLLIN
BOTH = select.EPOLLIN | select.EPOLLOUT


@dataclass(frozen=True, slots=True)
class Limits:
    """A phase ends at the first of its two bounds."""

    warm_up_seconds: float
    warm_up_bytes: int
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    answers: int
    bytes: int
    seconds: float
    broker_cpu_seconds: float
    load_cpu_seconds: float


class Stream:
    """One connection: what it still has to send and how many whole answers it has received."""

    def __init__(self, door: Door) -> None:
        self.socket = connect(door)
        self.answers = 0
        self.sent = 0
        self.blocked = False

    @property
    @abstractmethod
    def bytes_per_answer(self) -> int: ...

    @abstractmethod
    def receive(self, buffer: memoryview) -> int:
        """How many answers became complete."""

    @abstractmethod
    def request_more(self, count: int) -> None: ...

    @abstractmethod
    def send(self) -> bool:
        """Send what is due; whether something is left that the socket did not take."""


class ProduceStream(Stream):
    """Repeats one produce request, `window` of them unanswered at a time."""

    def __init__(
        self,
        door: Door,
        topic: str,
        partition: int,
        payload: bytes,
        window: int,
        *,
        acks: int = 1,
        version: int = requests.PRODUCE_VERSION,
    ) -> None:
        super().__init__(door)
        self.request = requests.produce(topic, partition, payload, acks, version=version)
        self.payload_bytes = len(payload)
        # Small requests leave several at a time, large ones stay in the processor's cache.
        copies = max(1, min(window, JOINED_BYTES_MAX // len(self.request)))
        self.repeated = memoryview(self.request * (copies + 1))
        self.due = 0
        self.position = 0
        self.received = 0
        self.answer_bytes = 0
        self.error_position = requests.produce_error_position(topic)

    @property
    def bytes_per_answer(self) -> int:
        return self.payload_bytes

    def receive(self, buffer: memoryview) -> int:
        try:
            count = self.socket.recv_into(buffer)
        except BlockingIOError:
            return 0
        if count == 0:
            raise ConnectionError("the broker closed a producing connection")
        if not self.answer_bytes:
            self.answer_bytes = struct.unpack_from(">i", buffer)[0] + 4
        if self.received % self.answer_bytes == 0 and count >= self.answer_bytes:
            self.check(buffer)
        self.received += count
        complete = self.received // self.answer_bytes - self.answers
        self.answers += complete
        return complete

    def check(self, buffer: memoryview) -> None:
        size, correlation_id = struct.unpack_from(">ii", buffer)
        (error,) = struct.unpack_from(">h", buffer, self.error_position)
        if size + 4 != self.answer_bytes or correlation_id != requests.CORRELATION_ID or error:
            raise RuntimeError(f"unexpected answer: {size} bytes, error {error}")

    def request_more(self, count: int) -> None:
        self.due += count * len(self.request)
        self.sent += count

    def send(self) -> bool:
        size = len(self.request)
        while self.due:
            until = min(self.position + self.due, len(self.repeated))
            try:
                taken = self.socket.send(self.repeated[self.position : until])
            except BlockingIOError:
                return True
            self.due -= taken
            self.position = (self.position + taken) % size
        return False


class FetchStream(Stream):
    """Fetches a partition from front to back, again and again, one request at a time."""

    def __init__(
        self, door: Door, topic: str, partition: int, offsets: Sequence[int], max_bytes: int
    ) -> None:
        super().__init__(door)
        self.requests = [requests.fetch(topic, partition, at, max_bytes) for at in offsets]
        self.max_bytes = max_bytes
        self.error_position = requests.fetch_error_position(topic)
        self.head_bytes = requests.fetch_records_position(topic)
        self.head = bytearray()
        self.missing = 0
        self.due = 0

    @property
    def bytes_per_answer(self) -> int:
        return self.max_bytes

    def receive(self, buffer: memoryview) -> int:
        try:
            if not self.missing:
                self.missing = self.receive_head(buffer)
            while self.missing:
                wanted = min(self.missing, RECEIVE_BYTES)
                count = self.socket.recv_into(buffer, wanted, socket.MSG_TRUNC)
                if count == 0:
                    raise ConnectionError("the broker closed a fetching connection")
                self.missing -= count
        except BlockingIOError:
            return 0
        self.answers += 1
        return 1

    def receive_head(self, buffer: memoryview) -> int:
        """Check an answer's first bytes; how many follow."""
        while len(self.head) < self.head_bytes:
            count = self.socket.recv_into(buffer, self.head_bytes - len(self.head))
            if count == 0:
                raise ConnectionError("the broker closed a fetching connection")
            self.head += buffer[:count]
        size: int = struct.unpack_from(">i", self.head)[0]
        (error,) = struct.unpack_from(">h", self.head, self.error_position)
        self.head.clear()
        remaining = size + 4 - self.head_bytes
        if error or not 0 <= remaining - self.max_bytes < 16:
            raise RuntimeError(f"unexpected answer: {size} bytes, error {error}")
        return remaining

    def request_more(self, count: int) -> None:
        self.due += count

    def send(self) -> bool:
        while self.due:
            request = self.requests[self.sent % len(self.requests)]
            # A request of a hundred bytes always fits: the one before it has been answered.
            if self.socket.send(request) != len(request):
                raise RuntimeError("a fetch request did not fit the socket's buffer")
            self.due -= 1
            self.sent += 1
        return False


class Loop:
    """Keeps `window` requests of every stream unanswered."""

    def __init__(self, streams: Sequence[Stream], window: int) -> None:
        self.by_file = {stream.socket.fileno(): stream for stream in streams}
        self.streams = streams
        self.answers = 0
        self.bytes = 0
        self.buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.epoll = select.epoll()
        for file, stream in self.by_file.items():
            self.epoll.register(file, READABLE)
            stream.request_more(window)
            self.send(file, stream)

    def send(self, file: int, stream: Stream) -> None:
        blocked = stream.send()
        if blocked != stream.blocked:
            self.epoll.modify(file, BOTH if blocked else READABLE)
            stream.blocked = blocked

    def run(self, seconds: float, bytes_max: int) -> None:
        """Until either bound is reached, counted from now."""
        deadline = time.perf_counter() + seconds
        stop_at = self.bytes + bytes_max
        while time.perf_counter() < deadline and self.bytes < stop_at:
            self.once(replace=True)

    def drain(self) -> None:
        """Wait for every answer that is still due."""
        deadline = time.perf_counter() + DRAIN_SECONDS_MAX
        while any(stream.answers < stream.sent for stream in self.streams):
            if time.perf_counter() > deadline:
                raise TimeoutError("some requests were never answered")
            self.once(replace=False)

    def close(self) -> None:
        self.epoll.close()
        for stream in self.streams:
            stream.socket.close()

    def once(self, *, replace: bool) -> None:
        for file, _mask in self.epoll.poll(1.0):
            stream = self.by_file[file]
            complete = stream.receive(self.buffer)
            self.answers += complete
            self.bytes += complete * stream.bytes_per_answer
            if complete and replace:
                stream.request_more(complete)
            self.send(file, stream)


def measure(loop: Loop, limits: Limits, *broker_pids: int) -> Outcome:
    """Warm up, measure, wait for what is still due, and close every connection."""
    try:
        return measured(loop, limits, broker_pids)
    finally:
        loop.close()


def measured(loop: Loop, limits: Limits, broker_pids: Sequence[int]) -> Outcome:
    loop.run(limits.warm_up_seconds, limits.warm_up_bytes)
    answers, moved = loop.answers, loop.bytes
    broker_cpu, own_cpu = sum(map(cpu_seconds, broker_pids)), time.process_time()
    started = time.perf_counter()
    loop.run(limits.seconds, limits.bytes)
    elapsed = time.perf_counter() - started
    outcome = Outcome(
        loop.answers - answers,
        loop.bytes - moved,
        elapsed,
        sum(map(cpu_seconds, broker_pids)) - broker_cpu,
        time.process_time() - own_cpu,
    )
    loop.drain()
    return outcome


@dataclass(frozen=True, slots=True)
class Where:
    port: int
    """Without any lock, for what surrounds the measurement."""
    pid: int
    topic: str
    door: Door


def run_produce(
    where: Where, batch: requests.Batch, partitions: int, window: int, at: Limits
) -> Outcome:
    """One connection per partition; afterwards the log must hold exactly what was sent."""
    topic = where.topic
    with Control(where.port) as control:
        control.create_topic(topic, partitions)
        streams = [
            ProduceStream(where.door, topic, partition, batch.encoded, window)
            for partition in range(partitions)
        ]
        outcome = measure(Loop(streams, window), at, where.pid)
        for partition, stream in enumerate(streams):
            expected = stream.sent * batch.record_count
            if control.end_offset(topic, partition) != expected:
                raise RuntimeError(f"{topic}-{partition} does not hold {expected} records")
    return outcome


def run_fetch(where: Where, batch: requests.Batch, connections: int, at: Limits) -> Outcome:
    """Answers of about 1 MB, each a whole number of the batches that were produced before."""
    batches_each = max(1, 1024 * 1024 // len(batch.encoded))
    step = batches_each * batch.record_count
    streams: list[FetchStream] = []
    topic = where.topic
    with Control(where.port) as control:
        for partition in range(connections):
            end = control.end_offset(topic, partition)
            offsets = range(0, (end or 0) - step + 1, step)
            if not offsets:
                raise RuntimeError(f"{topic}-{partition} holds too little to fetch")
            max_bytes = batches_each * len(batch.encoded)
            streams.append(FetchStream(where.door, topic, partition, offsets, max_bytes))
    return measure(Loop(streams, 1), at, where.pid)


def main() -> None:
    asked = json.loads(sys.argv[1])
    limits = Limits(**asked["limits"])
    port = asked["port"]
    where = Where(port, asked["pid"], asked["topic"], asked.get("door") or {"port": port})
    batch = requests.batch(asked["record_bytes"], asked["record_count"], int(time.time() * 1000))
    if asked["kind"] == "produce":
        outcome = run_produce(where, batch, asked["connections"], asked["window"], limits)
    else:
        outcome = run_fetch(where, batch, asked["connections"], limits)
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
