"""Hostile clients in a process of their own, and the healthy one beside them.

`python -m tests.support.hostile_crowd PORT SEED COUNT ENTRIES` sends COUNT requests of all APIs,
some on each connection, and reads the answers; ENTRIES is how long their arrays may be.
A request that is not answered soon costs its connection.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from moldau.handlers.routes import ROUTES
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.messages.produce import ProduceResponse
from tests.support.hostile_costs import Client, batch_of, produce_of
from tests.support.hostile_messages import TOPICS, HostileMessages

CLIENTS = 4
REQUESTS_PER_CONNECTION = 10
SILENCE_SECONDS_MAX = 0.5
HEALTHY = "healthy"


class _Hostile:
    """One of the crowd: a connection after the other."""

    def __init__(
        self, port: int, seed: int, count: int, topic_ids: list[bytes], entries_max: int
    ) -> None:
        self._port = port
        self._count = count
        self._dice = random.Random(seed)
        self._messages = HostileMessages(self._dice, topic_ids, entries_max)
        self.outcomes: Counter[str] = Counter()

    def run(self) -> None:
        """Until so many were really sent: what a closed connection left over does not count."""
        kinds = sorted(ROUTES)
        while self.outcomes["sent"] < self._count:
            frames = []
            for _ in range(min(REQUESTS_PER_CONNECTION, self._count - self.outcomes["sent"])):
                route = ROUTES[self._dice.choice(kinds)]
                version = self._dice.randint(route.version_min, route.version_max)
                frames.append(self._messages.frame(route.api_key, version))
            try:
                self._converse(frames)
            except OSError as fault:
                self.outcomes[type(fault).__name__] += 1

    def _converse(self, frames: list[bytes]) -> None:
        """Mostly one after the other; at times all at once."""
        together = self._dice.random() < 0.2
        with socket.create_connection(("127.0.0.1", self._port), 60.0) as client:
            client.settimeout(SILENCE_SECONDS_MAX)
            if together:
                client.sendall(b"".join(frames))
            for frame in frames:
                self.outcomes["sent"] += 1
                try:
                    if not together:
                        client.sendall(frame)
                    outcome = "answered" if _skip_answer(client) else "closed"
                except TimeoutError:
                    outcome = "silent"
                self.outcomes[outcome] += 1
                if outcome != "answered":
                    return


def _skip_answer(client: socket.socket) -> bool:
    start = b""
    while len(start) < 4:
        piece = client.recv(4 - len(start))
        if not piece:
            return False
        start += piece
    (left,) = struct.unpack(">i", start)
    while left:
        count = len(client.recv(min(left, 1 << 20)))
        if not count:
            return False
        left -= count
    return True


def main(port: int, seed: int, count: int, entries_max: int) -> int:
    share = count // CLIENTS
    topic_ids = _topic_ids(port)
    crowd = [
        _Hostile(port, seed * CLIENTS + n, share, topic_ids, entries_max) for n in range(CLIENTS)
    ]
    with ThreadPoolExecutor(CLIENTS) as threads:
        for ended in [threads.submit(one.run) for one in crowd]:
            ended.result()
    print(json.dumps(sum((one.outcomes for one in crowd), Counter())))
    return 0


def _topic_ids(port: int) -> list[bytes]:
    with Client(port) as client:
        rows = [MetadataRequestTopic(name=name) for name in TOPICS]
        answer = client.ask(3, 12, MetadataRequest(topics=rows))
        assert isinstance(answer, MetadataResponse)
        return [row.topic_id for row in answer.topics if row.topic_id != bytes(16)]


# The healthy client


class Service(NamedTuple):
    produced: int
    waits_ms: dict[str, list[float]]
    """Of each kind of request, sorted."""

    def p99_ms(self, kind: str) -> float:
        return self.waits_ms[kind][int(len(self.waits_ms[kind]) * 0.99)]


class HealthyClient:
    """Writes, reads back and commits, one after the other, until told to stop."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._waits_ms: dict[str, list[float]] = {"produce": [], "fetch": [], "commit": []}
        self._fault: BaseException | None = None
        self._produced = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> HealthyClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def service(self) -> Service:
        """When it has stopped. Raises what went wrong."""
        if self._fault is not None:
            raise self._fault
        waits = {kind: sorted(waits_ms) for kind, waits_ms in self._waits_ms.items()}
        return Service(self._produced, waits)

    def _run(self) -> None:
        try:
            with Client(self._port) as client:
                while not self._is_over.is_set():
                    self._round(client, self._produced)
                    self._produced += 1
                    time.sleep(0.005)
        except BaseException as fault:
            self._fault = fault

    def _round(self, client: Client, number: int) -> None:
        value = b"record %d" % number
        begun = time.perf_counter()
        produced = client.ask(0, 7, produce_of(HEALTHY, {0: batch_of(value)}))
        self._note("produce", begun)
        assert isinstance(produced, ProduceResponse)
        row = produced.responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (0, number), "a record is lost or refused"
        begun = time.perf_counter()
        assert value in read_from(client, number), "a record is not what was written"
        self._note("fetch", begun)
        begun = time.perf_counter()
        assert commit(client, number) == 0
        self._note("commit", begun)

    def _note(self, kind: str, begun: float) -> None:
        self._waits_ms[kind].append((time.perf_counter() - begun) * 1000)


def read_from(client: Client, offset: int) -> bytes:
    """All batches from there on that one answer holds."""
    rows = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10**6)]
    topics = [FetchTopic(topic=HEALTHY, partitions=rows)]
    answer = client.ask(1, 4, FetchRequest(max_wait_ms=500, max_bytes=10**6, topics=topics))
    assert isinstance(answer, FetchResponse)
    (row,) = answer.responses[0].partitions
    assert row.error_code == 0
    records = row.records or b""
    assert isinstance(records, bytes | bytearray | memoryview)
    return bytes(records)


def commit(client: Client, offset: int) -> int:
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    topics = [OffsetCommitRequestTopic(name=HEALTHY, partitions=rows)]
    answer = client.ask(8, 8, OffsetCommitRequest(group_id=HEALTHY, topics=topics))
    assert isinstance(answer, OffsetCommitResponse)
    return answer.topics[0].partitions[0].error_code


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:5])))
