"""Calls to other brokers: one connection for each broker and lane, opened when first needed.

Requests of one lane arrive and are answered in the order of their calls; lanes exist so that a
request that may wait long (a follower's fetch) holds up nobody else. Whatever keeps an answer from
coming is a PeerUnreachable: who called knows whether the request still matters and asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from moldau.model.cluster import Endpoint
from moldau.model.log_line_limit import LogLimit
from moldau.model.names import BrokerId, Millis
from moldau.net.holding.outgoing_hold import OutgoingHold
from moldau.net.peer_connection import PeerConnection, PeerRefused, PeerUnreachable
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from ssl import SSLContext

    from moldau.security.sasl.sasl_login import Login

__all__ = ["PeerCalls", "PeerSecurity", "PeerUnreachable", "Peers"]

log = logging.getLogger("org.apache.kafka.clients.NetworkClient")
log.addFilter(LogLimit())

BACKOFF_MIN_MS = 50
BACKOFF_MAX_MS = 1_000
"""Between two attempts to connect; doubled with every refusal."""
CONNECT_TIMEOUT_MS = 10_000
HOLDERS_LANE = "snapshots"
"""Of those who hold back everything else."""


class PeerCalls(Protocol):
    async def call(
        self,
        broker: BrokerId,
        request: Message,
        *,
        timeout_ms: Millis,
        lane: str = "",
        version: int | None = None,
    ) -> Any:
        """The response. Without a version the highest one that both sides know is used. Raises
        PeerUnreachable if there is none in time."""

    def forget(self, broker: BrokerId) -> None:
        """Close the connections to a broker that went away; calls under way fail at once."""


def _nothing() -> None:
    return None


class PeerSecurity(NamedTuple):
    """How to speak to other brokers; both are asked for each connection."""

    tls: Callable[[], SSLContext | None] = _nothing
    login: Callable[[], Login | None] = _nothing


OPEN = PeerSecurity()


class _Line:
    """The way to one broker on one lane: a connection, one being opened, or when to try again."""

    __slots__ = ("address", "backoff_ms", "connection", "opening", "retry_at")

    def __init__(self) -> None:
        self.connection: PeerConnection | None = None
        self.opening: asyncio.Task[None] | None = None
        """Belongs to nobody who calls: one who gives up does not break off a handshake or a log-in
        that the next one would have to begin anew."""
        self.address: tuple[str, int] | None = None
        self.backoff_ms = BACKOFF_MIN_MS
        self.retry_at = 0.0

    def refused(self, now: float) -> None:
        self.retry_at = now + self.backoff_ms / 1000
        self.backoff_ms = min(2 * self.backoff_ms, BACKOFF_MAX_MS)

    def drop(self, reason: str) -> None:
        if self.opening is not None:
            self.opening.cancel()
            self.opening = None
        if self.connection is not None:
            self.connection.abort(reason)
            self.connection = None


class Peers:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint_of: Callable[[BrokerId], Endpoint | None],
        *,
        client_id: str,
        connect_timeout_ms: Millis = CONNECT_TIMEOUT_MS,
        security: PeerSecurity = OPEN,
    ) -> None:
        """`endpoint_of` gives a broker's address on the listener that brokers use among
        themselves; None if the broker is not known."""
        self._security = security
        self._loop = loop
        self._endpoint_of = endpoint_of
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._lines: dict[tuple[BrokerId, str], _Line] = {}
        self._is_closed = False
        self.hold: OutgoingHold | None = None
        """While it is on, only calls on its own lane leave."""

    async def call(
        self,
        broker: BrokerId,
        request: Message,
        *,
        timeout_ms: Millis,
        lane: str = "",
        version: int | None = None,
    ) -> Any:
        deadline = self._loop.time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline):
                if self.hold is not None and self.hold.is_on and lane != HOLDERS_LANE:
                    await self.hold.over()
                connection = await self._connection(broker, lane)
                if version is None:
                    version = await connection.version_for(request)
                await connection.room()
        except TimeoutError:
            raise PeerUnreachable(
                f"broker {broker} could not be reached within {timeout_ms} ms"
            ) from None
        return await connection.request(request, version, deadline)

    def forget(self, broker: BrokerId) -> None:
        for key in [key for key in self._lines if key[0] == broker]:
            self._lines.pop(key).drop(f"broker {broker} went away")

    async def close(self) -> None:
        """Calls under way fail; later ones are refused."""
        self._is_closed = True
        lines, self._lines = self._lines, {}
        connections = [line.connection for line in lines.values() if line.connection is not None]
        openings = [line.opening for line in lines.values() if line.opening is not None]
        for line in lines.values():
            line.drop("this broker stops")
        if openings:
            await asyncio.wait(openings)
        for connection in connections:
            await connection.wait_closed()

    async def _connection(self, broker: BrokerId, lane: str) -> PeerConnection:
        endpoint = self._endpoint_of(broker)
        if endpoint is None or self._is_closed:
            reason = "this broker stops" if self._is_closed else "it is not in the cluster"
            raise PeerUnreachable(f"broker {broker} cannot be reached: {reason}")
        line = self._lines.get((broker, lane))
        if line is None:
            line = self._lines[broker, lane] = _Line()
        address = (endpoint.host, endpoint.port)
        if line.address != address:
            line.drop(f"broker {broker} is at {endpoint.host}:{endpoint.port} now")
            line.address, line.retry_at, line.backoff_ms = address, 0.0, BACKOFF_MIN_MS
        if line.connection is not None and line.connection.is_open:
            return line.connection
        if line.opening is None:
            line.opening = self._loop.create_task(self._open(broker, line, address))
            line.opening.add_done_callback(partial(_opening_ended, line))
        opening = line.opening
        await asyncio.wait([opening])
        if opening.cancelled():
            raise PeerUnreachable(f"broker {broker} went away")
        opening.result()
        assert line.connection is not None
        return line.connection

    async def _open(self, broker: BrokerId, line: _Line, address: tuple[str, int]) -> None:
        """Raises PeerUnreachable."""
        pause = line.retry_at - self._loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        host, port = address
        name = f"broker {broker} at {host}:{port}"
        try:
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                connection = await self._opened(name, host, port)
        except (OSError, TimeoutError) as fault:
            line.refused(self._loop.time())
            if (why := _refusal(fault)) is not None:
                sentence = "Connection to node %d (%s:%d) failed authentication due to: %s"
                log.error(sentence, broker, host, port, why)
            if isinstance(fault, PeerUnreachable):
                raise
            raise PeerUnreachable(
                f"{name} cannot be reached: {str(fault) or 'no answer'}"
            ) from fault
        line.backoff_ms, line.retry_at = BACKOFF_MIN_MS, 0.0
        line.connection = connection

    async def _opened(self, name: str, host: str, port: int) -> PeerConnection:
        tls, login = self._security.tls(), self._security.login()
        secured: dict[str, Any] = {} if tls is None else {"ssl": tls}
        _, connection = await self._loop.create_connection(
            lambda: PeerConnection(self._loop, name, self._client_id), host, port, **secured
        )
        if login is not None:
            is_known = False
            try:
                await connection.log_in(self._security.login, host)
                is_known = True
            finally:
                if not is_known:
                    connection.abort("it did not let this broker in")
        return connection


def _opening_ended(line: _Line, opening: asyncio.Task[None]) -> None:
    if line.opening is opening:
        line.opening = None
    if not opening.cancelled():
        opening.exception()  # whoever still waits for it raises it


def _refusal(fault: OSError) -> str | None:
    """Why the other side is not believed, or does not believe us; None for any other fault."""
    if isinstance(fault, PeerRefused):
        return fault.reason
    from ssl import SSLError

    if not isinstance(fault, SSLError):
        return None
    from moldau.net.tls.tls_refusals import tls_refusal

    return tls_refusal(fault)
