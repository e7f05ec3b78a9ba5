"""Signed tokens of a real identity provider (oidc-provider): foreign clients and Moldau's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from moldau import Admin, errors
from moldau.config.java_options import ALLOWED_FILES, ALLOWED_URLS
from moldau.security.oauth.token_requests import by_secret, token_of_answer
from moldau.security.oauth.web_tokens import web_part
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.compat.clients.program import build, fresh_copy
from tests.support.apache_kafka import tool_command

pytestmark = pytest.mark.compat

SECONDS_MAX = 60
KAFKA = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{KAFKA}.OAuthBearerLoginModule required;"
PREFIX = "listener.name.sasl_plaintext.oauthbearer."
SECRET = "wonder:land/7"
LIFETIME_SECONDS = 20


class Provider(NamedTuple):
    issuer: str
    keys: str
    token: str
    signing_key: Path
    """Of the client `signer`, who has no secret."""


class Place(NamedTuple):
    broker: BrokerProcess
    provider: Provider

    def settings(self, client_id: str = "alice", secret: str = SECRET) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": MODULE,
            "sasl.login.callback.handler.class": f"{KAFKA}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": self.provider.token,
            "sasl.oauthbearer.client.credentials.client.id": client_id,
            "sasl.oauthbearer.client.credentials.client.secret": secret,
            "sasl.oauthbearer.header.urlencode": "true",
            "sasl.oauthbearer.scope": "read",
        }

    def by_assertion(self) -> dict[str, str]:
        chosen = self.settings("signer")
        del chosen["sasl.oauthbearer.client.credentials.client.secret"]
        return chosen | {
            "sasl.oauthbearer.assertion.algorithm": "ES256",
            "sasl.oauthbearer.assertion.claim.iss": "signer",
            "sasl.oauthbearer.assertion.claim.sub": "signer",
            "sasl.oauthbearer.assertion.claim.aud": self.provider.issuer,
            "sasl.oauthbearer.assertion.claim.jti.include": "true",
            "sasl.oauthbearer.assertion.private.key.file": str(self.provider.signing_key),
        }


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    folder = fresh_copy("oauth")
    build(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], folder)
    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path_factory.mktemp("signer") / "key.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    point = key.public_key().public_numbers()
    public = {"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256"}
    public |= {name: web_part(getattr(point, name).to_bytes(32, "big")) for name in "xy"}
    asked = {
        "lifetimeSeconds": LIFETIME_SECONDS,
        "clients": [
            {"client_id": "alice", "client_secret": SECRET},
            {
                "client_id": "signer",
                "token_endpoint_auth_method": "private_key_jwt",
                "jwks": {"keys": [public]},
            },
        ],
    }
    with subprocess.Popen(
        ["node", "--no-warnings", str(folder / "server.js")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
        told = json.loads(process.stdout.readline())
        yield Provider(told["issuer"], told["keys"], told["token"], path)
        process.terminate()


@pytest.fixture(scope="module")
def place(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    port = free_port()
    settings = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{PREFIX}sasl.jaas.config": MODULE,
        f"{PREFIX}sasl.server.callback.handler.class": (
            f"{KAFKA}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": provider.keys,
        f"{PREFIX}sasl.oauthbearer.expected.issuer": provider.issuer,
        f"{PREFIX}sasl.oauthbearer.expected.audience": "kafka",
        ALLOWED_URLS: provider.keys,
    }
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), port=port, overrides=settings)
    process.spawn()
    try:
        yield Place(process, provider)
    finally:
        process.stop()


@pytest.fixture(autouse=True)
def allowed(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = f"-D{ALLOWED_URLS}={provider.token} -D{ALLOWED_FILES}={provider.signing_key}"
    monkeypatch.setenv("KAFKA_OPTS", flags)


def java(place: Place, settings: Mapping[str, str], scratch: Path, *arguments: str) -> str:
    file = scratch / "java.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    words = tool_command("org.apache.kafka.tools.TopicCommand", scratch)
    words[1:1] = os.environ["KAFKA_OPTS"].split()
    words += ["--bootstrap-server", place.broker.bootstrap, "--command-config", str(file)]
    done = subprocess.run(
        [*words, *arguments], capture_output=True, text=True, timeout=2 * SECONDS_MAX
    )
    return done.stdout + done.stderr


def test_javas_tools_log_in_with_a_secret(place: Place, tmp_path: Path) -> None:
    said = java(place, place.settings(), tmp_path, "--create", "--topic", "java")
    assert "Created topic java" in said


def test_javas_tools_log_in_with_an_assertion(place: Place, tmp_path: Path) -> None:
    said = java(place, place.by_assertion(), tmp_path, "--create", "--topic", "asserted")
    assert "Created topic asserted" in said


def test_java_is_told_that_its_token_is_not_good(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a file with a token that somebody has changed."""
    token = a_token(place.provider)
    head, _, tail = token.rpartition(".")
    file = tmp_path / "token"
    file.write_text(f"{head}.{'A' * len(tail)}")
    chosen = place.settings() | {"sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    monkeypatch.setenv("KAFKA_OPTS", f"-D{ALLOWED_URLS}={file.as_uri()}")
    said = java(place, chosen, tmp_path, "--list")
    assert "SaslAuthenticationException" in said
    assert '{"status":"invalid_token"}' in said


def a_token(provider: Provider) -> str:
    asked = by_secret("alice", SECRET, "read", is_encoded=True)
    request = urllib.request.Request(provider.token, asked.body, dict(asked.headers))
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        return token_of_answer(answer.read())


def oidc(place: Place, secret: str) -> tuple[AdminClient, list[Any]]:
    faults: list[Any] = []
    admin = AdminClient(
        {
            "bootstrap.servers": place.broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "alice",
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": place.provider.token,
            "sasl.oauthbearer.scope": "read",
            "error_cb": faults.append,
        }
    )
    return admin, faults


def test_librdkafka_logs_in_by_its_own_oidc_and_renews_its_session(place: Place) -> None:
    admin, faults = oidc(place, SECRET)
    end = time.monotonic() + 1.5 * LIFETIME_SECONDS
    while time.monotonic() < end:
        # Sessions end with their tokens: longer than one of them it stays logged in.
        assert admin.list_topics(timeout=SECONDS_MAX).brokers
        admin.poll(1)
    assert not [fault for fault in faults if fault.code() == KafkaError._AUTHENTICATION]


BY_KAFKA_PYTHON = """
import sys
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
class Token(AbstractTokenProvider):
    def token(self):
        return sys.argv[2]
producer = KafkaProducer(
    bootstrap_servers=sys.argv[1], security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Token(),
)
print(producer.send("snakes", b"sss").get(30).offset)
"""


def test_kafka_python_logs_in_with_a_token(place: Place) -> None:
    words = [sys.executable, "-c", BY_KAFKA_PYTHON, place.broker.bootstrap]
    done = subprocess.run(
        [*words, a_token(place.provider)], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.stdout == "0\n", done.stderr


@pytest.mark.parametrize("way", ["secret", "assertion"])
def test_moldaus_own_client_logs_in(place: Place, way: str) -> None:
    chosen = place.settings() if way == "secret" else place.by_assertion()
    with Admin({"bootstrap.servers": place.broker.bootstrap, **chosen}) as admin:
        admin.list_topics()


def test_moldaus_own_client_is_told_that_its_secret_is_wrong(place: Place) -> None:
    chosen = place.settings(secret="guess")
    settings = {"bootstrap.servers": place.broker.bootstrap, **chosen}
    told = pytest.raises(errors.SaslAuthenticationError, match="invalid_client")
    with told, Admin(settings) as admin:
        admin.list_topics()
