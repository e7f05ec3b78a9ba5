"""Keys and tokens fetched from others: what may be asked, how long, and what is kept meanwhile."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.config.setting_definition import ConfigError
from moldau.net.oauth.allowed_places import Place, place_of
from moldau.net.oauth.key_source import KeyPace, KeySource
from moldau.net.oauth.token_login import Allowed, token_login
from moldau.net.oauth.token_source import TokenPace, TokenSource, due_at_ms
from moldau.net.oauth.web_fetch import BYTES_MAX, FetchFault, Patience, fetch
from moldau.security.oauth.token_requests import HeldToken
from moldau.security.oauth.web_tokens import read_web_token
from moldau.security.sasl.sasl_failures import SaslFailure
from tests.support.eventually import eventually
from tests.support.identity_provider import IdentityProvider, SigningKey, identity_provider


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider(secrets={"alice": "s"}) as provider:
        yield provider


def at(url: str) -> Place:
    return place_of("k", url, [url])


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("https://a/keys", "may not be used before"),
        ("ftp://a/b", "must begin with"),
        ("file://host/etc/passwd", "on this machine"),
        ("http:///x", "must name a host"),
        ("http://u:p@a/", "user name or a password"),
        ("http://a/b c", "without spaces"),
        ("http://a:99999/", "no address"),
        ("http://[/", "no address"),
    ],
)
def test_an_address_must_be_allowed_letter_by_letter(url: str, sentence: str) -> None:
    listed = [] if "may not" in sentence else [url]
    with pytest.raises(ConfigError, match=sentence):
        place_of("k", url, [*listed, "https://a/keys/", "HTTPS://a/keys"])


def test_a_server_that_goes_on_for_ever_is_cut_off() -> None:
    """A byte now and then would keep every single read alive."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(10_000)
                peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while not is_over.wait(0.05):
                    try:
                        peer.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        place = at(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        try:
            with pytest.raises(FetchFault, match="did not answer in time"):
                fetch(place, patience=Patience(0.3, 0.3))
        finally:
            is_over.set()
            thread.join()


def test_a_long_document_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * (BYTES_MAX + 1))
    with pytest.raises(FetchFault, match="longer than"):
        fetch(at((tmp_path / "f").as_uri()))


def test_keys_outlive_their_provider_and_are_asked_for_again(provider: IdentityProvider) -> None:
    async def run() -> None:
        source = KeySource(at(provider.jwks_url), KeyPace(10, 1, 4), lambda: None)
        await source.open()
        try:
            before = source.keys
            await patiently(lambda: provider.key_questions > 3)
            assert source.keys is before, "the same keys must stay the same object"
            provider.status = 503
            provider.keys.append(SigningKey("later", "ES256"))
            await asyncio.sleep(0)
            assert source.keys is before
            provider.status = 200
            await patiently(lambda: len(source.keys.keys) == 2)
        finally:
            await source.close()

    asyncio.run(run())


def test_a_missing_key_is_asked_for_before_its_time(provider: IdentityProvider) -> None:
    async def run() -> None:
        source = KeySource(at(provider.jwks_url), KeyPace(3_600_000, 1, 1), lambda: None)
        await source.open()
        try:
            provider.keys.append(SigningKey("later", "ES256"))
            source.missed("later", 0)
            await patiently(lambda: len(source.keys.keys) == 2)
            asked = provider.key_questions
            source.missed("later", 1)
            source.missed("x" * 2000, 100_000)
            await asyncio.sleep(0.05)
            assert provider.key_questions == asked == 2
        finally:
            await source.close()

    asyncio.run(run())


async def patiently(holds: object) -> None:
    await asyncio.to_thread(eventually, holds)


PACE = TokenPace(0.8, 0.0, 60_000, 300_000, 1, 2)


@pytest.mark.parametrize(
    ("life_s", "due_s"),
    [(3600, 2880), (400, 100), (300, 240), (10, 8), (1000, 700), (3_600_000, 2_880_000)],
)
def test_another_token_is_due_as_in_kafka(life_s: int, due_s: int) -> None:
    assert due_at_ms(HeldToken("t", life_s * 1000), 0, PACE, 0.0) == due_s * 1000


