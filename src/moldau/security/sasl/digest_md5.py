"""The client's side of DIGEST-MD5 (RFC 2831), by which ZooKeeper asks for a user and a password.

Kafka's own listeners do not offer it: MD5 is broken for other uses, and the servers must know the
passwords themselves. ZooKeeper has no better log-in short of Kerberos and certificates, so the
connection should be encrypted. The server is checked too: it must know the password.
"""

from __future__ import annotations

import hashlib
import hmac
import re

from moldau.security.sasl.sasl_failures import SaslFailure

DIGEST_MD5 = "DIGEST-MD5"
CHALLENGE_LENGTH_MAX = 2048
"""As the RFC bounds it."""
_DIRECTIVE = re.compile(
    r'[ \t]*([A-Za-z0-9_-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))[ \t]*(?:,+|$)'
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_FIRST_USE = "00000001"
_NEEDS_ESCAPE = re.compile(r'(["\\])')


class DigestMd5Client:
    def __init__(self, name: str, password: str, nonce: str, *, service: str, host: str) -> None:
        """`nonce` is drawn anew for every log-in."""
        self._name = name
        self._password = password
        self._nonce = nonce
        self._uri = f"{service}/{host}"
        self._host = host
        self._expected = b""
        self._step = 0

    @property
    def is_complete(self) -> bool:
        return self._step == 2

    def first(self) -> bytes:
        """The server speaks first."""
        return b""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """The answer, or None at the end. Raises SaslFailure."""
        if self._step == 0:
            self._step = 1
            return self._answer(_directives(challenge))
        if self._step != 1:
            raise SaslFailure("a challenge came after the end of the log-in")
        told = _directives(challenge).get("rspauth", "").encode()
        if not hmac.compare_digest(told, self._expected):
            raise SaslFailure("the server does not know the password either")
        self._step = 2
        return None

    def _answer(self, told: dict[str, str]) -> bytes:
        nonce = told.get("nonce")
        if not nonce or told.get("algorithm") != "md5-sess":
            raise SaslFailure("the server's challenge is not one of DIGEST-MD5")
        offered = {each.strip() for each in told.get("qop", "auth").split(",")}
        if "auth" not in offered:
            raise SaslFailure("the server wants to encrypt what follows, which is not supported")
        is_utf_8 = told.get("charset", "").lower() == "utf-8"
        realm = told.get("realm", self._host)
        key = self._key(realm, nonce, is_utf_8)
        response = self._proof(key, nonce, "AUTHENTICATE:")
        self._expected = self._proof(key, nonce, ":").encode()
        words = [
            f'username="{_quoted(self._name)}"',
            f'realm="{_quoted(realm)}"',
            f'nonce="{_quoted(nonce)}"',
            f'cnonce="{_quoted(self._nonce)}"',
            f"nc={_FIRST_USE}",
            "qop=auth",
            f'digest-uri="{_quoted(self._uri)}"',
            f"response={response}",
        ]
        if is_utf_8:
            words.insert(0, "charset=utf-8")
        return _encoded(",".join(words), is_utf_8)

    def _key(self, realm: str, nonce: str, is_utf_8: bool) -> str:
        secret = b":".join(_hashed(each, is_utf_8) for each in (self._name, realm, self._password))
        rest = f":{nonce}:{self._nonce}"
        return _md5(_digest(secret) + _encoded(rest, is_utf_8))

    def _proof(self, key: str, nonce: str, opening: str) -> str:
        asked = _md5(f"{opening}{self._uri}".encode())
        return _md5(f"{key}:{nonce}:{_FIRST_USE}:{self._nonce}:auth:{asked}".encode())


def _directives(challenge: bytes) -> dict[str, str]:
    if len(challenge) > CHALLENGE_LENGTH_MAX:
        raise SaslFailure(f"a challenge of {len(challenge)} bytes, of {CHALLENGE_LENGTH_MAX}")
    try:
        text = challenge.decode()
    except UnicodeDecodeError:
        text = challenge.decode("latin-1")
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        directive = _DIRECTIVE.match(text, position)
        if directive is None:
            raise SaslFailure("the server's challenge cannot be read")
        name, quoted, plain = directive.groups()
        found.setdefault(name.lower(), plain if quoted is None else _ESCAPED.sub(r"\1", quoted))
        position = directive.end()
    return found


def _quoted(text: str) -> str:
    return _NEEDS_ESCAPE.sub(r"\\\1", text)


def _encoded(text: str, is_utf_8: bool) -> bytes:
    try:
        return text.encode("utf-8" if is_utf_8 else "latin-1")
    except UnicodeEncodeError:
        raise SaslFailure("the server does not take names and passwords in UTF-8") from None


def _hashed(text: str, is_utf_8: bool) -> bytes:
    """Before the names and the password are hashed, what fits into Latin-1 is written in it."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return _encoded(text, is_utf_8)


def _digest(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _md5(data: bytes) -> str:
    return _digest(data).hex()
