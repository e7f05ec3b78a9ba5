"""One request at a time on a blocking socket: what surrounds a measurement."""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Self

from benchmarks import requests
from benchmarks.coordinator_requests import find_coordinator

READY_SECONDS_MAX = 60.0
RETRY_SECONDS = 0.002


class Cursor:
    """Reads an answer from front to back."""

    def __init__(self, answer: bytes, position: int) -> None:
        self.answer = answer
        self.position = position

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self.answer, self.position)
        self.position += struct.calcsize(layout)
        return values

    def skip_string(self) -> None:
        (length,) = self.take(">h")
        self.position += max(0, length)

    def string(self) -> str:
        (length,) = self.take(">h")
        self.position += length
        return self.answer[self.position - length : self.position].decode()


class Control:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """The answer without its size; the body starts after the correlation id."""
        self.socket.sendall(request)
        (size,) = struct.unpack(">i", self.exactly(4))
        return self.exactly(size)

    def exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self.socket.recv(count - len(received))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            received += piece
        return bytes(received)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Returns once every partition can be written to."""
        cursor = Cursor(self.ask(requests.create_topic(topic, partitions)), 8)
        cursor.take(">i")
        cursor.skip_string()
        (error,) = cursor.take(">h")
        if error:
            raise RuntimeError(f"creating {topic} was refused with error {error}")
        deadline = time.monotonic() + READY_SECONDS_MAX
        for partition in range(partitions):
            while self.end_offset(topic, partition) is None:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}-{partition} was not ready in time")
                time.sleep(RETRY_SECONDS)

    def end_offset(
        self, topic: str, partition: int, isolation: int = requests.READ_UNCOMMITTED
    ) -> int | None:
        """Where that reader's log ends, None while the broker does not know the partition."""
        asked = requests.list_offsets(topic, partition, requests.LATEST, isolation)
        cursor = Cursor(self.ask(asked), 12)
        cursor.skip_string()
        _count, _index, error, _timestamp, offset = cursor.take(">iihqq")
        return None if error else offset

    def find_coordinator(self, key: str, kind: int) -> None:
        """Returns once there is one; asking is what creates its topic."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while struct.unpack_from(">h", self.ask(find_coordinator(key, kind)), 8)[0]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no coordinator for {key} was found in time")
            time.sleep(RETRY_SECONDS)

    def has_leader(self, topic: str) -> bool:
        """Asks for the topic by name, which creates it where the broker may do so."""
        cursor = Cursor(self.ask(requests.metadata(topic, create=True)), 8)
        (brokers,) = cursor.take(">i")
        for _ in range(brokers):
            cursor.take(">i")
            cursor.skip_string()
            cursor.take(">i")
            cursor.skip_string()
        cursor.skip_string()
        _controller, _topics, error = cursor.take(">iih")
        cursor.skip_string()
        _internal, partitions = cursor.take(">?i")
        if error or not partitions:
            return False
        partition_error, _index, leader = cursor.take(">hii")
        return partition_error == 0 and leader >= 0

    def produce(self, topic: str, records: bytes) -> int:
        """The error code of one produce request with acks=1."""
        answer = self.ask(requests.produce(topic, 0, records))
        position = requests.produce_error_position(topic) - 4
        error: int = struct.unpack_from(">h", answer, position)[0]
        return error

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def wait_for_first_ack(port: int) -> None:
    """Connect, have a topic created by asking for it, and get one record acknowledged."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    record = requests.batch(100, 1, int(time.time() * 1000)).encoded
    while time.monotonic() < deadline:
        try:
            with Control(port) as control:
                while not control.has_leader("first"):
                    time.sleep(RETRY_SECONDS)
                while control.produce("first", record):
                    time.sleep(RETRY_SECONDS)
                return
        except OSError:
            time.sleep(RETRY_SECONDS)
    raise TimeoutError("no record was acknowledged in time")
