"""Kafka's default check of OAUTHBEARER tokens: unsigned ones, for development only.

It believes whatever a token says, as long as it says that it is unsigned and has not expired.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from moldau.security.sasl.oauthbearer import BearerToken, IllegalToken, TokenValidator

OPTION_PREFIX = "unsecuredValidator"
_PARTS = 3


def unsecured_validator(options: Mapping[str, str]) -> TokenValidator:
    """By the options of the log-in module; raises ValueError for those that make no sense."""
    name_claim = _option(options, "PrincipalClaimName", "sub")
    scope_claim = _option(options, "ScopeClaimName", "scope")
    required = _option(options, "RequiredScope", "").split()
    skew_text = _option(options, "AllowableClockSkewMs", "0")
    if not skew_text.isdecimal():
        raise ValueError(f"{OPTION_PREFIX}AllowableClockSkewMs must be at least 0, not {skew_text}")
    skew_ms = int(skew_text)

    def validate(token: str, now_ms: int) -> BearerToken:
        claims = _claims(token)
        name = claims.get(name_claim)
        if not isinstance(name, str) or not name:
            raise IllegalToken(f"the token has no text in its claim {name_claim}")
        expires_at_ms = _expiry_ms(claims, now_ms, skew_ms)
        scope = _scope(claims.get(scope_claim))
        if not scope.issuperset(required):
            raise IllegalToken("the token lacks a required scope", " ".join(required))
        return BearerToken(name, expires_at_ms, scope)

    return validate


def _option(options: Mapping[str, str], name: str, default: str) -> str:
    return options.get(OPTION_PREFIX + name, "").strip() or default


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != _PARTS or not parts[0] or not parts[1]:
        raise IllegalToken("the token does not have the three parts of a JSON web token")
    header, claims = _document(parts[0]), _document(parts[1])
    if header.get("alg") != "none":
        raise IllegalToken("only tokens with alg=none are accepted: no key is configured")
    if parts[2]:
        raise IllegalToken("a token with alg=none must not be signed")
    return claims


def _document(part: str) -> dict[str, Any]:
    try:
        text = base64.b64decode(part + "=" * (-len(part) % 4), b"-_", validate=True)
        found = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        raise IllegalToken("a part of the token is not JSON in Base64") from None
    if not isinstance(found, dict):
        raise IllegalToken("a part of the token is not a JSON object")
    return found


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise IllegalToken(f"the claim {name} of the token is not a time in seconds")
    return float(value)


def _expiry_ms(claims: Mapping[str, Any], now_ms: int, skew_ms: int) -> int:
    expiry, issued = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expiry is None:
        raise IllegalToken("the token has no expiry (exp)")
    if now_ms - skew_ms >= expiry * 1000:
        raise IllegalToken("the token has expired")
    if issued is not None and issued * 1000 > now_ms + skew_ms:
        raise IllegalToken("the token was issued in the future (iat)")
    if issued is not None and expiry <= issued:
        raise IllegalToken("the token expires before it was issued")
    return round(expiry * 1000)


def _scope(claim: object) -> frozenset[str]:
    if claim is None:
        return frozenset()
    words = claim.split() if isinstance(claim, str) else claim
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise IllegalToken("the scope of the token is neither a text nor a list of texts")
    return frozenset(word.strip() for word in words)
