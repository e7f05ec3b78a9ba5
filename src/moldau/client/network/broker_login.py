"""A client's log-in on a connection: SaslHandshake, then tokens in SaslAuthenticate.

A broker that lets a session end is shown the log-in again before that, on the same connection
(KIP-368). Meanwhile nobody else may send on it, and what was sent before is answered first. A
connection that nobody has used since its last log-in is closed instead.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from moldau.client.network.broker_connection import Connection, api_key_of
from moldau.client.shared.client_errors import AuthenticationError, KafkaError, error_for
from moldau.net.sasl.login_exchange import VERSIONS_MIN, LoginRefused, exchange, renewal_seconds
from moldau.security.sasl.sasl_login import Login
from moldau.wire.schema import Message

log = logging.getLogger("moldau.client")


async def log_in(connection: Connection, login: Login, host: str, timeout_ms: int) -> None:
    """Raises AuthenticationError if the broker refuses, or is not the one it claims to be."""

    async def ask(request: Message) -> Any:
        key = api_key_of(request)
        version = connection.version_for(key, version_min=VERSIONS_MIN[key])
        return await connection.request(request, version, timeout_ms=timeout_ms)

    try:
        lifetime_ms = await exchange(ask, login, host)
    except LoginRefused as refusal:
        sentence = f"The log-in at {connection.name} failed: {refusal}"
        raise error_for(refusal.code, sentence) from None
    if lifetime_ms > 0:
        _renew_later(connection, login, host, timeout_ms, lifetime_ms)


def _renew_later(
    connection: Connection, login: Login, host: str, timeout_ms: int, lifetime_ms: int
) -> None:
    loop = asyncio.get_running_loop()
    logged_in_at = loop.time()

    def begin() -> None:
        if not connection.was_used_since(logged_in_at):
            connection.abort("its session ended while it was idle")
        elif connection.is_open:
            connection.chore = loop.create_task(_renew(connection, login, host, timeout_ms))

    connection.chore = loop.call_later(renewal_seconds(lifetime_ms), begin)


async def _renew(connection: Connection, login: Login, host: str, timeout_ms: int) -> None:
    """After whatever waits for its answer: a broker may keep a JoinGroup for minutes."""
    await connection.hold()
    try:
        await log_in(connection, login, host, timeout_ms)
    except AuthenticationError as fault:
        # The next connection meets the same refusal, and then somebody waits to hear it.
        log.error("%s", fault)
        connection.abort(fault.message)
    except KafkaError as fault:
        connection.abort(fault.message)
    finally:
        connection.release()
