"""Assertions: tokens that a client signs itself to get one from a token server (RFC 7523)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from moldau.security.oauth.web_tokens import web_part

COORDINATE_BYTES = 32
RS256, ES256 = "RS256", "ES256"
SigningKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class AssertionRules(NamedTuple):
    algorithm: str
    claims: Mapping[str, Any]
    """Those that are always the same."""
    expiry_seconds: int
    begin_seconds: int


def read_signing_key(pem: bytes, passphrase: str | None, algorithm: str) -> SigningKey:
    """Raises ValueError with a sentence."""
    try:
        key = load_pem_private_key(pem, None if passphrase is None else passphrase.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # TypeError: a password where none is needed, or none where one is.
        raise ValueError("it is no private key in PEM form, or the password is wrong") from None
    if algorithm == RS256 and isinstance(key, rsa.RSAPrivateKey):
        return key
    if (
        algorithm == ES256
        and isinstance(key, ec.EllipticCurvePrivateKey)
        and isinstance(key.curve, ec.SECP256R1)
    ):
        return key
    raise ValueError(f"it is not a key for {algorithm}")


def make_assertion(
    key: SigningKey,
    rules: AssertionRules,
    template: Mapping[str, Mapping[str, Any]],
    now_ms: int,
    token_id: str | None,
) -> str:
    """What this client says of itself and of the time holds over the template."""
    now = now_ms // 1000
    header = {**template.get("header", {}), "alg": rules.algorithm, "typ": "JWT"}
    claims = {
        **rules.claims,
        **template.get("payload", {}),
        "iat": now,
        "exp": now + rules.expiry_seconds,
        "nbf": now - rules.begin_seconds,
    }
    if token_id is not None:
        claims["jti"] = token_id
    signed = f"{_part(header)}.{_part(claims)}"
    return f"{signed}.{web_part(_signature(key, signed.encode('ascii')))}"


def read_template(document: bytes) -> Mapping[str, Mapping[str, Any]]:
    """Raises ValueError with a sentence."""
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    parts: dict[str, Mapping[str, Any]] = {}
    for name in ("header", "payload"):
        part = found.get(name, {}) if isinstance(found, dict) else None
        if not isinstance(part, dict):
            raise ValueError("it is no JSON object with header and payload")
        parts[name] = part
    return parts


def _signature(key: SigningKey, signed: bytes) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    numbers = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
    return b"".join(number.to_bytes(COORDINATE_BYTES, "big") for number in numbers)


def _part(document: Mapping[str, Any]) -> str:
    return web_part(json.dumps(document).encode())