class Server:
    def __init__(self) -> None:
        self.now_ms = 0
        self.asked = 0
        self.fault: FetchFault | None = None
        self.slept: list[float] = []

    def ask(self) -> HeldToken:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return HeldToken(f"t{self.asked}", self.now_ms + 10_000)

    def source(self) -> TokenSource:
        return TokenSource(self.ask, PACE, lambda: self.now_ms, self.slept.append)


def test_a_token_is_kept_until_another_is_due() -> None:
    server = Server()
    source = server.source()
    assert source.token() == source.token() == "t1"
    server.now_ms = 8_000
    assert source.token() == "t2"


def test_an_old_token_does_while_no_other_can_be_had() -> None:
    server = Server()
    source = server.source()
    source.token()
    server.now_ms, server.fault = 9_000, FetchFault("down")
    assert source.token() == "t1"
    assert server.slept == [0.001]
    server.now_ms = 10_000
    with pytest.raises(SaslFailure, match="no token: down"):
        source.token()


def test_a_refusal_is_not_asked_for_twice() -> None:
    server = Server()
    server.fault = FetchFault("401", is_final=True)
    with pytest.raises(SaslFailure):
        server.source().token()
    assert (server.asked, server.slept) == (1, [])


def login_of(settings: dict[str, str], allowed: Allowed) -> str:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **settings}
    config, _ = AdminConfig.parse({"bootstrap.servers": "127.0.0.1:1", **given})
    shown = token_login(config, {}, allowed).start("").first().decode()
    return shown.split("Bearer ")[1].split("\x01")[0]


@pytest.mark.parametrize("way", ["client", "bearer"])
def test_an_assertion_is_signed_for_each_question(
    provider: IdentityProvider, tmp_path: Path, way: str
) -> None:
    key, template = tmp_path / "key.pem", tmp_path / "template.json"
    encryption = BestAvailableEncryption(b"open sesame")
    private = ec.generate_private_key(ec.SECP256R1())
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    template.write_text(json.dumps({"header": {"kid": "k"}, "payload": {"more": 1}}))
    settings = {
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.assertion.algorithm": "es256",
        "sasl.oauthbearer.assertion.claim.iss": "me",
        "sasl.oauthbearer.assertion.private.key.file": str(key),
        "sasl.oauthbearer.assertion.private.key.passphrase": "open sesame",
        "sasl.oauthbearer.assertion.template.file": str(template),
    }
    if way == "bearer":
        settings["sasl.oauthbearer.jwt.retriever.class"] = (
            "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
        )
    allowed = Allowed([provider.token_url], [str(key), str(template)])
    with pytest.raises(SaslFailure, match="invalid_client"):
        # This provider knows secrets only; what it was asked is kept.
        login_of(settings, allowed)
    (asked,) = provider.token_questions
    assertion = read_web_token(asked["assertion" if way == "bearer" else "client_assertion"][0])
    assert assertion.header == {"kid": "k", "alg": "ES256", "typ": "JWT"}
    assert (assertion.claims["iss"], assertion.claims["more"]) == ("me", 1)
    assert assertion.claims["exp"] - assertion.claims["iat"] == 300
    assert asked["grant_type"] == [
        "urn:ietf:params:oauth:grant-type:jwt-bearer" if way == "bearer" else "client_credentials"
    ]


def test_files_are_not_read_that_are_not_allowed(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    """CVE-2025-27817: settings that somebody else has written must not open files or addresses."""
    file = tmp_path / "secret"
    file.write_text("root")
    allowed = Allowed([provider.token_url], [])
    for settings in (
        {"sasl.oauthbearer.token.endpoint.url": file.as_uri()},
        {"sasl.oauthbearer.token.endpoint.url": "http://169.254.169.254/latest"},
        {
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "sasl.oauthbearer.assertion.file": str(file),
        },
        {
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "sasl.oauthbearer.assertion.claim.iss": "me",
            "sasl.oauthbearer.assertion.private.key.file": str(file),
        },
    ):
        with pytest.raises(ConfigError, match="may not be used before"):
            login_of(settings, allowed)


def test_a_file_without_a_token_is_told_without_its_content(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("root:x:0:0")
    url = file.as_uri()
    with pytest.raises(SaslFailure, match="three parts") as refusal:
        login_of({"sasl.oauthbearer.token.endpoint.url": url}, Allowed([url], []))
    assert "root" not in str(refusal.value).replace(str(tmp_path), "")
