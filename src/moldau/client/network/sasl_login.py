"""A client's log-in on a connection: SaslHandshake, then tokens in SaslAuthenticate.

A broker that lets a session end is shown the log-in again before that, on the same connection
(KIP-368). Meanwhile nobody else may send on it, and what was sent before is answered first. A
connection that nobody has used since its last log-in is closed instead.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

from moldau.client.network.broker_connection import Connection
from moldau.client.network.connection_security import Login
from moldau.client.shared.client_errors import (
    AuthenticationError,
    KafkaError,
    error_class,
    error_for,
)
from moldau.model.errors import Error
from moldau.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

log = logging.getLogger("moldau.client")

HANDSHAKE, AUTHENTICATE = 17, 36
HANDSHAKE_VERSION = 1
ROUNDS_MAX = 10
"""No mechanism has more than two; a broker that goes on asking is no broker."""
RENEWAL_SHARE, RENEWAL_JITTER = 0.85, 0.10
"""When in its life a session is renewed; spread, for many clients may have begun together."""


async def log_in(connection: Connection, login: Login, timeout_ms: int) -> None:
    """Raises AuthenticationError if the broker refuses, or is not the one it claims to be."""
    lifetime_ms = await _exchange(connection, login, timeout_ms)
    if lifetime_ms > 0:
        _renew_later(connection, login, timeout_ms, lifetime_ms)


async def _exchange(connection: Connection, login: Login, timeout_ms: int) -> int:
    """How long the session lasts in ms; 0 for as long as the connection."""
    from moldau.security.sasl.sasl_failures import SaslFailure

    await _shake_hands(connection, login.mechanism, timeout_ms)
    machine = login.start()
    token: bytes | None = machine.first()
    version = connection.version_for(AUTHENTICATE)
    for _ in range(ROUNDS_MAX):
        assert token is not None
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = await connection.request(request, version, timeout_ms=timeout_ms)
        if answer.error_code:
            raise _refused(connection, answer.error_code, answer.error_message)
        try:
            token = machine.evaluate(answer.auth_bytes)
        except SaslFailure as fault:
            raise _refused(connection, Error.SASL_AUTHENTICATION_FAILED, str(fault)) from None
        if machine.is_complete:
            lifetime_ms: int = answer.session_lifetime_ms
            return lifetime_ms
    sentence = f"it asked for more than {ROUNDS_MAX} tokens"
    raise _refused(connection, Error.SASL_AUTHENTICATION_FAILED, sentence)


async def _shake_hands(connection: Connection, mechanism: str, timeout_ms: int) -> None:
    version = connection.version_for(HANDSHAKE, version_min=HANDSHAKE_VERSION)
    request = SaslHandshakeRequest(mechanism=mechanism)
    answer: Any = await connection.request(request, version, timeout_ms=timeout_ms)
    if answer.error_code == Error.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        sentence = f"it does not offer the mechanism {mechanism}, but {offered}"
        raise _refused(connection, answer.error_code, sentence)
    if answer.error_code:
        raise _refused(connection, answer.error_code, None)


def _refused(connection: Connection, code: int, sentence: str | None) -> KafkaError:
    sentence = sentence or error_class(code).code.sentence
    return error_for(code, f"The log-in at {connection.name} failed: {sentence}")


def _renew_later(connection: Connection, login: Login, timeout_ms: int, lifetime_ms: int) -> None:
    share = RENEWAL_SHARE + random.uniform(0, RENEWAL_JITTER)
    loop = asyncio.get_running_loop()
    logged_in_at = loop.time()

    def begin() -> None:
        if not connection.was_used_since(logged_in_at):
            connection.abort("its session ended while it was idle")
        elif connection.is_open:
            connection.chore = loop.create_task(_renew(connection, login, timeout_ms))

    connection.chore = loop.call_later(lifetime_ms * share / 1000, begin)


async def _renew(connection: Connection, login: Login, timeout_ms: int) -> None:
    """After whatever waits for its answer: a broker may keep a JoinGroup for minutes."""
    await connection.hold()
    try:
        await log_in(connection, login, timeout_ms)
    except AuthenticationError as fault:
        # The next connection meets the same refusal, and then somebody waits to hear it.
        log.error("%s", fault)
        connection.abort(fault.message)
    except KafkaError as fault:
        connection.abort(fault.message)
    finally:
        connection.release()
