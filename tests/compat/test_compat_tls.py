"""Foreign clients speak TLS with real brokers, with certificates that fit and with others."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from moldau.testing.broker_process import BrokerProcess, BrokerStartError, free_ports
from tests.support.certificates import Authority

SECONDS_MAX = 60
LARGE_BYTES = 200 * 1024 * 1024
CA = Authority()
OTHER_CA = Authority("Other CA")
ALICE = CA.issue_user("alice")


class Files:
    """Certificates where clients want them: as files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ca = self._written("ca.pem", CA.certificate_pem)
        self.other_ca = self._written("other.pem", OTHER_CA.certificate_pem)
        self.alice = ALICE.write(directory / "alice.pem")
        self.stranger = OTHER_CA.issue_user("alice").write(directory / "stranger.pem")

    def _written(self, name: str, text: str) -> str:
        (self._directory / name).write_text(text)
        return str(self._directory / name)


class Place(NamedTuple):
    one_way: str
    mutual: str
    plain: str
    files: Files
    process: BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("tls")
    plain, one_way, mutual = free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{one_way},IN://127.0.0.1:{mutual}"
    process = BrokerProcess(
        directory,
        port=plain,
        overrides={
            "listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,IN:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": CA.issue_broker().write(directory / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": CA.certificate_pem.replace("\n", " "),
            "listener.name.in.ssl.client.auth": "required",
            "socket.request.max.bytes": "104857600",
            "log.segment.bytes": "104857600",
        },
    )
    with process:
        places = (f"127.0.0.1:{port}" for port in (one_way, mutual, plain))
        yield Place(*places, Files(directory), process)


def with_confluent(bootstrap: str, ca: str, identity: str | None, topic: str) -> None:
    faults: list[KafkaError] = []
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": ca,
        "error_cb": faults.append,
        "message.timeout.ms": 3_000 if ca.endswith("other.pem") else 20_000,
    }
    if identity is not None:
        settings |= {"ssl.certificate.location": identity, "ssl.key.location": identity}
    producer = Producer(settings)
    delivered: list[bool] = []
    producer.produce(topic, b"by confluent", on_delivery=lambda e, _: delivered.append(e is None))
    producer.flush(SECONDS_MAX)
    if delivered != [True]:
        raise PermissionError(" ".join(fault.str() for fault in faults))


KAFKA_PYTHON = """
import sys
from kafka import KafkaProducer, KafkaConsumer, TopicPartition
bootstrap, ca, identity, topic, timeout_ms = sys.argv[1:]
secured = dict(
    bootstrap_servers=bootstrap,
    security_protocol="SSL",
    ssl_cafile=ca,
    ssl_certfile=identity or None,
    bootstrap_timeout_ms=int(timeout_ms),
)
producer = KafkaProducer(**secured)
producer.send(topic, b"by kafka-python").get(30)
producer.close(timeout=5)
consumer = KafkaConsumer(**secured, auto_offset_reset="earliest", consumer_timeout_ms=30000)
consumer.assign([TopicPartition(topic, 0)])
assert next(consumer).value == b"by kafka-python"
"""


def with_kafka_python(bootstrap: str, ca: str, identity: str | None, topic: str) -> None:
    timeout_ms = "3000" if ca.endswith("other.pem") else "30000"
    words = [sys.executable, "-c", KAFKA_PYTHON, bootstrap, ca, identity or "", topic, timeout_ms]
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * SECONDS_MAX)
    if done.returncode:
        raise PermissionError(done.stderr)


def with_aiokafka(bootstrap: str, ca: str, identity: str | None, topic: str) -> None:
    context = ssl.create_default_context(cafile=ca)
    if identity is not None:
        context.load_cert_chain(identity)

    async def talk() -> None:
        secured = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SSL",
            "ssl_context": context,
        }
        producer = AIOKafkaProducer(**secured)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"by aiokafka")
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **secured, auto_offset_reset="earliest")
        await consumer.start()
        try:
            assert (await consumer.getone()).value == b"by aiokafka"
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(talk(), SECONDS_MAX))


Talk = Callable[[str, str, str | None, str], None]
CLIENTS: dict[str, Talk] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_writes_and_reads_over_tls(broker: Place, client: str) -> None:
    CLIENTS[client](broker.one_way, broker.files.ca, None, f"one-way-{client}")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_shows_its_certificate(broker: Place, client: str) -> None:
    CLIENTS[client](broker.mutual, broker.files.ca, broker.files.alice, f"mutual-{client}")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_refuses_a_broker_of_another_authority(broker: Place, client: str) -> None:
    with pytest.raises(Exception, match=r"(?i)certificate|ssl|NoBrokers|Unable to bootstrap"):
        CLIENTS[client](broker.one_way, broker.files.other_ca, None, "nobody")


