"""The way into a listener that asks for a log-in: frames on one side, the rules on the other.

`security/sasl/sasl_connection.py` says what may come when; here its questions and answers become
frames. Until somebody is known only ApiVersions goes on to the handlers.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable

from moldau.broker.access.sasl_settings import LoginSources, sasl_rules
from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.handlers.api_versions import is_acceptable
from moldau.handlers.routes import ROUTES
from moldau.model.clock import Clock
from moldau.model.errors import Error
from moldau.net.answers import SessionExpired
from moldau.net.entrance import Authenticator, Entrance, LoginStep
from moldau.net.transport import Transport
from moldau.security.sasl.sasl_connection import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    HandshakeAnswer,
    Refusal,
    SaslConnection,
    SaslRules,
    TokenAnswer,
)
from moldau.wire.apis import api, response_class
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from moldau.wire.primitives import DecodeError
from moldau.wire.request_framing import RequestHeader, encode_response, read_request_header
from moldau.wire.schema import Message

log = logging.getLogger("kafka.server.KafkaServer")

_SIZE = struct.Struct(">i")
_api_key_at = struct.Struct(">h").unpack_from


class SaslEntrance:
    """Asks for a log-in on top of what the transport does."""

    def __init__(
        self,
        transports: Entrance,
        listener: str,
        config: Callable[[], BrokerConfig],
        sources: LoginSources,
        clock: Clock,
    ) -> None:
        """Raises ConfigError."""
        self._transports = transports
        self._listener = listener
        self._config = config
        self._sources = sources
        self._clock = clock
        self._read = config()
        self._rules = sasl_rules(self._read, listener, sources)

    def transport(self, client: socket.socket) -> Transport:
        return self._transports.transport(client)

    def authenticator(self, transport: Transport) -> Authenticator | None:
        config = self._config()
        if config is not self._read:
            self._read = config
            try:
                self._rules = sasl_rules(config, self._listener, self._sources)
            except ConfigError as fault:
                log.error("Log-ins at %s go on as they were: %s", self._listener, fault)
        return SaslAuthenticator(
            self._rules, config.sasl_server_max_receive_size, self._clock.wall_ms
        )


class SaslAuthenticator:
    def __init__(self, rules: SaslRules, frame_bytes_max: int, now_ms: Callable[[], int]) -> None:
        self._sasl = SaslConnection(rules)
        self._frame_bytes_max = frame_bytes_max
        self._now_ms = now_ms

    @property
    def frame_bytes_max(self) -> int:
        return self._frame_bytes_max

    @property
    def stays(self) -> bool:
        return self._sasl.has_session_end

    def greet(self) -> LoginStep:
        return LoginStep()

    def take(self, frame: memoryview) -> LoginStep:
        sasl = self._sasl
        now_ms = self._now_ms()
        if sasl.expects_bare_tokens:
            return self._bare(sasl.authenticate(bytes(frame), now_ms))
        try:
            (api_key,) = _api_key_at(frame, 0)
            refusal = sasl.refusal(api_key, now_ms)
            if refusal is not None:
                return self._refuse(refusal, frame)
            if api_key == SASL_HANDSHAKE:
                return self._handshake(frame, now_ms)
            if api_key == SASL_AUTHENTICATE:
                return self._authenticate(frame, now_ms)
            if api_key == API_VERSIONS and not sasl.is_complete:
                self._note_versions(frame)
        except (DecodeError, struct.error, IndexError) as fault:
            return LoginStep(refusal=f"its request cannot be read: {fault}")
        return LoginStep(is_request=True)

    def _note_versions(self, frame: memoryview) -> None:
        """Whoever asks in a way that is answered with an error may ask again."""
        header = read_request_header(frame)
        if ROUTES[API_VERSIONS].serves(header.api_version):
            version = header.api_version
            request = ApiVersionsRequest.decode(frame, version, header.body_position)
            if is_acceptable(request, version):
                self._sasl.versions_told()

    def _handshake(self, frame: memoryview, now_ms: int) -> LoginStep:
        header = _served_header(frame)
        request = SaslHandshakeRequest.decode(frame, header.api_version, header.body_position)
        answer: HandshakeAnswer
        answer = self._sasl.handshake(request.mechanism, header.api_version, now_ms)
        response = SaslHandshakeResponse(
            error_code=answer.error, mechanisms=list(answer.mechanisms)
        )
        return LoginStep(_frame(header, response), refusal=answer.failure)

    def _authenticate(self, frame: memoryview, now_ms: int) -> LoginStep:
        header = _served_header(frame)
        request = SaslAuthenticateRequest.decode(frame, header.api_version, header.body_position)
        before = self._sasl.principal
        answer = self._sasl.authenticate(bytes(request.auth_bytes), now_ms)
        if answer.is_silent:
            return LoginStep(refusal=answer.failure)
        response = SaslAuthenticateResponse(
            error_code=answer.error,
            error_message=answer.message,
            auth_bytes=answer.token,
            session_lifetime_ms=answer.session_lifetime_ms,
        )
        known = self._sasl.principal if before is None else None
        is_renewal = before is not None and self._sasl.is_complete
        return LoginStep(_frame(header, response), known, answer.failure, is_renewal=is_renewal)

    def _bare(self, answer: TokenAnswer) -> LoginStep:
        """Old clients are not told why."""
        if answer.failure:
            return LoginStep(refusal=answer.failure)
        said = _SIZE.pack(len(answer.token)) + answer.token
        return LoginStep(said, self._sasl.principal)

    def _refuse(self, refusal: Refusal, frame: memoryview) -> LoginStep:
        if refusal.is_expiry:
            raise SessionExpired(refusal.reason)
        answer = None
        if refusal.error is not Error.NONE:
            answer = _error(frame, refusal.error)
        return LoginStep(answer, refusal=refusal.reason)


def _served_header(frame: memoryview) -> RequestHeader:
    header = read_request_header(frame)
    if not ROUTES[header.api_key].serves(header.api_version):
        raise DecodeError(f"version {header.api_version} of API {header.api_key} is not served")
    return header


def _frame(header: RequestHeader, response: Message) -> bytes:
    chunks = encode_response(header.api_key, header.api_version, header.correlation_id, response)
    return b"".join(bytes(chunk) for chunk in chunks if isinstance(chunk, bytes | memoryview))


def _error(frame: memoryview, error: Error) -> bytes | None:
    """The answer to a request that is out of place; None if it has no room for an error."""
    header = read_request_header(frame)
    row = api(header.api_key)
    if row is None or not row.version_min <= header.api_version <= row.version_max:
        return None
    response = response_class(header.api_key)
    named = {field.name for field in response.__fields__ if header.api_version in field.versions}
    if "error_code" not in named:
        return None
    return _frame(header, response(error_code=int(error)))
