"""What a log-in says on the wire: SaslHandshake, then tokens in SaslAuthenticate.

The client library and the brokers among themselves bring the connection; `ask` sends one request on
it and returns its answer.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from moldau.model.errors import Error
from moldau.net.beside_loop import beside_loop
from moldau.security.sasl.sasl_failures import SaslFailure
from moldau.security.sasl.sasl_login import Login, Sources
from moldau.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from moldau.wire.schema import Message

VERSIONS_MIN = {17: 1, 36: 0}
"""By API key: after the first version of the handshake tokens would be bare frames."""
ROUNDS_MAX = 10
"""No mechanism has more than three; a broker that goes on asking is no broker."""
RENEWAL_SHARE, RENEWAL_JITTER = 0.85, 0.10
"""When in its life a session is renewed; spread, for many clients may have begun together."""
NONCE_BYTES = 24
THREAD = "moldau-login"

T = TypeVar("T")

SOURCES = Sources(lambda: secrets.token_urlsafe(NONCE_BYTES), lambda: time.time_ns() // 1_000_000)


class LoginRefused(Exception):
    """The other side does not let us in, or is not the one it claims to be."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


async def exchange(ask: Callable[[Message], Awaitable[Any]], login: Login, host: str) -> int:
    """How long the session lasts in ms; 0 for as long as the connection. Raises LoginRefused."""
    # First, so that the other side does not wait for whoever else is asked.
    machine = await _step(login, partial(login.start, host))
    await _shake_hands(ask, login.mechanism)
    token: bytes | None = await _step(login, machine.first)
    for _ in range(ROUNDS_MAX):
        assert token is not None
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            raise _refused(answer.error_code, answer.error_message)
        token = await _step(login, partial(machine.evaluate, bytes(answer.auth_bytes)))
        if machine.is_complete:
            lifetime_ms: int = answer.session_lifetime_ms
            return lifetime_ms
    sentence = f"it asked for more than {ROUNDS_MAX} tokens"
    raise _refused(Error.SASL_AUTHENTICATION_FAILED, sentence)


async def _step(login: Login, work: Callable[[], T]) -> T:
    try:
        if login.blocks:
            return await beside_loop(THREAD, work, SaslFailure)
        return work()
    except SaslFailure as fault:
        raise _refused(Error.SASL_AUTHENTICATION_FAILED, str(fault)) from None


def renewal_seconds(lifetime_ms: int) -> float:
    """After how long to log in again."""
    return lifetime_ms * (RENEWAL_SHARE + random.uniform(0, RENEWAL_JITTER)) / 1000


async def _shake_hands(ask: Callable[[Message], Awaitable[Any]], mechanism: str) -> None:
    answer = await ask(SaslHandshakeRequest(mechanism=mechanism))
    if answer.error_code == Error.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        sentence = f"it does not offer the mechanism {mechanism}, but {offered}"
        raise _refused(answer.error_code, sentence)
    if answer.error_code:
        raise _refused(answer.error_code, None)


def _refused(code: int, sentence: str | None) -> LoginRefused:
    if not sentence:
        known = code in Error._value2member_map_
        sentence = Error(code).sentence if known else f"error {code}"
    return LoginRefused(code, sentence)
