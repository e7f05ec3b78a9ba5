"""OAUTHBEARER: the messages, the two steps of a refusal, and the check of unsigned tokens."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from moldau.security.sasl.oauthbearer import (
    BearerToken,
    IllegalToken,
    OAuthBearerClient,
    OAuthBearerServer,
    read_client_first,
)
from moldau.security.sasl.sasl_failures import SaslFailure
from moldau.security.sasl.unsecured_token import unsecured_validator

NOW = 1_700_000_000_000


def part(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def unsigned(header: dict[str, Any] | None = None, **claims: Any) -> str:
    return f"{part(header or {'alg': 'none'})}.{part(claims)}."


GOOD = unsigned(sub="alice", exp=NOW // 1000 + 60)


def test_a_good_token_logs_in_until_it_expires() -> None:
    server = OAuthBearerServer(unsecured_validator({}))
    client = OAuthBearerClient(GOOD, {"traceId": "1 2"})
    assert server.evaluate(client.first(), NOW) == b""
    assert client.evaluate(b"") is None
    assert client.is_complete
    assert server.logged_in is not None
    assert server.logged_in == ("alice", False, NOW + 60_000)


def test_a_refused_token_takes_two_steps() -> None:
    server = OAuthBearerServer(unsecured_validator({}))
    client = OAuthBearerClient(unsigned(sub="alice", exp=NOW // 1000 - 1))
    told = server.evaluate(client.first(), NOW)
    assert told == b'{"status":"invalid_token"}'
    acknowledged = client.evaluate(told)
    assert acknowledged == b"\x01"
    with pytest.raises(SaslFailure) as failure:
        server.evaluate(acknowledged, NOW)
    assert failure.value.told == '{"status":"invalid_token"}'
    assert server.logged_in is None


def test_a_refused_token_has_no_second_try() -> None:
    server = OAuthBearerServer(unsecured_validator({}))
    server.evaluate(OAuthBearerClient(unsigned(sub="a", exp=1)).first(), NOW)
    with pytest.raises(SaslFailure):
        server.evaluate(OAuthBearerClient(GOOD).first(), NOW)


def test_a_missing_scope_is_named() -> None:
    server = OAuthBearerServer(unsecured_validator({"unsecuredValidatorRequiredScope": "a b"}))
    token = unsigned(sub="alice", exp=NOW // 1000 + 60, scope=["a"])
    told = server.evaluate(OAuthBearerClient(token).first(), NOW)
    assert json.loads(told) == {"status": "insufficient_scope", "scope": "a b"}


@pytest.mark.parametrize("scope", ["b a", ["a", "b", "c"]])
def test_a_scope_is_a_text_or_a_list(scope: Any) -> None:
    validate = unsecured_validator({"unsecuredValidatorRequiredScope": "a b"})
    token = unsigned(sub="alice", exp=NOW // 1000 + 60, scope=scope)
    assert validate(token, NOW).name == "alice"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.b.c",
        "..",
        GOOD + "x",
        unsigned({"alg": "RS256"}, sub="alice", exp=NOW),
        unsigned({"typ": "JWT"}, sub="alice", exp=NOW),
        unsigned(exp=NOW),
        unsigned(sub="", exp=NOW // 1000 + 60),
        unsigned(sub=5, exp=NOW // 1000 + 60),
        unsigned(sub="alice"),
        unsigned(sub="alice", exp="soon"),
        unsigned(sub="alice", exp=True),
        unsigned(sub="alice", exp=NOW // 1000),
        unsigned(sub="alice", exp=NOW // 1000 + 60, iat=NOW // 1000 + 30),
        unsigned(sub="alice", exp=NOW // 1000 + 60, scope={"a": 1}),
        f"{part([])}.{part({})}.",
        f"{base64.urlsafe_b64encode(b'[' * 60000).decode()}.e30.",
    ],
)
def test_an_unsigned_token_must_be_whole_and_in_time(token: str) -> None:
    with pytest.raises(IllegalToken) as fault:
        unsecured_validator({})(token, NOW)
    assert token == "" or token not in str(fault.value)


def test_the_clock_may_be_off_by_what_is_allowed() -> None:
    token = unsigned(sub="alice", exp=NOW // 1000 - 5)
    options = {"unsecuredValidatorAllowableClockSkewMs": "10000"}
    assert unsecured_validator(options)(token, NOW).name == "alice"


def test_another_claim_may_hold_the_name() -> None:
    token = unsigned(email="a@b", exp=NOW // 1000 + 60)
    options = {"unsecuredValidatorPrincipalClaimName": "email"}
    assert unsecured_validator(options)(token, NOW) == BearerToken("a@b", NOW + 60_000)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01k1=x\x01auth=Bearer abc\x01\x01",
    ],
)
def test_a_malformed_first_message_is_a_failure(message: bytes) -> None:
    with pytest.raises(SaslFailure):
        read_client_first(message)


def test_the_scheme_may_be_in_any_case_and_extensions_are_read() -> None:
    first = read_client_first(b"n,a=al=2Cice,\x01x=1 2\x01auth=bEaReR abc\x01\x01")
    assert first.authorization_id == "al,ice"
    assert first.token == "abc"
    assert first.extensions == {"x": "1 2"}
    assert "abc" not in repr(first)


def test_nobody_logs_in_for_somebody_else() -> None:
    server = OAuthBearerServer(unsecured_validator({}))
    with pytest.raises(SaslFailure, match=r"\(bob\).*\(alice\)"):
        server.evaluate(f"n,a=bob,\x01auth=Bearer {GOOD}\x01\x01".encode(), NOW)


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": "ä"}, {"a": ""}])
def test_a_client_refuses_extensions_that_cannot_be_sent(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="extension"):
        OAuthBearerClient("abc", extensions)
