"""The order of a log-in: what may come when, what answers, when the session ends."""

from __future__ import annotations

import pytest

from moldau.model.errors import Error
from moldau.security.naming.principal import Principal
from moldau.security.sasl.plain import PlainServer, check_against
from moldau.security.sasl.sasl_connection import SaslConnection, SaslRules
from moldau.security.sasl.sasl_mechanism import SaslServer
from moldau.security.sasl.scram_client import ScramClient
from moldau.security.sasl.scram_keys import make_credential
from moldau.security.sasl.scram_server import ScramAccount, ScramServer

PRODUCE, HANDSHAKE, VERSIONS, AUTHENTICATE = 0, 17, 18, 36
ALICE = b"\0alice\0wonderland"
BOB = b"\0bob\0builder"


def start(mechanism: str) -> SaslServer:
    if mechanism == "PLAIN":
        users = {"user_alice": "wonderland", "user_bob": "builder"}
        return PlainServer(check_against(users, b"secret"))
    return ScramServer(mechanism, lambda name, is_token: None, "nonce", b"secret")


def connection(reauthentication_ms: int = 0) -> SaslConnection:
    rules = SaslRules(("PLAIN", "SCRAM-SHA-256"), start, lambda _: reauthentication_ms)
    return SaslConnection(rules)


def logged_in(reauthentication_ms: int = 0) -> SaslConnection:
    client = connection(reauthentication_ms)
    client.handshake("PLAIN", 1, 0)
    assert client.authenticate(ALICE, 0).error is Error.NONE
    assert client.is_complete
    return client


def test_a_log_in_goes_through_its_steps() -> None:
    client = connection()
    assert client.refusal(VERSIONS, 0) is None
    client.versions_told()
    assert client.refusal(HANDSHAKE, 0) is None
    assert client.handshake("PLAIN", 1, 0) == (Error.NONE, ("PLAIN", "SCRAM-SHA-256"), "")
    assert not client.expects_bare_tokens
    assert client.refusal(AUTHENTICATE, 0) is None
    answer = client.authenticate(ALICE, 0)
    assert (answer.error, answer.token, answer.session_lifetime_ms) == (Error.NONE, b"", 0)
    assert client.principal == Principal("User", "alice")
    assert client.refusal(PRODUCE, 10**15) is None


@pytest.mark.parametrize("api_key", [PRODUCE, AUTHENTICATE, 3])
def test_anything_else_at_first_ends_the_connection_without_an_answer(api_key: int) -> None:
    client = connection()
    refusal = client.refusal(api_key, 0)
    assert refusal is not None
    assert refusal.error is Error.NONE
    assert client.refusal(HANDSHAKE, 0) is not None, "and there is no second try"


def test_versions_are_told_once() -> None:
    client = connection()
    client.versions_told()
    refusal = client.refusal(VERSIONS, 0)
    assert refusal is not None
    assert refusal.error is Error.NONE


def test_versions_that_were_not_understood_may_be_asked_for_again() -> None:
    client = connection()
    assert client.refusal(VERSIONS, 0) is None
    assert client.refusal(VERSIONS, 0) is None


def test_a_mechanism_that_is_not_enabled_is_refused_with_the_list() -> None:
    client = connection()
    answer = client.handshake("GSSAPI", 1, 0)
    assert answer.error is Error.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert answer.failure
    assert client.refusal(HANDSHAKE, 0) is not None


def test_another_request_between_the_tokens_is_answered_and_ends_the_connection() -> None:
    client = connection()
    client.handshake("PLAIN", 1, 0)
    refusal = client.refusal(PRODUCE, 0)
    assert refusal is not None
    assert refusal.error is Error.ILLEGAL_SASL_STATE
    assert client.refusal(AUTHENTICATE, 0) is not None


def test_a_handshake_of_version_0_is_followed_by_bare_tokens() -> None:
    client = connection()
    client.handshake("PLAIN", 0, 0)
    assert client.expects_bare_tokens
    assert client.authenticate(ALICE, 0).error is Error.NONE
    assert not client.expects_bare_tokens