def test_without_a_certificate_or_with_a_foreign_one_nobody_is_served(broker: Place) -> None:
    for identity in (None, broker.files.stranger):
        context = ssl.create_default_context(cafile=broker.files.ca)
        if identity is not None:
            context.load_cert_chain(identity)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            _ask_versions(broker.mutual, context)
    assert "SSL handshake failed" in broker.process.log_path.read_text()
    context = ssl.create_default_context(cafile=broker.files.ca)
    context.load_cert_chain(broker.files.alice)
    assert _ask_versions(broker.mutual, context)


def _ask_versions(bootstrap: str, context: ssl.SSLContext) -> bytes:
    host, port = bootstrap.split(":")
    with (
        socket.create_connection((host, int(port)), SECONDS_MAX) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        secured.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        answer = secured.recv(1000)
        if not answer:
            raise ConnectionResetError
        return answer


def test_plain_clients_on_a_tls_port_and_the_reverse_are_turned_away(broker: Place) -> None:
    host, port = broker.one_way.split(":")
    with socket.create_connection((host, int(port)), SECONDS_MAX) as plain:
        plain.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        try:
            # At most the alert of TLS.
            assert len(plain.recv(1000)) < 10
        except ConnectionResetError:
            pass
    context = ssl.create_default_context(cafile=broker.files.ca)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _ask_versions(broker.plain, context)
    # Both ports go on.
    assert _ask_versions(broker.one_way, context)


def test_a_client_is_served_beside_hundreds_of_half_open_handshakes(broker: Place) -> None:
    host, port = broker.one_way.split(":")
    half_open = [socket.create_connection((host, int(port)), SECONDS_MAX) for _ in range(300)]
    for each in half_open[::2]:
        each.sendall(b"\x16\x03\x01\x02\x00\x01")
    with_confluent(broker.one_way, broker.files.ca, None, "beside")
    for each in half_open:
        each.close()


def test_a_large_topic_comes_back_intact(broker: Place) -> None:
    secured = {"security.protocol": "SSL", "ssl.ca.location": broker.files.ca}
    producer = Producer({"bootstrap.servers": broker.one_way, **secured, "batch.size": 1_000_000})
    body = bytes(range(256)) * 400
    count = LARGE_BYTES // len(body)
    for number in range(count):
        producer.produce("large", number.to_bytes(8) + body, partition=0)
        if number % 200 == 0:
            producer.flush(SECONDS_MAX)
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.one_way,
            **secured,
            "group.id": "g",
            "fetch.max.bytes": 100_000_000,
            "max.partition.fetch.bytes": 50_000_000,
            "receive.message.max.bytes": 200_000_000,
        }
    )
    consumer.assign([TopicPartition("large", 0, 0)])
    for number in range(count):
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert value is not None
        assert value[:8] == number.to_bytes(8)
        assert value[8:] == body
    consumer.close()


def sends_by_password(bootstrap: str, ca: str, password: str, timeout_ms: int) -> bool:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": password,
            "ssl.ca.location": ca,
            "message.timeout.ms": timeout_ms,
        }
    )
    outcome: list[bool] = []
    producer.produce("t", b"v", on_delivery=lambda fault, _: outcome.append(fault is None))
    producer.flush(SECONDS_MAX)
    return outcome == [True]


def test_a_log_in_is_asked_for_inside_of_tls(tmp_path: Path) -> None:
    plain, port = free_ports(2)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    ca = Files(tmp_path).ca
    overrides = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{module} required user_alice="word";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": CA.issue_broker().write(tmp_path / "broker.pem"),
        # Of no effect where clients log in, unless the listener's own setting says so.
        "ssl.client.auth": "required",
    }
    with BrokerProcess(tmp_path, port=plain, overrides=overrides):
        assert sends_by_password(f"127.0.0.1:{port}", ca, "word", 20_000)
        assert not sends_by_password(f"127.0.0.1:{port}", ca, "guess", 2_000)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "needs a certificate"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/nowhere"}, "/nowhere cannot be"),
        ({"ssl.cipher.suites": "X"}, "needs a certificate"),
    ],
)
def test_a_broker_that_cannot_speak_tls_does_not_start(
    settings: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    overrides = {
        "listeners": f"SSL://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SSL",
        **settings,
    }
    process = BrokerProcess(tmp_path, port=port, overrides=overrides)
    with pytest.raises(BrokerStartError, match=sentence), process:
        pass
