"""The public keys of whoever gives out tokens (RFC 7517), and what each of them can verify.

The algorithm is chosen by the key and never by the token, which can only agree: so a token without
a signature, or one that takes a public key for a shared secret, meets no key at all. Keys for other
uses, of other kinds, or too short to be trusted are left out as if they were not published.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

RSA_BITS_MIN, RSA_BITS_MAX = 2048, 16384
KEYS_MAX = 1000
_HASHES: Mapping[str, type[hashes.HashAlgorithm]] = {
    "256": hashes.SHA256,
    "384": hashes.SHA384,
    "512": hashes.SHA512,
}
_CURVES: Mapping[str, tuple[type[ec.EllipticCurve], str, int]] = {
    "P-256": (ec.SECP256R1, "256", 32),
    "P-384": (ec.SECP384R1, "384", 48),
    "P-521": (ec.SECP521R1, "512", 66),
}
"""Class, hash and the length of a coordinate in bytes."""
EDWARDS = "Ed25519"

Verify = Callable[[bytes, bytes], bool]
"""Takes what was signed and the signature."""


class KeySetFault(Exception):
    """A document that is no set of keys."""


class WebKey(NamedTuple):
    key_id: str | None
    checks: Mapping[str, Verify]
    """By the name of the algorithm."""


class KeySet(NamedTuple):
    keys: tuple[WebKey, ...] = ()
    digest: bytes = b""
    """Of the document: two sets with the same one are the same."""

    def find(self, key_id: str | None, algorithm: str) -> Verify | None:
        """The first key that suits; every key suits a token that names none."""
        for key in self.keys:
            if key_id in (None, key.key_id) and algorithm in key.checks:
                return key.checks[algorithm]
        return None


def read_key_set(document: bytes) -> KeySet:
    """Raises KeySetFault."""
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        raise KeySetFault("it is not JSON") from None
    rows = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise KeySetFault('it has no list of "keys"')
    if len(rows) > KEYS_MAX:
        raise KeySetFault(f"it has more than {KEYS_MAX} keys")
    keys = tuple(key for row in rows if (key := _key(row)) is not None)
    return KeySet(keys, hashlib.sha256(document).digest())


def _key(row: object) -> WebKey | None:
    if not isinstance(row, dict) or row.get("use", "sig") != "sig":
        return None
    operations = row.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    try:
        checks = _READERS[str(row.get("kty"))](row)
    except (KeyError, TypeError, ValueError, UnsupportedAlgorithm):
        return None
    only = row.get("alg")
    if only is not None:
        checks = {name: check for name, check in checks.items() if name == only}
    key_id = row.get("kid")
    return WebKey(key_id if isinstance(key_id, str) else None, checks) if checks else None


def _number(row: Mapping[str, Any], name: str) -> int:
    return int.from_bytes(_bytes(row, name), "big")


def _bytes(row: Mapping[str, Any], name: str) -> bytes:
    text = row[name]
    if not isinstance(text, str):
        raise TypeError(name)
    text = text.rstrip("=")
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)


def _rsa(row: Mapping[str, Any]) -> dict[str, Verify]:
    modulus = _number(row, "n")
    if not RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX:
        return {}
    key = rsa.RSAPublicNumbers(_number(row, "e"), modulus).public_key()
    checks: dict[str, Verify] = {}
    for bits, kind in _HASHES.items():
        pss = padding.PSS(padding.MGF1(kind()), kind().digest_size)
        checks[f"RS{bits}"] = partial(_verify_rsa, key, padding.PKCS1v15(), kind())
        checks[f"PS{bits}"] = partial(_verify_rsa, key, pss, kind())
    return checks


def _verify_rsa(
    key: rsa.RSAPublicKey,
    how: padding.PSS | padding.PKCS1v15,
    kind: hashes.HashAlgorithm,
    signed: bytes,
    signature: bytes,
) -> bool:
    try:
        key.verify(signature, signed, how, kind)
    except InvalidSignature:
        return False
    return True


def _elliptic(row: Mapping[str, Any]) -> dict[str, Verify]:
    curve, bits, length = _CURVES[row["crv"]]
    # Raises ValueError for a point that is not on the curve.
    key = ec.EllipticCurvePublicNumbers(_number(row, "x"), _number(row, "y"), curve()).public_key()
    return {f"ES{bits}": partial(_verify_elliptic, key, ec.ECDSA(_HASHES[bits]()), length)}


def _verify_elliptic(
    key: ec.EllipticCurvePublicKey, how: ec.ECDSA, length: int, signed: bytes, signature: bytes
) -> bool:
    if len(signature) != 2 * length:
        return False
    numbers = (int.from_bytes(half, "big") for half in (signature[:length], signature[length:]))
    try:
        key.verify(encode_dss_signature(*numbers), signed, how)
    except InvalidSignature:
        return False
    return True


def _edwards(row: Mapping[str, Any]) -> dict[str, Verify]:
    if row["crv"] != EDWARDS:
        return {}
    return {"EdDSA": partial(_verify_edwards, _edwards_key(row))}


def _edwards_key(row: Mapping[str, Any]) -> ed25519.Ed25519PublicKey:
    return ed25519.Ed25519PublicKey.from_public_bytes(_bytes(row, "x"))


def _verify_edwards(key: ed25519.Ed25519PublicKey, signed: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


_READERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Verify]]] = {
    "RSA": _rsa,
    "EC": _elliptic,
    "OKP": _edwards,
}
ALGORITHMS: Sequence[str] = (
    *(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in _HASHES),
    "EdDSA",
)
"""What is accepted at all: `none` and the algorithms with shared secrets are not."""
