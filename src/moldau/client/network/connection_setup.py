"""How a connection comes to be: the socket, TLS on it, the versions both sides know, the log-in.

What another try may mend is a DisconnectError. A broker that is not believed, or does not believe
the client, is an AuthenticationError: it is raised at once to whoever wanted the connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import moldau
from moldau.client.network.broker_connection import Connection
from moldau.client.network.connection_security import ConnectionSecurity
from moldau.client.shared.client_errors import (
    DisconnectError,
    KafkaTimeoutError,
    SslAuthenticationError,
    UnsupportedVersionError,
)
from moldau.model.errors import Error
from moldau.net.tls.tls_refusals import tls_refusal
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.primitives import DecodeError

API_VERSIONS = 18


async def open_connection(
    make: Callable[[], Connection],
    host: str,
    port: int,
    *,
    timeout_ms: int,
    send_buffer_bytes: int = -1,
    receive_buffer_bytes: int = -1,
    security: ConnectionSecurity | None = None,
) -> Connection:
    """A connection that knows the broker's versions and is logged in; DisconnectError,
    AuthenticationError."""
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    is_set_up = False
    context = None if security is None else security.context
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            transport, connection = await loop.create_connection(make, host, port, ssl=context)
            peer: socket.socket = transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if send_buffer_bytes >= 0:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
            if receive_buffer_bytes >= 0:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            await _negotiate(connection, timeout_ms)
            if security is not None and security.login is not None:
                await _log_in(connection, security, host, timeout_ms)
            is_set_up = True
            return connection
    except KafkaTimeoutError as fault:
        raise DisconnectError(fault.message) from None
    except DisconnectError:
        # With TLS 1.3 a broker judges the client's certificate when its handshake is over.
        if connection is not None and (why := tls_refusal(connection.lost_by)) is not None:
            raise _tls_failed(host, port, why) from None
        raise
    except OSError as fault:
        if (why := tls_refusal(fault)) is not None:
            raise _tls_failed(host, port, why) from None
        reason = str(fault) or f"no answer within {timeout_ms} ms"
        raise DisconnectError(
            f"Connection to {host}:{port} could not be established: {reason}"
        ) from None
    finally:
        if connection is not None and not is_set_up:
            connection.abort("it was not set up")


def _tls_failed(host: str, port: int, why: str) -> SslAuthenticationError:
    return SslAuthenticationError(f"The TLS handshake with {host}:{port} failed: {why}")


async def _log_in(
    connection: Connection, security: ConnectionSecurity, host: str, timeout_ms: int
) -> None:
    from moldau.client.network.broker_login import log_in

    assert security.login is not None
    await log_in(connection, security.login, host, timeout_ms)


async def _negotiate(connection: Connection, timeout_ms: int) -> None:
    """An older broker answers in version 0 and says which version to ask in (KIP-511)."""
    version = ApiVersionsRequest.__versions__.last
    question = ApiVersionsRequest(
        client_software_name="moldau", client_software_version=moldau.__version__
    )
    answer = await _ask(connection, question, version, timeout_ms)
    if answer.error_code == Error.UNSUPPORTED_VERSION:
        served = [row.max_version for row in answer.api_keys if row.api_key == API_VERSIONS]
        version = min(served[0] if served else 0, version)
        answer = await _ask(connection, question, version, timeout_ms)
    if answer.error_code != 0 or not answer.api_keys:
        raise UnsupportedVersionError(f"The broker {connection.name} does not tell its versions")
    connection.learned(answer)


async def _ask(
    connection: Connection, question: ApiVersionsRequest, version: int, timeout_ms: int
) -> ApiVersionsResponse:
    frame = await connection.ask_raw(question, version, timeout_ms)
    # The error comes first in every version; with UNSUPPORTED_VERSION the rest is version 0.
    if frame[4:6] == int(Error.UNSUPPORTED_VERSION).to_bytes(2, "big"):
        version = 0
    try:
        return ApiVersionsResponse.decode(frame, version, 4)
    except DecodeError as fault:
        raise DisconnectError(
            f"{connection.name} does not speak Kafka's protocol: {fault}"
        ) from None
