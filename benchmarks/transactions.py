"""What transactions cost: one producer that commits every COMMIT_SECONDS, and one that has none.

Both send the same batches, idempotent and with acks=all, over one connection; the two take turns
in short slices on the same broker, so that whatever else the machine does meets both. Before a
commit everything sent must be acknowledged, and nothing is sent until the commit is answered.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from statistics import median

from crc32c import crc32c

from benchmarks import coordinator_requests as asking
from benchmarks import requests
from benchmarks.control import Control, Cursor

COMMIT_SECONDS = 0.1
PARTITIONS = 4
WINDOW = 5
TIMEOUT_MS = 60_000
RETRY_SECONDS = 0.001
READY_SECONDS_MAX = 60.0
TRANSACTIONAL = 0x10
CRC_AT, ATTRIBUTES_AT, PRODUCER_AT = 17, 21, 43
PRODUCER = struct.Struct(">qhi")


class Producer:
    """Sends one batch again and again with the next sequence of its partition."""

    def __init__(self, port: int, topic: str, batch: requests.Batch, name: str | None) -> None:
        self.control = Control(port)
        self.topic = topic
        self.batch = batch
        self.name = name
        # The batch stands at the end of a request that is otherwise always the same.
        encoded = bytearray(batch.encoded)
        struct.pack_into(">h", encoded, ATTRIBUTES_AT, TRANSACTIONAL if name else 0)
        self.requests = [
            bytearray(requests.produce(topic, partition, bytes(encoded), -1, name))
            for partition in range(PARTITIONS)
        ]
        self.batch_at = self.requests[0].index(encoded)
        self.error_at = requests.produce_error_position(topic) - 4
        self.unanswered = self.sent = 0
        self.sequences = [0] * PARTITIONS
        self.producer_id, self.epoch = self.init()

    def init(self) -> tuple[int, int]:
        if self.name is not None:
            self.control.find_coordinator(self.name, asking.TRANSACTION)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            answer = self.control.ask(asking.init_producer_id(self.name, TIMEOUT_MS))
            error, producer_id, epoch = Cursor(answer, 8).take(">hqh")
            if not error:
                return producer_id, epoch
            if error not in asking.LATER:
                raise RuntimeError(f"InitProducerId was refused with error {error}")
            time.sleep(RETRY_SECONDS)
        raise TimeoutError("no producer id was given in time")

    def send(self) -> None:
        partition = self.sent % PARTITIONS
        request, at = self.requests[partition], self.batch_at
        PRODUCER.pack_into(
            request, at + PRODUCER_AT, self.producer_id, self.epoch, self.sequences[partition]
        )
        checked = memoryview(request)[at + ATTRIBUTES_AT : at + len(self.batch.encoded)]
        struct.pack_into(">I", request, at + CRC_AT, crc32c(checked))
        self.control.socket.sendall(request)
        self.sent += 1
        self.unanswered += 1
        self.sequences[partition] += self.batch.record_count

    def receive(self) -> int:
        (size,) = struct.unpack(">i", self.control.exactly(4))
        answer = self.control.exactly(size)
        self.unanswered -= 1
        error: int = struct.unpack_from(">h", answer, self.error_at)[0]
        return error

    def acknowledged(self) -> None:
        if error := self.receive():
            raise RuntimeError(f"a batch was refused with error {error}")

    def begin(self) -> None:
        """The first batch goes alone: it is refused while the commit before it is completed."""
        while True:
            self.send()
            error = self.receive()
            if not error:
                return
            if error != asking.CONCURRENT_TRANSACTIONS:
                raise RuntimeError(f"a batch was refused with error {error}")
            self.sent -= 1
            self.sequences[self.sent % PARTITIONS] -= self.batch.record_count
            time.sleep(RETRY_SECONDS)

    def commit(self) -> None:
        assert self.name is not None
        answer = self.control.ask(asking.end_transaction(self.name, self.producer_id, self.epoch))
        error, self.producer_id, epoch = Cursor(answer, 9).take(">hqh")
        if error:
            raise RuntimeError(f"a commit was refused with error {error}")
        if epoch != self.epoch:
            self.epoch, self.sequences = epoch, [0] * PARTITIONS

    def run(self, seconds: float) -> None:
        """Fill the window again and again; drain it at the end."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            while self.unanswered < WINDOW:
                self.send()
            self.acknowledged()
        while self.unanswered:
            self.acknowledged()

    def slice(self, seconds: float) -> float:
        """Bytes per second."""
        before, started = self.sent, time.perf_counter()
        while (left := started + seconds - time.perf_counter()) > 0:
            if self.name is None:
                self.run(left)
                continue
            self.begin()
            self.run(min(COMMIT_SECONDS, left))
            self.commit()
        elapsed = time.perf_counter() - started
        return (self.sent - before) * len(self.batch.encoded) / elapsed


def measure(
    port: int, topic: str, record_bytes: int, record_count: int, slices: int, slice_seconds: float
) -> dict[str, float]:
    batch = requests.batch(record_bytes, record_count, int(time.time() * 1000))
    with Control(port) as control:
        plain = Producer(port, made(control, f"{topic}-plain"), batch, None)
        committing = Producer(port, made(control, f"{topic}-committing"), batch, topic)
        for producer in (plain, committing):
            producer.slice(slice_seconds)
        pairs = [
            (plain.slice(slice_seconds), committing.slice(slice_seconds)) for _ in range(slices)
        ]
        check(control, plain, committing)
        plain.control.close()
        committing.control.close()
    return {
        "idempotent": median(one for one, _ in pairs) / 1e6,
        "transactional": median(other for _, other in pairs) / 1e6,
        "transactions_cost": median(100 * (1 - other / one) for one, other in pairs),
    }


def made(control: Control, topic: str) -> str:
    control.create_topic(topic, PARTITIONS)
    return topic


def check(control: Control, plain: Producer, committing: Producer) -> None:
    """Every record must be there, and nothing withheld from a reader of committed ones."""
    ends = [control.end_offset(plain.topic, partition) or 0 for partition in range(PARTITIONS)]
    if sum(ends) != plain.sent * plain.batch.record_count:
        raise RuntimeError(f"the log does not hold {plain.sent} batches: {ends}")
    deadline = time.monotonic() + READY_SECONDS_MAX
    for partition in range(PARTITIONS):
        asked = committing.topic, partition
        while control.end_offset(*asked, requests.READ_COMMITTED) != control.end_offset(*asked):
            if time.monotonic() > deadline:
                raise TimeoutError("a transaction was not completed in time")
            time.sleep(RETRY_SECONDS)


def main() -> None:
    print(json.dumps(measure(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
