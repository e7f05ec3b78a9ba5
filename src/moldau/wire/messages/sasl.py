"""Authentication inside the protocol.

SaslHandshake never became flexible: it is exchanged before either side knows the other.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    array,
    blob,
    int16,
    int64,
    string,
)


class SaslHandshakeRequest(Message, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Message, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)


class SaslAuthenticateRequest(Message, versions="0-2", flexible="2+"):
    auth_bytes: bytes = blob()


class SaslAuthenticateResponse(Message, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64("1+")
