"""OAUTHBEARER: a token instead of a password (RFC 7628), both sides.

A refused token takes two steps: the answer carries a small JSON document, the client acknowledges
it with one byte, and only then the log-in fails with the same document as its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.security.sasl.sasl_failures import SaslFailure, refused
from moldau.security.sasl.sasl_mechanism import LoggedIn

CONTROL_A = b"\x01"
INVALID_TOKEN = "invalid_token"
INSUFFICIENT_SCOPE = "insufficient_scope"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_EXTENSION_KEY = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class BearerToken(NamedTuple):
    """What a token says, once it has been found good."""

    name: str
    expires_at_ms: int
    scope: frozenset[str] = frozenset()


class IllegalToken(Exception):
    """A token that is not accepted. The sentence never quotes it."""

    def __init__(self, sentence: str, scope: str | None = None) -> None:
        super().__init__(sentence)
        self.scope = scope
        """What a token would need that has too few rights."""


TokenValidator = Callable[[str, int], BearerToken]
"""Takes the token and the time; raises IllegalToken."""


class ClientFirst(NamedTuple):
    authorization_id: str
    token: str
    extensions: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ClientFirst({self.authorization_id!r}, [hidden])"


def read_client_first(message: bytes) -> ClientFirst:
    found = _FIRST.fullmatch(message.decode("latin-1"))
    if found is None:
        raise SaslFailure("Invalid OAUTHBEARER client first message")
    pairs = dict(part.partition("=")[::2] for part in found["pairs"].split("\x01") if part)
    auth = pairs.pop("auth", None)
    if auth is None:
        raise SaslFailure("Invalid OAUTHBEARER client first message: 'auth' not specified")
    told = _AUTH.fullmatch(auth.strip())
    if told is None or told["scheme"].lower() != "bearer":
        raise SaslFailure("Invalid OAUTHBEARER client first message: 'auth' is not a bearer token")
    name = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientFirst(name, told["token"], pairs)


def error_document(status: str, scope: str | None = None) -> str:
    scoped = f', "scope":{json.dumps(scope)}' if scope is not None else ""
    return f'{{"status":"{status}"{scoped}}}'


class OAuthBearerServer:
    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._refusal = ""
        self._reason = ""
        self._logged_in: LoggedIn | None = None

    @property
    def logged_in(self) -> LoggedIn | None:
        return self._logged_in

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        if self._logged_in is not None:
            raise SaslFailure("a token came after the end of the log-in")
        if self._refusal:
            # Whatever comes now: the client has been told, and there is no second try.
            raise SaslFailure(self._reason, told=self._refusal)
        first = read_client_first(token)
        try:
            bearer = self._validate(first.token, now_ms)
        except IllegalToken as fault:
            status = INVALID_TOKEN if fault.scope is None else INSUFFICIENT_SCOPE
            self._refusal = error_document(status, fault.scope)
            self._reason = str(fault)
            return self._refusal.encode()
        if first.authorization_id and first.authorization_id != bearer.name:
            raise refused(
                "Authentication failed: Client requested an authorization id "
                f"({first.authorization_id}) that is different from the token's principal name "
                f"({bearer.name})"
            )
        self._logged_in = LoggedIn(bearer.name, expires_at_ms=bearer.expires_at_ms)
        return b""


class OAuthBearerClient:
    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        for key, value in (extensions or {}).items():
            if key == "auth" or not _EXTENSION_KEY.fullmatch(key):
                raise ValueError(f"extension {key} must be made of letters and not be auth")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"the value of extension {key} must be printable ASCII")
        pairs = "".join(f"{key}={value}\x01" for key, value in (extensions or {}).items())
        self._first = f"n,,\x01auth=Bearer {token}\x01{pairs}\x01".encode()
        self._is_complete = False
        self._is_refused = False

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    def first(self) -> bytes:
        return self._first

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._is_complete or self._is_refused:
            raise SaslFailure("a challenge came after the end of the log-in")
        if challenge:
            # The server's next answer carries the failure.
            self._is_refused = True
            return CONTROL_A
        self._is_complete = True
        return None
