"""PLAIN: one token, Kafka's sentences, and no difference between unknown and wrong."""

from __future__ import annotations

import pytest

from moldau.security.sasl.plain import PlainClient, PlainServer, check_against
from moldau.security.sasl.sasl_failures import SaslFailure

CHECK = check_against(
    {"user_alice": "wonderland", "username": "broker", "password": "x"}, b"secret"
)


def test_the_right_password_logs_in_with_an_empty_answer() -> None:
    server = PlainServer(CHECK)
    client = PlainClient("alice", "wonderland")
    assert server.evaluate(client.first(), 0) == b""
    assert client.evaluate(b"") is None
    assert client.is_complete
    assert server.logged_in is not None
    assert server.logged_in.name == "alice"


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wonderland", "Authentication failed: Invalid username or password"),
        (b"\0username\0broker", "Authentication failed: Invalid username or password"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\xff\0x", "Invalid SASL/PLAIN response: not in UTF-8"),
        (
            b"bob\0alice\0wonderland",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
    ],
)
def test_a_failure_says_what_kafka_says(token: bytes, told: str) -> None:
    server = PlainServer(CHECK)
    with pytest.raises(SaslFailure) as failure:
        server.evaluate(token, 0)
    assert failure.value.told == told
    assert server.logged_in is None


def test_a_user_without_a_password_cannot_log_in_with_what_stands_for_nobody() -> None:
    assert not check_against({}, b"secret")("nobody", b"secret")