def test_a_wrong_password_is_told_and_final() -> None:
    client = connection()
    client.handshake("PLAIN", 1, 0)
    answer = client.authenticate(b"\0alice\0guess", 0)
    assert answer.error is Error.SASL_AUTHENTICATION_FAILED
    assert answer.message == "Authentication failed: Invalid username or password"
    assert answer.failure
    assert client.principal is None
    assert client.refusal(AUTHENTICATE, 0) is not None


def test_scram_has_one_sentence_for_every_failure() -> None:
    client = connection()
    client.handshake("SCRAM-SHA-256", 1, 0)
    answer = client.authenticate(b"nonsense", 0)
    assert answer.message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )
    assert answer.failure == "Invalid SCRAM client first message format"


def test_after_the_log_in_its_requests_are_out_of_place_but_harmless() -> None:
    client = logged_in()
    assert client.handshake("PLAIN", 1, 5) == (Error.ILLEGAL_SASL_STATE, (), "")
    answer = client.authenticate(ALICE, 5)
    assert answer.error is Error.ILLEGAL_SASL_STATE
    assert answer.message == ("SaslAuthenticate request received after successful authentication")
    assert client.is_complete


def test_a_session_ends_when_a_request_comes_too_late() -> None:
    client = logged_in(1000)
    assert client.refusal(PRODUCE, 1000) is None
    refusal = client.refusal(PRODUCE, 1001)
    assert refusal is not None
    assert refusal.is_expiry
    assert client.refusal(HANDSHAKE, 1001) is None, "but it may be renewed"


def test_a_log_in_is_renewed_on_the_live_connection() -> None:
    client = logged_in(2000)
    assert client.handshake("PLAIN", 1, 1900).error is Error.NONE
    assert client.principal == Principal("User", "alice")
    assert client.authenticate(ALICE, 1900).session_lifetime_ms == 2000
    assert client.refusal(PRODUCE, 3900) is None
    assert client.refusal(PRODUCE, 3901) is not None


def test_a_log_in_is_renewed_once_a_second_at_most() -> None:
    client = logged_in(5000)
    client.handshake("PLAIN", 1, 100)
    client.authenticate(ALICE, 100)
    assert client.handshake("PLAIN", 1, 1099).error is Error.ILLEGAL_SASL_STATE
    assert client.handshake("PLAIN", 1, 1100).error is Error.NONE


def test_a_renewal_cannot_change_who_it_is() -> None:
    client = logged_in(5000)
    client.handshake("PLAIN", 1, 100)
    answer = client.authenticate(BOB, 100)
    assert answer.error is Error.SASL_AUTHENTICATION_FAILED
    assert answer.message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )


def test_a_renewal_cannot_change_the_mechanism() -> None:
    client = logged_in(5000)
    assert client.handshake("SCRAM-SHA-256", 1, 100).error is Error.NONE
    answer = client.authenticate(b"n,,n=alice,r=abc", 100)
    assert answer.message == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for "
        "re-authentication of mechanism 'PLAIN'"
    )
    assert answer.error is Error.SASL_AUTHENTICATION_FAILED


def test_a_failed_renewal_says_so() -> None:
    credential = make_credential("SCRAM-SHA-256", "wonderland", b"salt")
    account = ScramAccount(credential, "alice")

    def begin(mechanism: str) -> SaslServer:
        return ScramServer(mechanism, lambda name, is_token: account, "nonce", b"secret")

    client = SaslConnection(SaslRules(("SCRAM-SHA-256",), begin, lambda _: 5000))
    client.handshake("SCRAM-SHA-256", 1, 0)
    user = ScramClient("SCRAM-SHA-256", "alice", "wonderland", "abc")
    final = user.evaluate(client.authenticate(user.first(), 0).token)
    assert final is not None
    assert client.authenticate(final, 0).session_lifetime_ms == 5000
    client.handshake("SCRAM-SHA-256", 1, 100)
    assert client.authenticate(b"nonsense", 100).message == (
        "Authentication failed during re-authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )
