"""PEM as settings and files carry it: keys and certificates between BEGIN and END lines.

As in Apache Kafka the lines may be joined by any white space, for a value in a properties file has
only one. Keys are in PKCS #8 form.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

KEY, ENCRYPTED_KEY, CERTIFICATE = "PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "CERTIFICATE"
LINE_LENGTH = 64
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*)-----END \1-----")


class StoreFault(Exception):
    """A key or a certificate cannot be had; says which setting or file, and why."""


class KeyStore(NamedTuple):
    """In PEM; the key may be encrypted by `password`."""

    key: str
    chain: str
    password: str | None = None


def certificates(text: str, what: str) -> str:
    """All certificates of a text, one after the other."""
    found = [
        _pem(CERTIFICATE, body, what) for kind, body in _BLOCK.findall(text) if kind == CERTIFICATE
    ]
    if not found:
        raise StoreFault(f"{what} holds no certificate in PEM form")
    return "".join(found)


def private_key(text: str, what: str) -> str:
    for kind, body in _BLOCK.findall(text):
        if kind in (KEY, ENCRYPTED_KEY):
            return _pem(kind, body, what)
        if kind.endswith(KEY):
            raise StoreFault(
                f"{what} holds a key of the form {kind}; make it PKCS #8 with openssl pkcs8 -topk8"
            )
    raise StoreFault(f"{what} holds no private key in PEM form")


def _pem(kind: str, body: str, what: str) -> str:
    try:
        der = base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error:
        raise StoreFault(f"{what} holds a {kind.lower()} that is not Base64") from None
    return to_pem(kind, der)


def to_pem(kind: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + LINE_LENGTH] for at in range(0, len(text), LINE_LENGTH)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])
