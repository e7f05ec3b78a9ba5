"""Hostile input: whatever a client sends, the broker answers or closes, and goes on serving others.

Frames of every served API and version are mutated, truncated, given wrong sizes and sent byte by
byte to a real broker. After every round a well-behaved client must still be able to produce and
fetch, the broker's memory must stay bounded, and its log must not hold a single stack trace. The
seed is printed; MOLDAU_SEED replays it.
"""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.handlers.routes import ROUTES
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.apis import request_class
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.request_framing import decode_response, encode_request
from tests.support import seeds
from tests.support.random_messages import RandomMessages

FRAMES = 200_000
FRAMES_PER_CONNECTION = 4
FRAMES_PER_ROUND = 10_000
MEMORY_GROWTH_BYTES_MAX = 96 * 1024 * 1024
ANSWER_SECONDS_MAX = 20.0


class Client:
    """The simplest possible: one request, one answer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, api_key: int, version: int, request: object) -> object:
        self.socket.sendall(encode_request(api_key, version, 7, "good", request))  # type: ignore[arg-type]
        (size,) = struct.unpack(">i", self._take(4))
        return decode_response(api_key, version, self._take(size))

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, "the broker closed a well-behaved client's connection"
            data += piece
        return data


def corpus(dice: random.Random) -> list[bytes]:
    """Valid frames of every API and version that is served."""
    messages = RandomMessages(dice)
    return [
        encode_request(
            key, version, dice.randrange(2**31), "hostile", messages.message(cls, version)
        )
        for key, route in sorted(ROUTES.items())
        for version in range(route.version_min, route.version_max + 1)
        for cls in (request_class(key),)
        for _ in range(6)
    ]


def mutated(frame: bytes, dice: random.Random) -> bytes:
    body = bytearray(frame)
    match dice.randrange(10):
        case 0:
            return bytes(body)
        case 1 | 2 | 3:
            for _ in range(dice.randrange(1, 4)):
                body[dice.randrange(4, len(body))] = dice.randrange(256)
        case 4:
            at = dice.randrange(4, len(body))
            body[at : at + 4] = struct.pack(">i", dice.choice((-1, 2**31 - 1, -(2**31), 10**6)))
        case 5:
            body = body[: dice.randrange(4, len(body))]
        case 6:
            body += dice.randbytes(dice.randrange(1, 50))
        case 7:
            at = dice.randrange(4, len(body))
            del body[at : at + dice.randrange(1, 9)]
        case 8:
            body[4:8] = dice.randbytes(4)
        case _:
            body[0:4] = struct.pack(">i", dice.choice((-1, 0, 1, 2**31 - 1, 101 * 1024 * 1024)))
            return bytes(body)
    body[0:4] = struct.pack(">i", len(body) - 4)
    return bytes(body)


def attack(port: int, frames: list[bytes], dice: random.Random) -> None:
    """One connection's worth. The broker may close it at any moment; that is a fine answer."""
    with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for frame in frames:
                if dice.random() < 0.005:
                    for position in range(len(frame)):
                        client.send(frame[position : position + 1])
                else:
                    client.sendall(frame)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except TimeoutError:
            raise AssertionError("the broker neither answered nor closed") from None
        except OSError:
            pass


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def check_service(port: int, batch: bytes) -> None:
    with Client(port) as client:
        check_round_trip(client, batch)


def check_round_trip(client: Client, batch: bytes) -> None:
    data = TopicProduceData(
        name="good", partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    produced = client.ask(0, 9, ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]))
    assert isinstance(produced, ProduceResponse)
    row = produced.responses[0].partition_responses[0]
    assert row.error_code == 0
    wanted = FetchTopic(
        topic="good",
        partitions=[
            FetchPartition(partition=0, fetch_offset=row.base_offset, partition_max_bytes=10**6)
        ],
    )
    fetched = client.ask(
        1, 4, FetchRequest(max_wait_ms=1000, min_bytes=1, max_bytes=10**6, topics=[wanted])
    )
    assert isinstance(fetched, FetchResponse)
    records = fetched.responses[0].partitions[0].records
    assert records is not None and len(records) == len(batch)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    overrides = {"auto.create.topics.enable": "false", "num.partitions": "1"}
    with BrokerProcess(tmp_path, overrides=overrides) as running:
        yield running


def test_the_broker_outlives_hostile_frames_and_keeps_serving_others(
    broker: BrokerProcess,
) -> None:
    dice = seeds.chance()
    batch = RandomMessages(dice).batch
    topics = [
        CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in ("good", "hostile")
    ]
    client = Client(broker.port)
    client.ask(19, 4, CreateTopicsRequest(topics=topics, timeout_ms=5000))
    client.socket.close()
    frames = corpus(dice)
    check_service(broker.port, batch)
    memory_at_start = 0
    for sent in range(0, seeds.times(FRAMES), FRAMES_PER_ROUND):
        for _ in range(FRAMES_PER_ROUND // FRAMES_PER_CONNECTION):
            burst = [mutated(dice.choice(frames), dice) for _ in range(FRAMES_PER_CONNECTION)]
            attack(broker.port, burst, dice)
        assert broker.process is not None and broker.process.poll() is None, "died"
        check_service(broker.port, batch)
        memory_at_start = memory_at_start or resident_bytes(broker.pid)
        grown = resident_bytes(broker.pid) - memory_at_start
        assert grown < MEMORY_GROWTH_BYTES_MAX, f"{grown} bytes more after {sent}"
    faults = [line for line in broker.log_text.splitlines() if "Request failed" in line]
    assert not faults, f"a handler broke, {faults[0]}"
    assert "Traceback" not in broker.log_text
