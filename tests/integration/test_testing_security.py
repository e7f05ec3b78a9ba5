"""`moldau.testing` with `security`: real secured brokers, and settings that let clients in."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

import moldau.testing
from moldau import Admin, errors
from moldau.testing import BrokerProcess, LocalBroker, Security

SECONDS_MAX = 30
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
USER_TESTS = """
import pytest

@pytest.fixture(params=["SASL_SSL", "SSL", "SASL_PLAINTEXT"])
def moldau_broker_security(request):
    return request.param

def test_secured(moldau_broker_in_process):
    moldau_broker_in_process.producer().send("orders", b"1").result(10)
    assert moldau_broker_in_process.read("orders", count=1)[0].value == b"1"
"""


def talk(broker: LocalBroker) -> None:
    broker.create_topic("orders")
    broker.producer().send("orders", b"1").result(SECONDS_MAX)
    assert broker.read("orders", count=1)[0].value == b"1"
    consumer = broker.consumer("orders", group_id="billing")
    assert [record.value for record in consumer.poll(SECONDS_MAX)] == [b"1"]


def topics_by_librdkafka(settings: dict[str, str]) -> set[str]:
    return set(AdminClient(settings).list_topics(timeout=SECONDS_MAX).topics)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_clients_are_let_in_by_the_settings_they_are_given(protocol: str, tmp_path: Path) -> None:
    with moldau.testing.broker(security=protocol, directory=tmp_path) as broker:
        talk(broker)
        assert "orders" in topics_by_librdkafka(broker.librdkafka_settings)
        nobody = {"bootstrap.servers": broker.bootstrap, "default.api.timeout.ms": 2000}
        with pytest.raises(errors.KafkaError), Admin(nobody, request_timeout_ms=1000) as admin:
            admin.list_topics()
        before = broker.client_settings
        broker.restart()
        assert broker.client_settings == before
        assert broker.read("orders", count=1)[0].value == b"1"
        files = (tmp_path / "security").glob("*")
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} <= {0o600}


def test_every_mechanism_knows_every_user(tmp_path: Path) -> None:
    users = {"alice": 'quote" and \\ slash', "bob": "builder"}
    security = Security("SASL_PLAINTEXT", mechanisms=MECHANISMS, users=users)
    with LocalBroker(tmp_path, in_process=True, security=security) as broker:
        where = {"bootstrap.servers": broker.bootstrap}
        for mechanism in MECHANISMS:
            for user in users:
                with Admin(where | security.client_settings(user, mechanism)) as admin:
                    assert list(admin.list_topics()) == []
                topics_by_librdkafka(where | security.librdkafka_settings(user, mechanism))
        with pytest.raises(ValueError, match="no user carol; there are alice, bob"):
            security.client_settings("carol")


def test_a_certificate_may_be_asked_of_clients(tmp_path: Path) -> None:
    security = Security("SSL", client_auth="required", users={"alice": ""})
    with LocalBroker(tmp_path, security=security) as broker:
        talk(broker)
        assert "orders" in topics_by_librdkafka(broker.librdkafka_settings)
        bare = {k: v for k, v in broker.client_settings.items() if "keystore" not in k}
        with Admin(bare) as admin, pytest.raises(errors.SslAuthenticationError):
            admin.list_topics()


def test_a_principal_is_the_name_in_the_certificate(tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:CN=alice",
    }
    security = Security("SSL", client_auth="required", users={"alice": ""})
    with LocalBroker(tmp_path, settings, in_process=True, security=security) as broker:
        broker.create_topic("orders")
        where = {"bootstrap.servers": broker.bootstrap}
        with Admin(where | security.client_settings("mallory")) as admin:
            assert list(admin.list_topics()) == []


def test_the_bare_process_can_be_secured(tmp_path: Path) -> None:
    security = Security()
    with BrokerProcess(tmp_path, security=security) as broker:
        settings = {"bootstrap.servers": broker.bootstrap, **security.client_settings()}
        with Admin(settings) as admin:
            assert list(admin.list_topics()) == []
        secrets = [*security.users.values()]
        assert not [secret for secret in secrets if secret in broker.log_text]
        assert not [secret for secret in secrets if secret in repr(security)]


def test_aimed_faults_need_requests_that_can_be_seen(tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "dark", in_process=True, security="SSL") as broker:
        producer = broker.producer()
        producer.send("orders", b"1").result(SECONDS_MAX)
        with pytest.raises(ValueError, match="under TLS faults cannot be aimed at requests"):
            broker.faults.lose_answers("Produce")
        with pytest.raises(ValueError, match="aimed at one client"):
            broker.faults.drop_connections("one")
        assert broker.faults.drop_connections() > 0
        assert producer.send("orders", b"2").result(SECONDS_MAX).offset == 1
    with LocalBroker(tmp_path / "light", in_process=True, security="SASL_PLAINTEXT") as broker:
        producer = broker.producer()
        producer.send("orders", b"1").result(SECONDS_MAX)
        lost = broker.faults.lose_answers("Produce")
        assert producer.send("orders", b"2").result(SECONDS_MAX).offset == 1
        assert lost.hits == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"protocol": "TLS"}, "protocol is 'TLS', must be one of SSL, SASL_SSL, SASL_PLAINTEXT"),
        ({"mechanisms": ["CRAM-MD5"]}, "mechanism is 'CRAM-MD5'"),
        ({"mechanisms": []}, "a log-in needs a mechanism"),
        ({"client_auth": "maybe"}, "client_auth is 'maybe'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(words: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Security(**words)  # type: ignore[arg-type]


def test_the_fixtures_take_a_protocol(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout
