"""Signed tokens judged: Kafka's production check of OAUTHBEARER (KIP-768).

The signature comes first, then what the token says: times, issuer, audience, name. A token that was
found good is known again by its hash until it expires, as long as the keys stay the same.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from moldau.security.oauth.json_web_keys import ALGORITHMS, KeySet
from moldau.security.oauth.web_tokens import WebToken, read_web_token, seconds_of
from moldau.security.sasl.oauthbearer import BearerToken, IllegalToken

KNOWN_MAX = 1000


class TokenRules(NamedTuple):
    """What a token must say."""

    issuer: str | None = None
    audiences: frozenset[str] = frozenset()
    skew_ms: int = 30_000
    name_claim: str = "sub"
    scope_claim: str = "scope"


class PublishedKeys(NamedTuple):
    """Where the keys come from."""

    current: Callable[[], KeySet]
    missed: Callable[[str, int], None]
    """Told the id of a key that is not among them, and the time."""


class SignedTokens:
    def __init__(self, rules: TokenRules, keys: PublishedKeys) -> None:
        self._rules = rules
        self._keys = keys
        self._known: OrderedDict[bytes, BearerToken] = OrderedDict()
        self._known_by: KeySet | None = None

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Raises IllegalToken."""
        keys = self._keys.current()
        if keys is not self._known_by:
            # A key that was withdrawn takes its tokens along.
            self._known.clear()
            self._known_by = keys
        digest = hashlib.sha256(token.encode()).digest()
        bearer = self._known.get(digest)
        if bearer is None:
            web_token = read_web_token(token)
            self._verify(web_token, keys, now_ms)
            bearer = judge(web_token.claims, self._rules, now_ms)
            self._known[digest] = bearer
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        elif _is_over(bearer.expires_at_ms, self._rules, now_ms):
            del self._known[digest]
            raise _expired()
        return bearer

    def _verify(self, token: WebToken, keys: KeySet, now_ms: int) -> None:
        algorithm, key_id = token.header.get("alg"), token.header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise IllegalToken("the token is not signed by an algorithm with a public key")
        if "crit" in token.header:
            raise IllegalToken("the header of the token asks for extensions that are not known")
        if not isinstance(key_id, str | None):
            raise IllegalToken("the id of the token's key is not a text")
        verify = keys.find(key_id, algorithm)
        if verify is None:
            if key_id is not None:
                self._keys.missed(key_id, now_ms)
            raise IllegalToken("no published key suits the token")
        if not verify(token.signed, token.signature):
            raise IllegalToken("the signature of the token is not that of the key")


def judge(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> BearerToken:
    """What a token with a good signature is good for. Raises IllegalToken."""
    expires_at_ms = _expiry_ms(claims, rules, now_ms)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise IllegalToken("the token is of another issuer than the one expected")
    _check_audience(claims.get("aud"), rules.audiences)
    return BearerToken(
        _name(claims, rules.name_claim), expires_at_ms, _scope(claims, rules.scope_claim)
    )


def _expiry_ms(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> int:
    times = {name: seconds_of(claims, name) for name in ("exp", "iat", "nbf")}
    expiry, issued, begins = times.values()
    if expiry is None or issued is None:
        missing = "expiry (exp)" if expiry is None else "time of issue (iat)"
        raise IllegalToken(f"the token has no {missing}")
    if expiry < max(issued, begins or 0):
        raise IllegalToken("the token expires before it begins")
    expires_at_ms = int(expiry * 1000)
    if _is_over(expires_at_ms, rules, now_ms):
        raise _expired()
    if begins is not None and now_ms + rules.skew_ms < begins * 1000:
        raise IllegalToken("the token is not good yet (nbf)")
    return expires_at_ms


def _is_over(expires_at_ms: int, rules: TokenRules, now_ms: int) -> bool:
    return now_ms - rules.skew_ms >= expires_at_ms


def _expired() -> IllegalToken:
    return IllegalToken("the token has expired")


def _check_audience(told: object, expected: frozenset[str]) -> None:
    if told is None:
        if expected:
            raise IllegalToken("the token is for nobody in particular (it has no aud)")
        return
    names = [told] if isinstance(told, str) else told
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise IllegalToken("the audience of the token is neither a text nor a list of texts")
    if expected.isdisjoint(names):
        raise IllegalToken("the token is for another audience than the one expected")


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip():
        raise IllegalToken(f"the token has no text in its claim {claim}")
    return name.strip()


def _scope(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    told = claims.get(claim)
    words = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    if not all(isinstance(word, str) and word.strip() for word in words):
        raise IllegalToken("the scope of the token has a word that is empty or no text")
    scope = [word.strip() for word in words]
    if len(set(scope)) < len(scope):
        raise IllegalToken("the scope of the token names a word twice")
    return frozenset(scope)
