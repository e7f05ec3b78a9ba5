"""Changing credentials: Kafka's errors, one change for each user."""

from __future__ import annotations

import pytest

from moldau.model.errors import ApiError, Error
from moldau.security.sasl.scram_changes import (
    CredentialChange,
    Deletion,
    Upsertion,
    judged,
)
from moldau.security.sasl.scram_keys import make_credential, parse_credential, salted_password


def upsertion(user: str = "alice", mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    salted = salted_password("SCRAM-SHA-256", "wonderland", b"salt", 4096)
    return Upsertion(user, mechanism, iterations, b"salt", salted)


def test_what_is_stored_is_made_from_the_salted_password() -> None:
    change = judged([], [upsertion()])["alice"]
    assert isinstance(change, CredentialChange)
    after = change.apply({"consumer_byte_rate": "5"})
    assert after["consumer_byte_rate"] == "5"
    stored = parse_credential(after["SCRAM-SHA-256"])
    assert stored == make_credential("SCRAM-SHA-256", "wonderland", b"salt", 4096)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (upsertion(iterations=4095), Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion(iterations=16385), Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsertion(user=""), Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion(mechanism=3), Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(mechanism=0), Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(user="a" * 4000), Error.UNACCEPTABLE_CREDENTIAL, "of 3000"),
        (upsertion()._replace(salt=b""), Error.UNACCEPTABLE_CREDENTIAL, "salt"),
    ],
)
def test_what_cannot_be_stored_is_refused(change: Upsertion, error: Error, sentence: str) -> None:
    refusal = judged([], [change])[change.user]
    assert isinstance(refusal, ApiError)
    assert refusal.error is error
    assert sentence in str(refusal)


def test_a_user_is_changed_once_in_a_request() -> None:
    rows = judged([Deletion("alice", 1)], [upsertion(mechanism=2), upsertion("bob")])
    refusal = rows["alice"]
    assert isinstance(refusal, ApiError)
    assert refusal.error is Error.DUPLICATE_RESOURCE
    assert isinstance(rows["bob"], CredentialChange)


def test_what_is_not_there_cannot_be_deleted() -> None:
    change = judged([Deletion("alice", 1)], [])["alice"]
    assert isinstance(change, CredentialChange)
    assert change.apply({"SCRAM-SHA-256": "x", "a": "b"}) == {"a": "b"}
    with pytest.raises(ApiError, match="does not exist"):
        change.apply({"SCRAM-SHA-512": "x"})


def test_a_change_hides_the_password() -> None:
    assert "hidden" in repr(upsertion())
    assert "salt" not in repr(upsertion())
