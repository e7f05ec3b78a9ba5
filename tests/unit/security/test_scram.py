"""SCRAM: the vectors of the RFCs, both sides against each other, and what must never be told."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from moldau.security.sasl import scram_server
from moldau.security.sasl.sasl_failures import SaslFailure
from moldau.security.sasl.sasl_mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from moldau.security.sasl.scram_client import ScramClient
from moldau.security.sasl.scram_keys import (
    ScramCredential,
    credential_of,
    credential_text,
    decode,
    make_credential,
    parse_credential,
    salted_password,
)
from moldau.security.sasl.scram_server import OTHER_AUTHORIZATION_ID, ScramAccount, ScramServer

SECRET = b"of this process"
# RFC 7677, section 3
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def account_of(name: str, password: str, mechanism: str = SCRAM_SHA_256) -> ScramAccount:
    return ScramAccount(make_credential(mechanism, password, decode(SALT)), name)


def server(mechanism: str = SCRAM_SHA_256, **accounts: ScramAccount) -> ScramServer:
    return ScramServer(mechanism, lambda name, _: accounts.get(name), SERVER_NONCE, SECRET)


def log_in(client: ScramClient, to: ScramServer) -> None:
    token: bytes | None = client.first()
    while token is not None:
        token = client.evaluate(to.evaluate(token, 0))


def test_the_messages_are_those_of_the_rfc() -> None:
    broker = server(user=account_of("user", "pencil"))
    assert broker.evaluate(CLIENT_FIRST, 0) == SERVER_FIRST
    assert broker.logged_in is None
    assert broker.evaluate(CLIENT_FINAL, 0) == SERVER_FINAL
    assert broker.logged_in is not None
    assert broker.logged_in.name == "user"


def test_the_client_says_what_the_rfc_says_and_checks_the_server() -> None:
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE)
    assert client.first() == CLIENT_FIRST
    assert client.evaluate(SERVER_FIRST) == CLIENT_FINAL
    assert client.evaluate(SERVER_FINAL) is None
    assert client.is_complete


def test_a_salted_password_is_as_good_as_the_password() -> None:
    # It is what AlterUserScramCredentials carries.
    salted = salted_password(SCRAM_SHA_256, "pencil", decode(SALT), 4096)
    assert credential_of(SCRAM_SHA_256, salted, decode(SALT), 4096) == make_credential(
        SCRAM_SHA_256, "pencil", decode(SALT), 4096
    )


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("name", ["alice", "with,comma=and=sign", "=2C", "a b"])
def test_both_sides_agree(mechanism: str, name: str) -> None:
    broker = server(mechanism, **{name: account_of(name, "pä$$,word=", mechanism)})
    client = ScramClient(mechanism, name, "pä$$,word=", "abc")
    log_in(client, broker)
    assert client.is_complete
    assert broker.logged_in is not None
    assert broker.logged_in.name == name


def test_a_wrong_password_and_an_unknown_user_fail_at_the_same_step_in_the_same_way() -> None:
    wrong = server(alice=account_of("alice", "right"))
    unknown = server()
    for broker in (wrong, unknown):
        client = ScramClient(SCRAM_SHA_256, "alice", "guess", "abc")
        final = client.evaluate(broker.evaluate(client.first(), 0))
        assert final is not None
        with pytest.raises(SaslFailure) as failure:
            broker.evaluate(final, 0)
        assert failure.value.told == ""
        assert broker.logged_in is None


def test_the_made_up_salt_of_an_unknown_user_is_the_same_each_time() -> None:
    first = server().evaluate(CLIENT_FIRST, 0)
    assert server().evaluate(CLIENT_FIRST, 0) == first
    assert server().evaluate(b"n,,n=other,r=rOprNGfwEbeRWgbNEkqO", 0) != first


def test_a_credential_with_too_few_iterations_is_not_used() -> None:
    weak = ScramAccount(make_credential(SCRAM_SHA_256, "x", b"salt", 4095), "alice")
    broker = server(alice=weak)
    assert b",i=4096" in broker.evaluate(b"n,,n=alice,r=abc", 0)


def test_the_nonce_of_the_final_message_must_be_the_agreed_one() -> None:
    broker = server(user=account_of("user", "pencil"))
    broker.evaluate(CLIENT_FIRST, 0)
    with pytest.raises(SaslFailure, match="nonce"):
        broker.evaluate(CLIENT_FINAL.replace(b"r=rOpr", b"r=rOpX"), 0)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user",
        b"n,,n=\xc3\xa4,r=abc",
        b"n,,n=user,r=abc,1=x",
        b"\xff" * 1000,
        b"n" * 70_000,
    ],
)
def test_a_malformed_first_message_is_a_failure_and_nothing_else(message: bytes) -> None:
    with pytest.raises(SaslFailure):
        server(user=account_of("user", "pencil")).evaluate(message, 0)


@pytest.mark.parametrize("proof", [b"", b",p=", b",p=AAAA", b",p=====", b",p=" + b"A" * 400])
def test_a_malformed_proof_is_a_failure_and_nothing_else(proof: bytes) -> None:
    broker = server(user=account_of("user", "pencil"))
    nonce = broker.evaluate(CLIENT_FIRST, 0).split(b",")[0]
    with pytest.raises(SaslFailure):
        broker.evaluate(b"c=biws," + nonce + proof, 0)


def test_nobody_logs_in_for_somebody_else() -> None:
    broker = server(user=account_of("user", "pencil"))
    with pytest.raises(SaslFailure) as failure:
        broker.evaluate(b"n,a=admin,n=user,r=abc", 0)
    assert failure.value.told == OTHER_AUTHORIZATION_ID


def test_unknown_extensions_are_signed_and_ignored() -> None:
    asked: list[tuple[str, bool]] = []
    broker = ScramServer(
        SCRAM_SHA_256, lambda name, token: asked.append((name, token)), SERVER_NONCE, SECRET
    )
    broker.evaluate(b"n,,n=id,r=abc,tokenauth=TRUE,other=x", 0)
    assert asked == [("id", True)]


@pytest.mark.parametrize("iterations", [4095, 1_000_001])
def test_a_client_refuses_a_server_that_asks_for_too_little_or_too_much(iterations: int) -> None:
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE)
    with pytest.raises(SaslFailure, match=str(iterations)):
        client.evaluate(SERVER_FIRST.replace(b"4096", str(iterations).encode()))


def test_a_client_refuses_a_server_that_does_not_know_the_keys() -> None:
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE)
    client.evaluate(SERVER_FIRST)
    with pytest.raises(SaslFailure, match="signature"):
        client.evaluate(b"v=" + b"A" * 43 + b"=")


def test_a_credential_is_written_as_kafka_writes_it_and_read_back() -> None:
    credential = make_credential(SCRAM_SHA_256, "pencil", decode(SALT))
    text = credential_text(credential)
    assert text == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,"
        "stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert parse_credential(text) == credential


@pytest.mark.parametrize(
    "text", ["", "salt=AA==", "salt=?,stored_key=?,server_key=?,iterations=1", "a=b,c=d,e=f,g=h"]
)
def test_a_damaged_credential_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"SCRAM|Base64"):
        parse_credential(text)


def test_a_credential_hides_its_keys() -> None:
    credential = ScramCredential(b"salt", b"stored", b"server", 4096)
    for text in (repr(credential), str(credential), f"{credential}"):
        assert "stored" not in text
        assert "hidden" in text


def test_the_salt_of_an_unknown_user_looks_like_one_that_kafka_made() -> None:
    """130 random bits to base 36: 25 or 26 signs nearly always, the same at each try, another for
    the other mechanism."""

    def salt(name: str, mechanism: str = SCRAM_SHA_256) -> bytes:
        broker = ScramServer(mechanism, lambda name, token: None, SERVER_NONCE, SECRET)
        first = f"n,,n={name},r=abc".encode()
        return base64.b64decode(broker.evaluate(first, 0).split(b",s=")[1].split(b",")[0])

    salts = [salt(f"nobody{number}") for number in range(200)]
    assert all(re.fullmatch(rb"[1-9a-z][0-9a-z]{22,25}", each) for each in salts)
    assert {25, 26} <= {len(each) for each in salts}
    assert salts == [salt(f"nobody{number}") for number in range(200)]
    assert salt("nobody", SCRAM_SHA_512) != salt("nobody")


def test_known_and_unknown_users_cost_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes and MACs are counted: a clock would tell less, and not each time the same."""
    counted: list[str] = []
    real_digest, real_mac = scram_server.digest, scram_server.mac

    def counting(name: str, real: Any) -> Any:
        def counted_call(*arguments: Any) -> Any:
            counted.append(name)
            return real(*arguments)

        return counted_call

    monkeypatch.setattr(scram_server, "digest", counting("digest", real_digest))
    monkeypatch.setattr(scram_server, "mac", counting("mac", real_mac))

    def steps(name: str) -> list[str]:
        counted.clear()
        broker = server(user=account_of("user", "pencil"))
        client = ScramClient(SCRAM_SHA_256, name, "wrong", CLIENT_NONCE)
        final = client.evaluate(broker.evaluate(client.first(), 0))
        assert final is not None
        with pytest.raises(SaslFailure):
            broker.evaluate(final, 0)
        return list(counted)

    assert steps("user") == steps("nobody") != []
