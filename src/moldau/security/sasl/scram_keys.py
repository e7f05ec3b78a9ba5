"""SCRAM's arithmetic and the stored form of a password (RFC 5802, RFC 7677).

Kafka's own words: names and passwords are plain UTF-8, no SASLprep. The broker never sees a
password, only what is derived from it, and never stores the salted password itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import NamedTuple

from moldau.security.sasl.sasl_mechanism import SCRAM_SHA_256, SCRAM_SHA_512

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
RANDOM_BYTES = 17
_RANDOM_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TYPE_NUMBERS = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""How requests about credentials number the mechanisms."""


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential([hidden], iterations={self.iterations})"


def digest(mechanism: str, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()


def mac(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Slow on purpose: some milliseconds. The client does it, never the broker."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def client_key(mechanism: str, salted: bytes) -> bytes:
    return mac(mechanism, salted, b"Client Key")


def server_key(mechanism: str, salted: bytes) -> bytes:
    return mac(mechanism, salted, b"Server Key")


def xor(left: bytes, right: bytes) -> bytes:
    size = len(left)
    return (int.from_bytes(left) ^ int.from_bytes(right)).to_bytes(size)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    stored = digest(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, stored, server_key(mechanism, salted), iterations)


def make_credential(
    mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


def random_text(drawn: bytes) -> str:
    """Nonces and salts have the form of those that Kafka makes: 130 bits as a number to base 36."""
    number = int.from_bytes(drawn[:RANDOM_BYTES]) >> (RANDOM_BYTES * 8 - _RANDOM_BITS)
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or _DIGITS[0]


_FIELD_ORDER = ("salt", "stored_key", "server_key", "iterations")
_NUMBER = re.compile(r"[0-9]{1,9}")


def credential_text(credential: ScramCredential) -> str:
    """As it stands in the metadata tree."""
    return (
        f"salt={encode(credential.salt)},stored_key={encode(credential.stored_key)},"
        f"server_key={encode(credential.server_key)},iterations={credential.iterations}"
    )


def parse_credential(text: str) -> ScramCredential:
    """The error never quotes the text: it is as good as a password's hash."""
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    if len(fields) != len(_FIELD_ORDER) or any(name not in fields for name in _FIELD_ORDER):
        raise ValueError(f"a SCRAM credential has the fields {', '.join(_FIELD_ORDER)}")
    if not _NUMBER.fullmatch(fields["iterations"]):
        raise ValueError("the iterations of a SCRAM credential must be a whole number")
    keys = [decode(fields[name]) for name in _FIELD_ORDER[:3]]
    return ScramCredential(keys[0], keys[1], keys[2], int(fields["iterations"]))


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not Base64") from None
