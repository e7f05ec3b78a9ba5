"""GSSAPI: the order of its tokens, for Java's clients and for all others; and its settings.

The tickets here are made up; with a real KDC they are tested by foreign clients.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

import pytest

from moldau.config.setting_definition import ConfigError
from moldau.net.sasl.kerberos import kerberos_login, kerberos_options, library
from moldau.security.naming.kerberos_names import NoRuleApplies
from moldau.security.sasl.gssapi import OFFER, GssapiClient, GssapiServer
from moldau.security.sasl.sasl_connection import SaslConnection, SaslRules
from moldau.security.sasl.sasl_failures import SaslFailure, SaslInterrupted

NAME = "alice@EXAMPLE.COM"


class Tickets:
    """One side of an exchange that answers what it is told to answer."""

    def __init__(self, *answers: bytes | None, fault: SaslFailure | None = None) -> None:
        self._answers = list(answers)
        self._fault = fault

    @property
    def is_complete(self) -> bool:
        return not self._answers

    def step(self, token: bytes | None) -> bytes | None:
        if self._fault is not None:
            raise self._fault
        return self._answers.pop(0)

    def peer(self) -> str:
        return NAME

    def wrap(self, content: bytes) -> bytes:
        return b"wrapped " + content

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(b"wrapped "):
            raise SaslFailure("Kerberos: not wrapped")
        return token.removeprefix(b"wrapped ")


def user_of(name: str) -> str:
    return name.partition("@")[0]


def wrapped(content: bytes) -> bytes:
    return b"wrapped " + content


def test_java_gets_the_offer_at_once_for_it_wants_no_proof() -> None:
    server = GssapiServer(Tickets(None), user_of)
    assert server.evaluate(b"ticket", 0) == wrapped(OFFER)
    assert server.logged_in is None
    assert server.evaluate(wrapped(OFFER + b"alice"), 0) == b""
    assert server.logged_in == ("alice", False, None)


def test_others_get_the_proof_and_say_nothing_before_the_offer() -> None:
    server, client = GssapiServer(Tickets(b"proof"), user_of), GssapiClient(Tickets(b"ticket", b""))
    said = client.first()
    heard = []
    while not client.is_complete:
        heard.append(server.evaluate(said, 0))
        answer = client.evaluate(heard[-1])
        assert (answer is None) == client.is_complete
        said = answer or b""
    assert heard == [b"proof", wrapped(OFFER), b""]
    assert server.logged_in == ("alice", False, None)


@pytest.mark.parametrize(
    "choice", [b"", b"\x01\x00\x00", b"\x02\x00\x00\x00", b"\x00\x00\x00\x00", b"\x03\x00\x00\x00"]
)
def test_a_layer_that_was_not_offered_is_refused(choice: bytes) -> None:
    server = GssapiServer(Tickets(None), user_of)
    server.evaluate(b"ticket", 0)
    with pytest.raises(SaslFailure, match="not offered"):
        server.evaluate(wrapped(choice), 0)


def test_a_log_in_goes_on_after_no_failure() -> None:
    server = GssapiServer(Tickets(None), user_of)
    server.evaluate(b"ticket", 0)
    with pytest.raises(SaslFailure, match="not wrapped"):
        server.evaluate(b"x", 0)
    with pytest.raises(SaslFailure, match="after the end"):
        server.evaluate(wrapped(OFFER), 0)
    assert server.logged_in is None


def test_something_in_the_place_of_nothing_is_refused() -> None:
    server = GssapiServer(Tickets(b"proof"), user_of)
    server.evaluate(b"ticket", 0)
    with pytest.raises(SaslFailure, match="nothing more to say"):
        server.evaluate(b"more", 0)


def test_a_name_without_a_rule_cannot_log_in() -> None:
    def nobody(name: str) -> str:
        raise NoRuleApplies(f"No rules apply to {name}")

    server = GssapiServer(Tickets(None), nobody)
    server.evaluate(b"ticket", 0)
    with pytest.raises(SaslFailure, match="No rules apply"):
        server.evaluate(wrapped(OFFER), 0)


@pytest.mark.parametrize("offer", [b"\x02\x00\x00\x00", b"\x01", b""])
def test_a_client_takes_no_layer(offer: bytes) -> None:
    client = GssapiClient(Tickets(b"ticket"))
    client.first()
    with pytest.raises(SaslFailure, match="layer"):
        client.evaluate(wrapped(offer))


def test_a_client_hears_nothing_after_the_end() -> None:
    client = GssapiClient(Tickets(b"ticket"))
    client.first()
    client.evaluate(wrapped(OFFER))
    with pytest.raises(SaslFailure, match="after the end"):
        client.evaluate(b"more")


@pytest.mark.parametrize(
    ("fault", "is_silent"), [(SaslFailure("x"), False), (SaslInterrupted("x"), True)]
)
def test_what_another_try_may_mend_is_not_told(fault: SaslFailure, is_silent: bool) -> None:
    def start(_: str) -> GssapiServer:
        return GssapiServer(Tickets(None, fault=fault), user_of)

    connection = SaslConnection(SaslRules(("GSSAPI",), start, lambda _: 0))
    connection.handshake("GSSAPI", 1, 0)
    answer = connection.authenticate(b"ticket", 0)
    assert answer.is_silent == is_silent
    assert answer.failure == "x"
    assert "invalid credentials with SASL mechanism GSSAPI" in (answer.message or "")


KEY = "sasl.jaas.config"
TABLE = {"useKeyTab": "true", "keyTab": "/a", "principal": NAME}


@pytest.mark.parametrize(
    ("options", "setting", "sentence"),
    [
        ({"serviceName": "a"}, "b", "conflicting serviceName values"),
        ({}, None, "no serviceName defined"),
        ({"serviceName": "a", "tryFirstPass": "true"}, None, "has no option tryFirstPass"),
    ],
)
def test_options_that_make_no_sense_are_told_so(
    options: Mapping[str, str], setting: str | None, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        kerberos_options(KEY, options, setting, None)


def test_the_service_may_stand_in_the_module_or_beside_it() -> None:
    assert kerberos_options(KEY, {**TABLE, "serviceName": "kafka"}, None, None).service == "kafka"
    assert kerberos_options(KEY, TABLE, "kafka", None).key_table == "/a"
    assert kerberos_options(KEY, {"useTicketCache": "TRUE"}, "kafka", None).ticket_cache == ""


def test_without_the_package_one_sentence_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "gssapi":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    for ask in (lambda: library(KEY), lambda: kerberos_login(KEY, TABLE, "kafka", None)):
        with pytest.raises(ConfigError, match=r"pip install 'moldau\[gssapi\]'"):
            ask()
