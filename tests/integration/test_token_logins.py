"""Log-ins by signed tokens at a real broker: who gets in, who is told what, what stops it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from moldau import Admin, Consumer, Producer, TopicPartition, errors
from moldau.testing.broker_process import BrokerProcess, BrokerStartError, free_port
from tests.support.identity_provider import (
    AUDIENCE,
    ISSUER,
    IdentityProvider,
    SigningKey,
    claims_for,
    identity_provider,
)

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
HANDLER = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
PREFIX = "listener.name.sasl_plaintext.oauthbearer."
URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
SECONDS_MAX = 30


def settings(port: int, provider: IdentityProvider) -> dict[str, str]:
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{PREFIX}sasl.jaas.config": MODULE,
        f"{PREFIX}sasl.server.callback.handler.class": HANDLER,
        f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        f"{PREFIX}sasl.oauthbearer.expected.issuer": ISSUER,
        f"{PREFIX}sasl.oauthbearer.expected.audience": AUDIENCE,
        URLS: provider.jwks_url,
    }


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider(secrets={"alice": "wonder:land"}) as provider:
        yield provider


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider
) -> Iterator[BrokerProcess]:
    port = free_port()
    process = BrokerProcess(
        tmp_path_factory.mktemp("tokens"), port=port, overrides=settings(port, provider)
    )
    process.spawn()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def client(
    broker: BrokerProcess, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Settings of a client with a secret."""
    monkeypatch.setenv("KAFKA_OPTS", f"-D{URLS}={provider.token_url}")
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.credentials.client.id": "alice",
        "sasl.oauthbearer.client.credentials.client.secret": "wonder:land",
        "sasl.oauthbearer.scope": "write read",
    }


