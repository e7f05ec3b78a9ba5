"""PLAIN: name and password as they are (RFC 4616). Only for encrypted or trusted networks."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from moldau.security.sasl.sasl_failures import SaslFailure, refused
from moldau.security.sasl.sasl_mechanism import LoggedIn
from moldau.security.sasl.scram_server import OTHER_AUTHORIZATION_ID

FIELDS = 3
PASSWORD_OPTION = "user_"
"""An option user_<name> of the log-in module holds the password of <name>."""

PasswordCheck = Callable[[str, bytes], bool]


class PlainServer:
    def __init__(self, check: PasswordCheck) -> None:
        self._check = check
        self._logged_in: LoggedIn | None = None

    @property
    def logged_in(self) -> LoggedIn | None:
        return self._logged_in

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        if self._logged_in is not None:
            raise SaslFailure("a token came after the end of the log-in")
        try:
            fields = token.decode().split("\0")
        except UnicodeDecodeError:
            raise refused("Invalid SASL/PLAIN response: not in UTF-8") from None
        if len(fields) != FIELDS:
            raise refused(
                f"Invalid SASL/PLAIN response: expected {FIELDS} tokens, got {len(fields)}"
            )
        authorization_id, name, password = fields
        if not name:
            raise refused("Authentication failed: username not specified")
        if not password:
            raise refused("Authentication failed: password not specified")
        if not self._check(name, password.encode()):
            raise refused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != name:
            raise refused(OTHER_AUTHORIZATION_ID)
        self._logged_in = LoggedIn(name)
        return b""


def check_against(options: Mapping[str, str], decoy_secret: bytes) -> PasswordCheck:
    """Against the passwords in the options of a log-in module. Both are hashed with a secret of
    this process first, so that the comparison takes as long for any length, known name or not."""

    def hashed(password: bytes) -> bytes:
        return hmac.digest(decoy_secret, password, "sha256")

    passwords = {
        key.removeprefix(PASSWORD_OPTION): hashed(value.encode())
        for key, value in options.items()
        if key.startswith(PASSWORD_OPTION)
    }
    nobody = hashed(decoy_secret)

    def check(name: str, password: bytes) -> bool:
        expected = passwords.get(name)
        is_equal = hmac.compare_digest(hashed(password), nobody if expected is None else expected)
        return is_equal and expected is not None

    return check


class PlainClient:
    def __init__(self, name: str, password: str, authorization_id: str = "") -> None:
        self._token = f"{authorization_id}\0{name}\0{password}".encode()
        self._is_complete = False

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    def first(self) -> bytes:
        return self._token

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._is_complete or challenge:
            raise SaslFailure("the server asks for more than PLAIN has")
        self._is_complete = True
        return None
