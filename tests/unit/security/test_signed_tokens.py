"""Signed tokens: which keys are taken, which signatures, and what a token has to say."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest

from moldau.security.oauth.json_web_keys import ALGORITHMS, KeySet, KeySetFault, read_key_set
from moldau.security.oauth.missing_keys import MissingKeys
from moldau.security.oauth.signed_tokens import (
    KNOWN_MAX,
    PublishedKeys,
    SignedTokens,
    TokenRules,
)
from moldau.security.oauth.web_tokens import TOKEN_LENGTH_MAX, web_part
from moldau.security.sasl.oauthbearer import IllegalToken
from tests.support.identity_provider import AUDIENCE, ISSUER, SigningKey, claims_for

NOW = 1_700_000_000_000
KEY, OTHER = SigningKey("one"), SigningKey("two")
RULES = TokenRules(ISSUER, frozenset({AUDIENCE, "also"}))


def key_set(*rows: dict[str, Any]) -> KeySet:
    return read_key_set(json.dumps({"keys": rows}).encode())


class Checker:
    def __init__(self, *keys: SigningKey, rules: TokenRules = RULES) -> None:
        self.keys = key_set(*(key.public() for key in keys))
        self.missed: list[str] = []
        published = PublishedKeys(lambda: self.keys, lambda key_id, _: self.missed.append(key_id))
        self.tokens = SignedTokens(rules, published)

    def name(self, token: str, now_ms: int = NOW) -> str:
        return self.tokens.validate(token, now_ms).name

    def refuses(self, token: str, sentence: str, now_ms: int = NOW) -> None:
        with pytest.raises(IllegalToken, match=sentence):
            self.tokens.validate(token, now_ms)


def token(key: SigningKey = KEY, **claims: Any) -> str:
    return key.token(claims_for("alice", NOW, **claims))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_of_every_algorithm_with_a_public_key_is_known(algorithm: str) -> None:
    key = SigningKey("k", algorithm)
    good = token(key)
    assert Checker(key).name(good) == "alice"
    head, _, tail = good.rpartition(".")
    flipped = ("B" if tail[9] == "A" else "A").join((tail[:9], tail[10:]))
    Checker(key).refuses(f"{head}.{flipped}", "signature")
    Checker(key).refuses(f"{head}.{tail[:-8]}", "signature")


def test_the_key_chooses_the_algorithm_and_the_token_only_agrees() -> None:
    labelled = SigningKey("k", "RS512")
    checker = Checker()
    checker.keys = key_set(labelled.public(alg="RS256"))
    checker.refuses(token(labelled), "no published key suits")


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", None, ["RS256"], 7])
def test_no_token_gets_in_without_a_signature_by_a_private_key(algorithm: object) -> None:
    """A public key taken for a shared secret is the classic of such attacks."""
    header = web_part(json.dumps({"alg": algorithm, "kid": "one"}).encode())
    signed = f"{header}.{web_part(json.dumps(claims_for('alice', NOW)).encode())}"
    public = json.dumps(KEY.public()).encode()
    forged = web_part(hmac.digest(public, signed.encode(), hashlib.sha256))
    Checker(KEY).refuses(f"{signed}.{forged}", "not signed by an algorithm")
    Checker(KEY).refuses(f"{signed}.", "empty")


def test_shared_secrets_and_other_unfit_keys_are_left_out_of_what_is_published() -> None:
    short = SigningKey("short", bits=1024)
    rows = (
        {"kty": "oct", "kid": "secret", "k": "AAAA", "alg": "HS256"},
        {"kty": "EC", "kid": "off", "crv": "P-256", "x": "AQ", "y": "AQ"},
        {"kty": "EC", "kid": "curve", "crv": "P-192", "x": "AQ", "y": "AQ"},
        {"kty": "RSA", "kid": "half", "n": 7},
        {"kty": "later"},
        "nothing",
        short.public(),
        OTHER.public(use="enc"),
        OTHER.public(key_ops=["sign"]),
        KEY.public(),
    )
    assert [key.key_id for key in key_set(*rows).keys] == ["one"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b"{}", b'{"keys":7}', b"\xff", b"[" * 100_000]
)
def test_a_document_that_is_no_set_of_keys_is_told_so(document: bytes) -> None:
    with pytest.raises(KeySetFault):
        read_key_set(document)


def test_a_key_that_is_not_published_is_asked_for() -> None:
    checker = Checker(KEY)
    checker.refuses(token(OTHER), "no published key suits")
    assert checker.missed == ["two"]


def test_a_token_without_an_id_is_judged_by_the_first_key() -> None:
    nameless = SigningKey(None)
    checker = Checker(nameless, KEY)
    assert checker.name(token(nameless)) == "alice"
    checker.refuses(KEY.token(claims_for("alice", NOW), kid=None), "signature")
    assert checker.missed == []


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"exp": None}, "no expiry"),
        ({"iat": None}, "no time of issue"),
        ({"exp": NOW // 1000 - 30}, "expired"),
        ({"exp": True}, "not a time"),
        ({"exp": "tomorrow"}, "not a time"),
        ({"exp": NOW // 1000 + 50, "iat": NOW // 1000 + 100}, "expires before"),
        ({"nbf": NOW // 1000 + 31}, "not good yet"),
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "somebody"}, "another audience"),
        ({"aud": ["a", "b"]}, "another audience"),
        ({"aud": None}, "nobody in particular"),
        ({"aud": 7}, "neither a text nor a list"),
        ({"sub": None}, "no text in its claim sub"),
        ({"sub": "  "}, "no text in its claim sub"),
        ({"sub": 7}, "no text in its claim sub"),
        ({"scope": ""}, "empty"),
        ({"scope": ["a", "a"]}, "twice"),
        ({"scope": [7]}, "no text"),
    ],
)
def test_a_token_that_says_the_wrong_thing_is_refused(
    claims: dict[str, Any], sentence: str
) -> None:
    Checker(KEY).refuses(token(**claims), sentence)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW // 1000 - 29},
        {"nbf": NOW // 1000 + 29},
        {"aud": ["x", "also"]},
        {"scope": "read write"},
        {"scope": ["read", "write"]},
        {"sub": " alice "},
    ],
)
def test_a_token_within_the_rules_is_accepted(claims: dict[str, Any]) -> None:
    assert Checker(KEY).name(token(**claims)) == "alice"


def test_without_an_expected_audience_only_tokens_without_one_are_accepted() -> None:
    checker = Checker(KEY, rules=TokenRules())
    assert checker.name(token(aud=None, iss="whoever")) == "alice"
    checker.refuses(token(), "another audience")


def test_other_claims_may_name_the_user_and_the_scope() -> None:
    checker = Checker(KEY, rules=RULES._replace(name_claim="client", scope_claim="scp"))
    bearer = checker.tokens.validate(token(client="bob", scp=["read"]), NOW)
    assert bearer == ("bob", NOW + 3_600_000, frozenset({"read"}))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda good: good + ".x", "three parts"),
        (lambda good: good.replace(".", ".A", 1), "Base64|JSON|signature"),
        (lambda good: "a" * (TOKEN_LENGTH_MAX + 1), "longer than"),
        (lambda good: good.partition(".")[0], "three parts"),
        (lambda good: f"{web_part(b'[]')}.{good.partition('.')[2]}", "not a JSON object"),
    ],
)
def test_a_token_that_is_none_is_refused(spoil: Callable[[str], str], sentence: str) -> None:
    Checker(KEY).refuses(spoil(token()), sentence)


@pytest.mark.parametrize(
    "claims", ['{"sub":"alice","sub":"root"}', '{"exp":NaN}', "[" * 50_000, '{"exp":1' + "0" * 5000]
)
def test_what_others_may_read_in_another_way_is_not_read_at_all(claims: str) -> None:
    header = web_part(b'{"alg":"RS256","kid":"one"}')
    signed = f"{header}.{web_part(claims.encode())}"
    Checker(KEY).refuses(f"{signed}.{web_part(KEY.sign(signed.encode()))}", "JSON|longer")


def test_a_header_that_asks_for_what_is_not_known_is_refused() -> None:
    Checker(KEY).refuses(KEY.token(claims_for("alice", NOW), crit=["b64"], b64=False), "extensions")


def test_a_known_token_expires_and_goes_with_its_key() -> None:
    checker = Checker(KEY)
    good = token()
    assert checker.name(good) == checker.name(good) == "alice"
    checker.refuses(good, "expired", NOW + 3_630_000)
    assert checker.name(good) == "alice"
    checker.keys = key_set(OTHER.public())
    checker.refuses(good, "no published key suits")


def test_known_tokens_are_few() -> None:
    checker = Checker(SigningKey("fast", "EdDSA"))
    key = SigningKey("fast", "EdDSA")
    checker.keys = key_set(key.public())
    for number in range(KNOWN_MAX + 5):
        checker.name(token(key, jti=number))
    assert len(checker.tokens._known) == KNOWN_MAX


def test_keys_that_nobody_has_are_seldom_asked_for() -> None:
    missing = MissingKeys()
    assert missing.is_worth_asking("a", 0)
    assert not missing.is_worth_asking("a", 59_999)
    assert not missing.is_worth_asking("x" * 1001, 100_000)
    assert missing.is_worth_asking("a", 60_000)
    asked = sum(missing.is_worth_asking(f"k{n}", 61_000 + n) for n in range(5000))
    assert asked == 5
    assert len(missing) <= 16