def with_file(
    broker: BrokerProcess, directory: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Settings of a client with a token in a file."""
    (directory / "token").write_text(token)
    url = (directory / "token").as_uri()
    monkeypatch.setenv("KAFKA_OPTS", f"-D{URLS}={url}")
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": MODULE,
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
    }


def test_a_client_with_a_secret_gets_a_token_and_gets_in(
    client: dict[str, str], provider: IdentityProvider
) -> None:
    asked = len(provider.token_questions)
    with Producer(client) as producer:
        told = producer.send("words", b"ahoj").result(SECONDS_MAX)
    with Consumer(client) as consumer:
        consumer.assign([TopicPartition("words", told.partition)])
        consumer.seek(TopicPartition("words", told.partition), told.offset)
        assert [record.value for record in consumer.poll(SECONDS_MAX)] == [b"ahoj"]
    # One for each client, however many connections.
    questions = provider.token_questions[asked:]
    expected = {"grant_type": ["client_credentials"], "scope": ["write read"]}
    assert questions == [expected, expected]


def test_the_id_and_the_secret_may_stand_in_the_log_in_module(client: dict[str, str]) -> None:
    for name in ("id", "secret"):
        del client[f"sasl.oauthbearer.client.credentials.client.{name}"]
    options = 'clientId="alice" clientSecret="wonder:land" scope="x" extension_traceId="1"'
    client["sasl.jaas.config"] = MODULE.replace(";", f" {options};")
    with Admin(client) as admin:
        admin.list_topics()


def test_a_wrong_secret_is_told_at_once_and_never_shown(client: dict[str, str]) -> None:
    client["sasl.oauthbearer.client.credentials.client.secret"] = "hunter2"
    with pytest.raises(errors.SaslAuthenticationError) as refusal, Admin(client) as admin:
        admin.list_topics()
    assert "status 401 (invalid_client)" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


STRANGER = SigningKey("stranger")
FORGED = SigningKey("first")


def refused_tokens(provider: IdentityProvider) -> dict[str, str]:
    now = int(time.time())
    key = provider.keys[0]
    good = claims_for("alice")
    return {
        "expired": key.token({**good, "iat": now - 200, "exp": now - 100}),
        "wrong issuer": key.token({**good, "iss": "https://other.example"}),
        "wrong audience": key.token({**good, "aud": "else"}),
        "bad signature": FORGED.token(good),
        "unknown kid": STRANGER.token(good),
        "no kid": FORGED.token(good, kid=None),
        "alg none": key.token(good, alg="none"),
        "too long": key.token({**good, "padding": "x" * 70_000}),
    }


@pytest.mark.parametrize("fault", refused_tokens(IdentityProvider()))
def test_a_token_that_is_not_good_is_told_at_once(
    broker: BrokerProcess,
    provider: IdentityProvider,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = refused_tokens(provider)[fault]
    # What reads a token for its owner is as strict about length as the broker.
    expected = "no token" if fault == "too long" else "invalid_token"
    chosen = with_file(broker, tmp_path, token, monkeypatch)
    with pytest.raises(errors.SaslAuthenticationError, match=expected), Admin(chosen) as admin:
        admin.list_topics()


def by_confluent(broker: BrokerProcess, token: str) -> tuple[Any, list[Any]]:
    faults: list[Any] = []
    admin = AdminClient(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, time.time() + 3600),
            "error_cb": faults.append,
        }
    )
    admin.poll(1)
    return admin, faults


@pytest.mark.parametrize("fault", ["expired", "unknown kid", "too long"])
def test_librdkafka_is_told_as_well(
    broker: BrokerProcess, provider: IdentityProvider, fault: str
) -> None:
    admin, faults = by_confluent(broker, refused_tokens(provider)[fault])
    deadline = time.monotonic() + SECONDS_MAX
    while not any("invalid_token" in fault.str() for fault in faults):
        assert time.monotonic() < deadline, faults
        admin.poll(0.1)


def test_a_key_that_is_published_later_is_found(
    broker: BrokerProcess, provider: IdentityProvider
) -> None:
    later = SigningKey("later", "ES256")
    provider.keys.append(later)
    # The first try makes the broker look for the key; librdkafka tries again by itself.
    admin, _ = by_confluent(broker, later.token(claims_for("alice")))
    assert admin.list_topics(timeout=SECONDS_MAX).brokers


def test_the_log_names_no_token_and_no_secret(broker: BrokerProcess) -> None:
    text = broker.log_text
    assert "Failed authentication with" in text
    assert "the token is of another issuer" in text
    for secret in ("wonder:land", "hunter2", "eyJ"):
        assert secret not in text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": ""},
            "signatures of tokens cannot be checked without the address of the keys",
        ),
        (
            {f"{PREFIX}sasl.server.callback.handler.class": ""},
            "without it unsigned tokens are accepted",
        ),
        ({f"{PREFIX}sasl.server.callback.handler.class": "a.B"}, "classes of the JVM"),
        ({URLS: ""}, "it may not be used before org.apache.kafka.sasl.oauthbearer.allowed.urls"),
        (
            {f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": "ldap://x/y", URLS: "ldap://x/y"},
            "must begin with one of https, http, file",
        ),
        (
            {
                f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": "file:///etc/hostname",
                URLS: "file:///etc/hostname",
            },
            "publishes no keys: it is not JSON",
        ),
        (
            {f"{PREFIX}sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}.ClientJwtValidator"},
            "it checks no signatures",
        ),
        ({f"{PREFIX}sasl.oauthbearer.jwt.validator.class": "a.B"}, "classes of the JVM"),
        ({f"{PREFIX}sasl.login.class": "a.B"}, "classes of the JVM"),
    ],
)
def test_what_cannot_be_honoured_stops_the_start(
    tmp_path: Path, provider: IdentityProvider, change: dict[str, str], sentence: str
) -> None:
    port = free_port()
    chosen = {**settings(port, provider), **change}
    with pytest.raises(BrokerStartError, match=sentence):
        BrokerProcess(tmp_path, port=port, overrides=chosen).start()


@pytest.mark.parametrize("status", [302, 404, 503])
def test_without_keys_the_broker_does_not_start(tmp_path: Path, status: int) -> None:
    """A redirect is not followed: the address that was allowed is the one that counts."""
    port = free_port()
    with identity_provider(status=status) as provider:
        process = BrokerProcess(tmp_path, port=port, overrides=settings(port, provider))
        with pytest.raises(BrokerStartError, match=f"answered with status {status}"):
            process.start()
        assert provider.key_questions == 0


def test_keys_may_come_from_a_file_that_changes(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [provider.keys[0].public()]}))
    chosen = settings(port, provider) | {
        f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
        URLS: file.as_uri(),
    }
    process = BrokerProcess(tmp_path / "broker", port=port, overrides=chosen)
    process.spawn()
    try:
        with Admin(with_file(process, tmp_path, provider.token("a"), monkeypatch)) as admin:
            admin.list_topics()
        file.write_text(json.dumps({"keys": [STRANGER.public()]}))
        admin, _ = by_confluent(process, STRANGER.token(claims_for("alice")))
        assert admin.list_topics(timeout=SECONDS_MAX).brokers
    finally:
        process.stop()
