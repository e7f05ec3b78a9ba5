"""Log-ins by tokens whose server shows a certificate of a private authority: who trusts it gets in,
and what secures the listener says nothing about the token server."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Admin, errors
from moldau.testing.broker_process import BrokerProcess, BrokerStartError, free_port
from tests.integration.test_token_logins import MODULE, PREFIX, URLS, settings
from tests.support.certificates import Authority
from tests.support.identity_provider import IdentityProvider, identity_provider

JAAS = f"{PREFIX}sasl.jaas.config"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("private")


@pytest.fixture(scope="module")
def provider(home: Path) -> Iterator[IdentityProvider]:
    authority = Authority()
    (home / "ca.pem").write_text(authority.certificate_pem)
    (home / "other.pem").write_text(Authority("Other CA").certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue_broker().write(home / "server.pem"))
    with identity_provider(context, secrets={"alice": "s"}) as provider:
        yield provider


def module(home: Path, trusted: str, **more: str) -> str:
    options = {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{home / trusted}", **more}
    words = " ".join(f'{key}="{value}"' for key, value in options.items())
    return MODULE.replace(";", f" {words};")


@pytest.fixture(scope="module")
def broker(home: Path, provider: IdentityProvider) -> Iterator[BrokerProcess]:
    port = free_port()
    chosen = {**settings(port, provider), JAAS: module(home, "ca.pem")}
    process = BrokerProcess(home / "broker", port=port, overrides=chosen)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def client(broker: BrokerProcess, provider: IdentityProvider, jaas: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.credentials.client.id": "alice",
        "sasl.oauthbearer.client.credentials.client.secret": "s",
    }


def test_keys_and_tokens_come_over_tls_of_a_private_authority(
    home: Path, broker: BrokerProcess, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-D{URLS}={provider.token_url}")
    with Admin(client(broker, provider, module(home, "ca.pem"))) as admin:
        admin.list_topics()


@pytest.mark.parametrize("jaas", ["other", "none"])
def test_a_client_gives_its_secret_to_no_server_that_it_does_not_trust(
    home: Path,
    broker: BrokerProcess,
    provider: IdentityProvider,
    jaas: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-D{URLS}={provider.token_url}")
    asked = len(provider.token_questions)
    chosen = module(home, "other.pem") if jaas == "other" else MODULE
    with (
        pytest.raises(errors.SaslAuthenticationError, match="certificate verify failed"),
        Admin(client(broker, provider, chosen)) as admin,
    ):
        admin.list_topics()
    assert len(provider.token_questions) == asked


@pytest.mark.parametrize(
    ("trusted", "sentence"),
    [
        ("other.pem", "certificate verify failed"),
        ("missing.pem", "TLS to the token server: .*missing.pem"),
    ],
)
def test_a_broker_takes_no_keys_from_a_server_that_it_does_not_trust(
    home: Path, provider: IdentityProvider, tmp_path: Path, trusted: str, sentence: str
) -> None:
    port = free_port()
    chosen = {**settings(port, provider), JAAS: module(home, trusted)}
    with pytest.raises(BrokerStartError, match=sentence):
        BrokerProcess(tmp_path, port=port, overrides=chosen).start()


def test_an_option_that_is_not_known_stops_the_start(
    home: Path, provider: IdentityProvider, tmp_path: Path
) -> None:
    port = free_port()
    chosen = {**settings(port, provider), JAAS: module(home, "ca.pem", **{"ssl.trust": "all"})}
    with pytest.raises(BrokerStartError, match=r"option ssl\.trust is not known"):
        BrokerProcess(tmp_path, port=port, overrides=chosen).start()
