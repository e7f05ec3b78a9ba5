"""Quotas on a real broker: who is over its quota waits, others do not, and nothing is lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from moldau.admin import Admin
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from moldau.wire.request_framing import decode_response, encode_request
from moldau.wire.schema import Message
from tests.support.eventually import eventually
from tests.support.services import batch

PRODUCE, FETCH, METADATA, CREATE, DELETE = 0, 1, 3, 19, 20
THROTTLING_QUOTA_EXCEEDED = 89
IDLE_MS = 1_500
WINDOWS_SECONDS = 33

Connect = Callable[[str], "Client"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"connections.max.idle.ms": str(IDLE_MS)}
    with BrokerProcess(tmp_path_factory.mktemp("quotas"), overrides=settings) as process:
        yield process


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        yield admin


class Client:
    """Speaks the protocol and never slows down by itself."""

    def __init__(self, bootstrap: str, client_id: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self._client_id = client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, key: int, version: int, request: Message) -> bytes:
        return encode_request(key, version, 1, self._client_id, request)

    def ask(self, key: int, version: int, request: Message) -> Any:
        self.socket.sendall(self.frame(key, version, request))
        return self.answer(key, version)

    def answer(self, key: int, version: int) -> Any:
        size = int.from_bytes(self._read(4), "big")
        return decode_response(key, version, self._read(size))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the broker has ended the connection"
            data += piece
        return bytes(data)

    def create(self, topic: str) -> None:
        rows = [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=rows, allow_auto_topic_creation=True)
        assert self.ask(METADATA, 9, request).topics[0].error_code == 0


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Connect]:
    made: list[Client] = []

    def one(client_id: str) -> Client:
        made.append(Client(broker.bootstrap, client_id))
        return made[-1]

    yield one
    for client in made:
        client.socket.close()


def written(topic: str, records: bytes, acks: int = 1) -> ProduceRequest:
    rows = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(name=topic, partition_data=rows)]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics)


def read(topic: str, offset: int) -> FetchRequest:
    rows = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)]
    topics = [FetchTopic(topic=topic, partitions=rows)]
    return FetchRequest(max_bytes=1_000_000, min_bytes=1, topics=topics, session_epoch=-1)


@pytest.mark.parametrize("version", [8, 9], ids=["ordinary way", "short way"])
def test_who_is_over_its_quota_is_answered_first_and_then_waits(
    connect: Connect, admin: Admin, version: int
) -> None:
    topic = name = f"writer-{version}"
    admin.alter_client_quotas({(("client-id", name),): {"producer_byte_rate": 20_000}})
    slow, other = connect(name), connect("other")
    slow.create(topic)
    request = slow.frame(PRODUCE, version, written(topic, batch(b"x" * 250_000)))
    slow.socket.sendall(request)
    response = slow.answer(PRODUCE, version)
    answered = time.monotonic()
    # Ten seconds' worth may come at once; what is beyond has to be waited for.
    size = len(request) - 4
    assert response.throttle_time_ms == round((size / 10 - 20_000) / 20_000 * 10_000)
    assert response.responses[0].partition_responses[0].error_code == 0
    # Half a request now and half of it later: all of it is there when the time has come. The wait
    # is longer than a connection may be idle.
    assert response.throttle_time_ms > IDLE_MS
    second = slow.frame(PRODUCE, version, written(topic, batch(b"y")))
    slow.socket.sendall(second[:30])
    assert other.ask(PRODUCE, version, written(topic, batch(b"z"))).throttle_time_ms == 0
    slow.socket.sendall(second[30:])
    response = slow.answer(PRODUCE, version)
    assert time.monotonic() - answered >= size / 20_000 - 10 - 0.05
    assert response.responses[0].partition_responses[0].base_offset == 2
    admin.alter_client_quotas({(("client-id", name),): {"producer_byte_rate": None}})
    assert admin.describe_client_quotas() == {}


def test_who_asks_for_no_answers_waits_as_well(connect: Connect, admin: Admin) -> None:
    admin.alter_client_quotas({(("client-id", "mute"),): {"producer_byte_rate": 20_000}})
    client = connect("mute")
    client.create("mute")
    client.socket.sendall(client.frame(PRODUCE, 9, written("mute", batch(b"x" * 220_000), acks=0)))
    begun = time.monotonic()
    client.ask(METADATA, 9, MetadataRequest(topics=[]))
    assert time.monotonic() - begun >= 0.9
    admin.alter_client_quotas({(("client-id", "mute"),): {"producer_byte_rate": None}})


def test_a_fetch_beyond_the_quota_gets_nothing_and_later_everything(
    connect: Connect, admin: Admin
) -> None:
    writer, reader = connect("writer"), connect("reader")
    writer.create("read")
    for _ in range(4):
        writer.ask(PRODUCE, 9, written("read", batch(b"x" * 90_000)))
    admin.alter_client_quotas({(("user", "ANONYMOUS"),): {"consumer_byte_rate": 20_000}})
    got, waits, offset = 0, [], 0
    begun = time.monotonic()
    while offset < 4:
        response = reader.ask(FETCH, 11, read("read", offset))
        if response.throttle_time_ms:
            waits.append(response.throttle_time_ms)
            assert response.responses == []
            continue
        row = response.responses[0].partitions[0]
        got += len(row.records)
        # No more at once than may ever pass: two batches of 90,000 bytes.
        assert len(row.records) <= 200_000
        offset = 2 if offset == 0 else 4
    admin.alter_client_quotas({(("user", "ANONYMOUS"),): {"consumer_byte_rate": None}})
    assert waits
    assert got == 4 * len(batch(b"x" * 90_000))
    assert time.monotonic() - begun >= sum(waits) / 1000 - 0.05


def test_topics_are_made_and_deleted_only_so_fast(connect: Connect, admin: Admin) -> None:
    admin.alter_client_quotas({(("client-id", "maker"),): {"controller_mutation_rate": 1.0}})
    client = connect("maker")

    def made(name: str, partitions: int, version: int) -> tuple[int, int]:
        topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
        request = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
        response = client.ask(CREATE, version, request)
        return response.topics[0].error_code, response.throttle_time_ms

    # The bucket holds eleven; who takes the last one may take more than there is.
    assert made("many", 12, 6) == (0, 0)
    error, throttle_ms = made("refused", 1, 6)
    assert error == THROTTLING_QUOTA_EXCEEDED
    assert 0 < throttle_ms <= 1_000
    # After that it may, and an older client is served first and waits afterwards.
    assert made("older", 2, 5)[0] == 0
    error, throttle_ms = made("older still", 1, 5)
    assert error == 17  # no name of a topic: that costs nothing
    for topic, expected in (("many", 0), ("older", THROTTLING_QUOTA_EXCEEDED)):
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
        assert client.ask(DELETE, 5, request).responses[0].error_code == expected
    admin.alter_client_quotas({(("client-id", "maker"),): {"controller_mutation_rate": None}})


def test_time_on_the_loop_has_a_quota_too(connect: Connect, admin: Admin) -> None:
    admin.alter_client_quotas({(("client-id", "busy"),): {"request_percentage": 0.01}})
    client = connect("busy")
    # A ten-thousandth of a thread is used up in a moment; a wait is a second at the most.
    waits = []
    while not waits or len(waits) < 2:
        response = client.ask(METADATA, 9, MetadataRequest(topics=[]))
        if response.throttle_time_ms:
            waits.append(response.throttle_time_ms)
    assert max(waits) <= 1_000
    admin.alter_client_quotas({(("client-id", "busy"),): {"request_percentage": None}})
    assert client.ask(METADATA, 9, MetadataRequest(topics=[])).throttle_time_ms == 0


def test_quotas_survive_a_restart(broker: BrokerProcess, admin: Admin) -> None:
    quotas = {
        (("user", "alice"), ("client-id", None)): {"producer_byte_rate": 1024.0},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
    }
    admin.alter_client_quotas(quotas)
    broker.kill()
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap) as again:
        assert again.describe_client_quotas() == quotas
        again.alter_client_quotas(
            {entity: dict.fromkeys(values) for entity, values in quotas.items()}
        )
        assert again.describe_client_quotas() == {}


@pytest.mark.long
def test_a_producer_of_a_megabyte_a_second_gets_just_that(tmp_path: Path) -> None:
    """Kafka's arithmetic lets a window's worth pass at once, so whole windows are looked at."""
    quota = {(("client-id", "steady"),): {"producer_byte_rate": 1_000_000}}
    waited = others_waited = sent = 0
    with BrokerProcess(tmp_path) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas(quota)
        with (
            Client(broker.bootstrap, "steady") as client,
            Client(broker.bootstrap, "free") as other,
        ):
            client.create("steady")
            request = client.frame(PRODUCE, 9, written("steady", batch(b"x" * 50_000)))
            begun = next_at = time.monotonic()
            while time.monotonic() - begun < WINDOWS_SECONDS:
                # Half as much again as it may.
                time.sleep(max(0.0, next_at - time.monotonic()))
                next_at = time.monotonic() + len(request) / 1_500_000
                client.socket.sendall(request)
                waited += client.answer(PRODUCE, 9).throttle_time_ms
                sent += len(request)
                response = other.ask(PRODUCE, 9, written("steady", batch(b"y")))
                others_waited += response.throttle_time_ms
            rate = sent / (time.monotonic() - begun)
    assert waited > 0
    assert others_waited == 0
    assert 900_000 <= rate <= 1_100_000


def test_an_address_that_connects_too_fast_sees_its_connections_end(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas({(("ip", "localhost"),): {"connection_creation_rate": 1}})
        host, _, port = broker.bootstrap.rpartition(":")
        request = encode_request(METADATA, 9, 1, "c", MetadataRequest(topics=[]))

        def is_ended() -> bool:
            with socket.create_connection((host, int(port)), timeout=60) as client:
                client.sendall(request)
                try:
                    return not client.recv(1)
                except ConnectionResetError:
                    return True

        # Ten seconds' worth pass at once, and the name's address is looked up beside the loop.
        assert not is_ended()
        eventually(is_ended)
        admin.alter_client_quotas({(("ip", "localhost"),): {"connection_creation_rate": None}})
