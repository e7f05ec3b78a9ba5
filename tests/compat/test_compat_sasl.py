"""Foreign clients log in to real brokers: with the right password, and with everything else."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from moldau.testing.broker_process import BrokerProcess, BrokerStartError, free_ports

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD = "wonder,land=7"
SECONDS_MAX = 30


def settings(port: int, sasl_port: int, mechanisms: str) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "sasl.enabled.mechanisms": mechanisms,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required username="x" password="y" user_alice="{PASSWORD}";'
        ),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }


class Place(NamedTuple):
    plain: str
    sasl: str
    process: BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    port, sasl_port = free_ports(2)
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
    process = BrokerProcess(
        tmp_path_factory.mktemp("sasl"),
        port=port,
        overrides=settings(port, sasl_port, mechanisms),
    )
    with process:
        add_user(process.bootstrap, "alice", PASSWORD)
        yield Place(process.bootstrap, f"127.0.0.1:{sasl_port}", process)


def add_user(bootstrap: str, name: str, password: str, **options: Any) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **options})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(mechanism, 4096), password.encode()
        )
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(SECONDS_MAX)


def with_confluent(bootstrap: str, mechanism: str, user: str, password: str) -> None:
    faults: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": faults.append,
        }
    )
    done: list[Any] = []
    producer.produce("words", b"v", on_delivery=lambda fault, _: done.append(fault))
    deadline = time.monotonic() + SECONDS_MAX
    while not done and not any(f.code() == KafkaError._AUTHENTICATION for f in faults):
        assert time.monotonic() < deadline, f"neither delivered nor refused: {faults}"
        producer.poll(0.1)
    if not done:
        producer.purge()
        raise PermissionError(str(faults))
    assert done == [None]


SENDS_BY_KAFKA_PYTHON = """
import logging, sys
logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
from kafka import KafkaProducer
bootstrap, mechanism, user, password, timeout_ms = sys.argv[1:]
producer = KafkaProducer(
    bootstrap_servers=bootstrap,
    bootstrap_timeout_ms=int(timeout_ms),
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism=mechanism,
    sasl_plain_username=user,
    sasl_plain_password=password,
)
producer.send("words", b"v").get(30)
producer.close(timeout=5)
"""


def with_kafka_python(bootstrap: str, mechanism: str, user: str, password: str) -> None:
    """It tries again until its time is up, says only in its log why it could not log in, and
    leaves its sockets open: so it gets a process of its own."""
    timeout_ms = 30_000 if (user, password) == ("alice", PASSWORD) else 1_000
    words = [sys.executable, "-c", SENDS_BY_KAFKA_PYTHON, bootstrap, mechanism, user, password]
    done = subprocess.run(
        [*words, str(timeout_ms)], capture_output=True, text=True, timeout=2 * SECONDS_MAX
    )
    if done.returncode:
        raise PermissionError(done.stderr)


def with_aiokafka(bootstrap: str, mechanism: str, user: str, password: str) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            await producer.send_and_wait("words", b"v")
        except AiokafkaError as fault:
            raise PermissionError(repr(fault)) from fault
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), SECONDS_MAX))


Send = Callable[[str, str, str, str], None]
CLIENTS: dict[str, Send] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_right_password_lets_a_client_in(broker: Place, client: str, mechanism: str) -> None:
    CLIENTS[client](broker.sasl, mechanism, "alice", PASSWORD)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("user", "password"), [("alice", "guess"), ("nobody", PASSWORD)])
def test_a_wrong_password_and_an_unknown_user_are_told_so(
    broker: Place,
    client: str,
    mechanism: str,
    user: str,
    password: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(PermissionError) as refusal:
        CLIENTS[client](broker.sasl, mechanism, user, password)
    # aiokafka says why in its log only.
    said = f"{refusal.value} {caplog.text}"
    assert "Authentication failed" in said, "not told why"


def test_a_mechanism_that_is_not_enabled_is_refused_with_the_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port, sasl_port = free_ports(2)
    chosen = settings(port, sasl_port, "PLAIN")
    with BrokerProcess(tmp_path, port=port, overrides=chosen):
        for send in CLIENTS.values():
            with pytest.raises(PermissionError) as refusal:
                send(f"127.0.0.1:{sasl_port}", "SCRAM-SHA-256", "alice", "guess")
            said = f"{refusal.value} {caplog.text}"
            assert "Mechanism" in said or "mechanism" in said


def unsigned(**claims: Any) -> str:
    parts = [json.dumps({"alg": "none"}), json.dumps(claims)]
    coded = [base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts]
    return f"{coded[0]}.{coded[1]}."


def test_an_unsigned_token_logs_in_where_oauthbearer_is_enabled(broker: Place) -> None:
    def token(_: str) -> tuple[str, float]:
        expiry = time.time() + 3600
        return unsigned(sub="alice", exp=expiry), expiry

    admin = AdminClient(
        {
            "bootstrap.servers": broker.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": token,
        }
    )
    admin.poll(1)
    assert admin.list_topics(timeout=SECONDS_MAX).brokers


def test_whoever_does_not_log_in_is_not_served(broker: Place) -> None:
    admin = AdminClient({"bootstrap.servers": broker.sasl, "socket.timeout.ms": "2000"})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)


def test_a_new_user_is_known_at_once_and_a_changed_password_replaces_the_old(
    broker: Place,
) -> None:
    add_user(broker.plain, "bob", "first")
    with_aiokafka(broker.sasl, "SCRAM-SHA-256", "bob", "first")
    add_user(broker.plain, "bob", "second")
    with_aiokafka(broker.sasl, "SCRAM-SHA-256", "bob", "second")
    with pytest.raises(PermissionError):
        with_aiokafka(broker.sasl, "SCRAM-SHA-256", "bob", "first")


def test_users_outlive_a_kill(tmp_path: Path) -> None:
    port, sasl_port = free_ports(2)
    broker = BrokerProcess(
        tmp_path, port=port, overrides=settings(port, sasl_port, "SCRAM-SHA-512")
    )
    with broker:
        add_user(broker.bootstrap, "alice", PASSWORD)
        broker.kill()
        broker.start()
        with_confluent(f"127.0.0.1:{sasl_port}", "SCRAM-SHA-512", "alice", PASSWORD)


def test_no_secret_gets_into_the_log(broker: Place) -> None:
    with pytest.raises(PermissionError):
        with_aiokafka(broker.sasl, "PLAIN", "alice", "hunter2hunter2")
    text = broker.process.log_text
    assert "Failed authentication with" in text
    assert "Invalid username or password" in text
    for secret in ("hunter2", PASSWORD, "stored_key"):
        assert secret not in text


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "the key table of GSSAPI stands here"),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "a.b.C required;"},
            "the login module of a JAAS entry is not one of",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": ""},
            "users and passwords of PLAIN stand here",
        ),
        (
            {"listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": "x.Y"},
            "classes of the JVM cannot be loaded",
        ),
    ],
)
def test_what_cannot_be_honoured_stops_the_start(
    tmp_path: Path, overrides: dict[str, str], sentence: str
) -> None:
    port, sasl_port = free_ports(2)
    chosen = {**settings(port, sasl_port, "PLAIN,OAUTHBEARER"), **overrides}
    with pytest.raises(BrokerStartError, match=sentence):
        BrokerProcess(tmp_path, port=port, overrides=chosen).start()
