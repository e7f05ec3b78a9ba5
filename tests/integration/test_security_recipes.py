"""Every recipe of docs/security.md works as it stands there; only paths and ports are others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Admin, Consumer, Producer, TopicPartition, errors
from moldau.broker.access.first_access import credentials_of, write_first_access
from moldau.config.java_options import ALLOWED_URLS
from moldau.config.properties import parse_properties
from moldau.net.tls.authority import Authority
from moldau.testing.broker_process import HOST, BrokerProcess, free_port
from tests.support.identity_provider import IdentityProvider, identity_provider

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
SECONDS_MAX = 30
ALL_LINES = re.DOTALL | re.MULTILINE
RECIPES = {
    title: blocks
    for title, text in re.findall(
        r"^### (.+?)\n(.*?)(?=^##)", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    if len(blocks := re.findall(r"^```properties\n(.*?)^```", text, ALL_LINES)) == 2
}
GSSAPI_RECIPE = RECIPES.pop("GSSAPI (Kerberos)")
"""It needs a KDC: the tests of Kerberos run it."""
AUTHORITY = Authority.create("Recipes' CA", 1)
USERS = {"broker": "brokers-own", "alice": "wonderland"}


def test_the_page_has_a_recipe_for_every_mechanism() -> None:
    expected = ["TLS", "Mutual TLS", "PLAIN", "SCRAM", "OAUTHBEARER for development", "OAUTHBEARER"]
    assert [title for title in RECIPES if title in expected] == expected


def settings_of(block: str, directory: Path, port: int, provider: str) -> dict[str, str]:
    text = block.replace("/etc/moldau", str(directory)).replace(":9093", f":{port}")
    return parse_properties(text.replace("https://login.example", provider))


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider(secrets=USERS) as provider:
        provider.more_claims["iss"] = provider.url
        yield provider


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_works_as_it_stands_on_the_page(
    title: str, tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    broker, client = (settings_of(block, tmp_path, port, provider.url) for block in RECIPES[title])
    monkeypatch.setenv("KAFKA_OPTS", f"-D{ALLOWED_URLS}={provider.token_url}")
    (tmp_path / "ca.pem").write_text(AUTHORITY.identity.certificate)
    (tmp_path / "broker.pem").write_text(AUTHORITY.issue_broker("broker", [HOST], 1).together)
    (tmp_path / "alice.pem").write_text(AUTHORITY.issue_client("alice", 1).together)
    process = BrokerProcess(tmp_path / "broker", port=port, overrides=broker)
    write_first_access(str(process.data), credentials_of(USERS))
    process.spawn()
    try:
        settings = {"bootstrap.servers": process.bootstrap, **client}
        talk(settings)
        wrong = {key: text.replace("wonderland", "glass") for key, text in settings.items()}
        if wrong != settings:
            with pytest.raises(errors.SaslAuthenticationError):
                talk(wrong)
    finally:
        process.stop()


def talk(settings: dict[str, str]) -> None:
    """The broker may still be starting: a client that is refused a connection tries again."""
    with Admin(settings) as admin:
        admin.list_topics()
    with Producer(settings) as producer:
        told = producer.send("words", b"ahoj").result(SECONDS_MAX)
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition("words", told.partition)])
        consumer.seek(TopicPartition("words", told.partition), told.offset)
        assert [record.value for record in consumer.poll(SECONDS_MAX)] == [b"ahoj"]
