"""A log-in to ZooKeeper: the example of RFC 2831, and servers that are not what they seem."""

from __future__ import annotations

import pytest

from moldau.security.sasl.digest_md5 import CHALLENGE_LENGTH_MAX, DigestMd5Client
from moldau.security.sasl.sasl_failures import SaslFailure

CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,'
    b"charset=utf-8"
)


def client(name: str = "chris", password: str = "secret") -> DigestMd5Client:
    return DigestMd5Client(
        name, password, "OA6MHXh6VqTrRk", service="imap", host="elwood.innosoft.com"
    )


def test_the_example_of_the_rfc_is_answered_as_there() -> None:
    machine = client()
    assert machine.first() == b""
    answer = machine.evaluate(CHALLENGE)
    assert answer is not None
    assert sorted(answer.decode().split(",")) == sorted(
        [
            "charset=utf-8",
            'username="chris"',
            'realm="elwood.innosoft.com"',
            'nonce="OA6MG9tEQGm2hh"',
            "nc=00000001",
            'cnonce="OA6MHXh6VqTrRk"',
            'digest-uri="imap/elwood.innosoft.com"',
            "response=d388dad90d4bbd760a152321f2143af7",
            "qop=auth",
        ]
    )
    assert machine.evaluate(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None
    assert machine.is_complete


@pytest.mark.parametrize("answer", [b"", b"rspauth=ea40", b'rspauth="' + b"0" * 32 + b'"'])
def test_a_server_that_does_not_know_the_password_is_not_believed(answer: bytes) -> None:
    machine = client()
    machine.evaluate(CHALLENGE)
    with pytest.raises(SaslFailure, match="does not know the password either"):
        machine.evaluate(answer)
    assert not machine.is_complete


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"", "not one of DIGEST-MD5"),
        (b'nonce="x"', "not one of DIGEST-MD5"),
        (b'nonce="x",algorithm=md5', "not one of DIGEST-MD5"),
        (b'nonce="x",algorithm=md5-sess,qop="auth-conf"', "wants to encrypt"),
        (b'nonce="unended', "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"a" * (CHALLENGE_LENGTH_MAX + 1), "of 2048"),
    ],
)
def test_a_challenge_that_makes_no_sense_ends_the_log_in(challenge: bytes, reason: str) -> None:
    with pytest.raises(SaslFailure, match=reason):
        client().evaluate(challenge)


def test_names_and_passwords_may_hold_any_sign() -> None:
    answer = client('say "hi" \\ Žofie', "tajné").evaluate(CHALLENGE)
    assert answer is not None
    assert 'username="say \\"hi\\" \\\\ Žofie"' in answer.decode()


def test_a_server_without_utf_8_is_told_in_latin_1_or_not_at_all() -> None:
    plain = CHALLENGE.replace(b",charset=utf-8", b"")
    answer = client("José").evaluate(plain)
    assert answer is not None and "José".encode("latin-1") in answer
    with pytest.raises(SaslFailure, match="in UTF-8"):
        client("Žofie").evaluate(plain)
