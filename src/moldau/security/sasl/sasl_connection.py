"""The order of a log-in on one connection of the broker: what may come when, and what answers it.

Kafka's rules: ApiVersions at most once, then a handshake that names the mechanism, then its tokens:
bare frames after a handshake of version 0, SaslAuthenticate after version 1. A log-in that has an
end can be renewed on the live connection. Whoever holds the socket decodes, asks, encodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from moldau.model.errors import Error
from moldau.security.naming.principal import USER, Principal
from moldau.security.sasl.sasl_failures import SaslFailure, SaslInterrupted
from moldau.security.sasl.sasl_mechanism import SaslServer

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
REAUTHENTICATION_INTERVAL_MS = 1000
"""A connection may begin a further log-in once in this time."""
ALREADY_LOGGED_IN = "SaslAuthenticate request received after successful authentication"


class Stage(Enum):
    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    """ApiVersions has been answered."""
    TOKENS = auto()
    COMPLETE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class SaslRules:
    """What a listener asks for."""

    mechanisms: tuple[str, ...]
    start: Callable[[str], SaslServer]
    """Begins a log-in by one of these mechanisms."""
    reauthentication_ms: Callable[[str], int]
    """After this time clients of a mechanism must log in again; 0 for never."""


class Refusal(NamedTuple):
    """The request is not served. Without an error there is no answer; the connection ends."""

    reason: str
    error: Error = Error.NONE
    is_expiry: bool = False
    """The session is over: nobody did anything wrong."""


class HandshakeAnswer(NamedTuple):
    error: Error
    mechanisms: tuple[str, ...]
    failure: str = ""
    """Why the connection ends after the answer; empty if it does not."""


class TokenAnswer(NamedTuple):
    error: Error = Error.NONE
    message: str | None = None
    token: bytes = b""
    session_lifetime_ms: int = 0
    failure: str = ""
    is_silent: bool = False
    """The connection ends without the answer: the client is to try again."""


class SaslConnection:
    def __init__(self, rules: SaslRules) -> None:
        self._rules = rules
        self._stage = Stage.VERSIONS_OR_HANDSHAKE
        self._mechanism = ""
        self._handshake_version = 0
        self._server: SaslServer | None = None
        self._bad_mechanism = ""
        self._session_ends_at_ms: int | None = None
        self._renewed_at_ms: int | None = None
        self.principal: Principal | None = None
        """Whoever logged in; stays while the log-in is being renewed."""

    @property
    def is_complete(self) -> bool:
        return self._stage is Stage.COMPLETE

    @property
    def has_session_end(self) -> bool:
        """Whether the log-in has to be renewed some time."""
        return self._session_ends_at_ms is not None

    @property
    def mechanism(self) -> str:
        return self._mechanism

    @property
    def expects_bare_tokens(self) -> bool:
        """The next frame is a token without a header."""
        return self._stage is Stage.TOKENS and self._handshake_version == 0

    @property
    def _is_renewal(self) -> bool:
        return self.principal is not None

    @property
    def word(self) -> str:
        return "re-authentication" if self._is_renewal else "authentication"

    def refusal(self, api_key: int, now_ms: int) -> Refusal | None:
        """Asked before every request with a header; None lets it pass."""
        stage = self._stage
        if stage is Stage.COMPLETE:
            ends_at = self._session_ends_at_ms
            if ends_at is not None and now_ms > ends_at and api_key != SASL_HANDSHAKE:
                return Refusal("its session has expired", is_expiry=True)
            return None
        if stage is Stage.TOKENS:
            if api_key == SASL_AUTHENTICATE:
                return None
            reason = f"Unexpected Kafka request of key {api_key} during SASL {self.word}."
            return self._refuse(reason, Error.ILLEGAL_SASL_STATE)
        if api_key == SASL_HANDSHAKE and stage is not Stage.FAILED:
            return None
        if api_key == API_VERSIONS and stage is Stage.VERSIONS_OR_HANDSHAKE:
            return None
        return self._refuse(
            f"Unexpected Kafka request of key {api_key} before the SASL handshake: the client uses "
            "another security protocol than the listener, is older than SASL handshakes, or is no "
            "Kafka client"
        )

    def _refuse(self, reason: str, error: Error = Error.NONE) -> Refusal:
        self._stage = Stage.FAILED
        return Refusal(reason, error)

    def versions_told(self) -> None:
        """ApiVersions was answered without an error."""
        if self._stage is Stage.VERSIONS_OR_HANDSHAKE:
            self._stage = Stage.HANDSHAKE

    def handshake(self, mechanism: str, version: int, now_ms: int) -> HandshakeAnswer:
        if self._stage is Stage.COMPLETE and not self._may_renew(now_ms):
            return HandshakeAnswer(Error.ILLEGAL_SASL_STATE, ())
        mechanisms = self._rules.mechanisms
        if mechanism not in mechanisms:
            self._stage = Stage.FAILED
            reason = f"Unsupported SASL mechanism {mechanism[:64]!r}"
            return HandshakeAnswer(Error.UNSUPPORTED_SASL_MECHANISM, mechanisms, reason)
        if self._is_renewal and mechanism != self._mechanism:
            self._bad_mechanism = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._mechanism}'"
            )
        else:
            self._mechanism = mechanism
        self._server = self._rules.start(mechanism)
        self._handshake_version = version
        self._stage = Stage.TOKENS
        return HandshakeAnswer(Error.NONE, mechanisms)

    def _may_renew(self, now_ms: int) -> bool:
        if self._session_ends_at_ms is None:
            return False
        last = self._renewed_at_ms
        if last is not None and now_ms - last < REAUTHENTICATION_INTERVAL_MS:
            return False
        self._renewed_at_ms = now_ms
        return True

    def authenticate(self, token: bytes, now_ms: int) -> TokenAnswer:
        """A token, from SaslAuthenticate or from a bare frame."""
        if self._stage is Stage.COMPLETE:
            return TokenAnswer(Error.ILLEGAL_SASL_STATE, ALREADY_LOGGED_IN)
        server = self._server
        assert self._stage is Stage.TOKENS and server is not None
        try:
            if self._bad_mechanism:
                raise SaslFailure(self._bad_mechanism, told=self._bad_mechanism)
            answer = server.evaluate(token, now_ms)
            lifetime_ms = self._end(server, now_ms)
        except SaslFailure as fault:
            self._stage = Stage.FAILED
            self._server = None
            told = fault.told or (
                f"Authentication failed during {self.word} due to invalid credentials with SASL "
                f"mechanism {self._mechanism}"
            )
            return TokenAnswer(
                Error.SASL_AUTHENTICATION_FAILED,
                told,
                failure=str(fault),
                is_silent=isinstance(fault, SaslInterrupted),
            )
        return TokenAnswer(token=answer, session_lifetime_ms=lifetime_ms)

    def _end(self, server: SaslServer, now_ms: int) -> int:
        """If this was the last token: who it is, and how long the session lasts."""
        result = server.logged_in
        if result is None:
            return 0
        principal = Principal(USER, result.name, result.is_token_authenticated)
        before = self.principal
        if before is not None and (before.type, before.name) != (principal.type, principal.name):
            sentence = (
                "Cannot change principals during re-authentication from "
                f"{before.type}.{before.name}: {principal.type}.{principal.name}"
            )
            raise SaslFailure(sentence, told=sentence)
        limit_ms = self._rules.reauthentication_ms(self._mechanism)
        limits = [limit_ms] if limit_ms > 0 else []
        if result.expires_at_ms is not None:
            limits.append(max(0, result.expires_at_ms - now_ms))
        lifetime_ms = min(limits, default=0)
        self._session_ends_at_ms = now_ms + lifetime_ms if limits else None
        self.principal = principal
        self._server = None
        self._stage = Stage.COMPLETE
        return lifetime_ms
