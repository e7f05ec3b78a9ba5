"""Listeners and the connections that came through them.

All sockets live on one event loop. `bind` takes the ports early, so that a taken port stops the
start and a port chosen by the system can be advertised; clients are let in by `start`, when the
rest of the broker is ready to answer.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from moldau.net.connection import Answer, Connection, host_of
from moldau.net.log_limit import LogLimit
from moldau.net.outgoing import RegionCutShort
from moldau.wire.framing import Chunk

log = logging.getLogger("kafka.network.SocketServer")
log.addFilter(LogLimit())

ACCEPTS_PER_TURN = 64
ACCEPT_PAUSE_SECONDS = 0.5
SWEEPS_PER_IDLE_TIME = 10
SWEEP_SECONDS_MIN = 0.005
SWEEP_SECONDS_MAX = 30.0
OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listener(NamedTuple):
    name: str
    host: str
    """Empty for every address of the machine."""
    port: int
    """0 until the system has chosen one."""
    security_protocol: str = "PLAINTEXT"


class Requests(Protocol):
    """Whoever answers what clients ask."""

    def begin(self, connection: Connection, frame: memoryview) -> list[Chunk] | Answer:
        """Work on one request: the answer at once (empty if nobody waits for one), or a place to
        be filled later. The frame is the answerer's own if it takes time, otherwise it is lent.
        Raises `Disconnect` on what cannot be answered."""


@dataclass(frozen=True, slots=True)
class SocketSettings:
    request_bytes_max: int = 100 * 1024 * 1024
    send_buffer_bytes: int = 100 * 1024
    """-1 leaves it to the operating system; so for the next."""
    receive_buffer_bytes: int = 100 * 1024
    backlog: int = 50
    idle_ms_max: int = 600_000
    """-1 lets clients be silent for ever."""
    connections_max: int = 2**31 - 1
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    requests_overlapping_max: int = 500
    """Unanswered requests of all connections together, not counting each connection's first."""


class BindFault(Exception):
    """A listener's address cannot be had; says which one and why."""


class Server:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: SocketSettings,
        requests: Requests,
        overlapping_apis: frozenset[int] = frozenset(),
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.requests = requests
        self.overlapping_apis = overlapping_apis
        self.overlapping = 0
        self.connections: set[Connection] = set()
        self.connections_accepted = 0
        self.tick = 0
        """Counts sweeps: a connection notes the last one before it was heard of."""
        self._sockets: list[tuple[socket.socket, Listener]] = []
        self._per_ip: Counter[str] = Counter()
        self._is_accepting = False
        self._sweep_timer: asyncio.TimerHandle | None = None

    def bind(self, listener: Listener) -> Listener:
        """Take the address; the listener with the port that it really got."""
        sock = _listening_socket(listener, self.settings)
        bound = listener._replace(port=sock.getsockname()[1])
        self._sockets.append((sock, bound))
        return bound

    def start(self) -> None:
        for sock, listener in self._sockets:
            try:
                sock.listen(self.settings.backlog)
            except OSError as fault:
                raise _bind_fault(listener, fault) from None
            log.info("Awaiting socket connections on %s:%d.", listener.host or "*", listener.port)
        self._accept(True)
        self._plan_sweep()

    def stop(self) -> None:
        """Let nobody in any more and end every connection; unfinished requests are cancelled."""
        self._accept(False)
        for sock, _ in self._sockets:
            sock.close()
        self._sockets.clear()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in list(self.connections):
            connection.close()

    def may_overlap(self, api_key: int) -> bool:
        """Whether one more request of this kind may begin before an earlier one is answered."""
        return (
            api_key in self.overlapping_apis
            and self.overlapping < self.settings.requests_overlapping_max
        )

    # Told by connections

    def refused(self, connection: Connection, reason: str) -> None:
        log.warning("Closing connection=%s reason=%s", connection, reason)

    def broke(self, connection: Connection, fault: OSError) -> None:
        if isinstance(fault, RegionCutShort):
            log.error("Closing connection=%s reason=%s", connection, fault.strerror)
        else:
            log.debug("Connection ended connection=%s reason=%s", connection, fault)

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._per_ip[connection.client_host] -= 1
        if not self._per_ip[connection.client_host]:
            del self._per_ip[connection.client_host]
        if not self._is_accepting and self._sockets and self._has_place():
            self._accept(True)

    # Accepting

    def _accept(self, wanted: bool) -> None:
        if wanted and not self._is_accepting:
            for sock, listener in self._sockets:
                self.loop.add_reader(sock.fileno(), self._acceptable, sock, listener)
        elif not wanted and self._is_accepting:
            for sock, _ in self._sockets:
                self.loop.remove_reader(sock.fileno())
        self._is_accepting = wanted

    def _has_place(self) -> bool:
        return len(self.connections) < self.settings.connections_max

    def _acceptable(self, sock: socket.socket, listener: Listener) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._has_place():
                # As in Apache Kafka: the next client waits in the backlog until another leaves.
                self._accept(False)
                return
            try:
                client, peer = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as fault:
                if fault.errno not in OUT_OF_RESOURCES:
                    raise
                log.error("Accepting no clients for a moment reason=%s", fault.strerror)
                self._accept(False)
                self.loop.call_later(ACCEPT_PAUSE_SECONDS, self._accept_again)
                return
            self._welcome(client, peer, listener)

    def _accept_again(self) -> None:
        if self._sockets and self._has_place():
            self._accept(True)

    def _welcome(self, client: socket.socket, peer: tuple[Any, ...], listener: Listener) -> None:
        host = host_of(peer)
        limit = self.settings.connections_per_ip_overrides.get(
            host, self.settings.connections_per_ip_max
        )
        if self._per_ip[host] >= limit:
            log.info("Rejected connection from %s, address already has %d connections", host, limit)
            client.close()
            return
        client.setblocking(False)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            client.close()  # already gone again
            return
        self._per_ip[host] += 1
        self.connections_accepted += 1
        self.connections.add(Connection(client, peer, listener, self))

    # Idle connections

    def _plan_sweep(self) -> None:
        seconds = SWEEP_SECONDS_MAX
        if self.settings.idle_ms_max >= 0:
            idle_seconds = self.settings.idle_ms_max / 1000
            seconds = min(seconds, max(idle_seconds / SWEEPS_PER_IDLE_TIME, SWEEP_SECONDS_MIN))
        self._sweep_timer = self.loop.call_later(seconds, self._sweep, seconds)

    def _sweep(self, seconds: float) -> None:
        idle_ticks_max = self.settings.idle_ms_max / 1000 / seconds
        for connection in list(self.connections):
            ticks = self.tick - connection.tick_seen
            if connection.is_waiting:
                continue
            if 0 <= idle_ticks_max <= ticks:
                log.debug("About to close the idle connection=%s", connection)
                connection.close()
            elif ticks:
                connection.rest()
        self.tick += 1
        self._plan_sweep()


def _listening_socket(listener: Listener, settings: SocketSettings) -> socket.socket:
    host = listener.host
    if not host:
        host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as fault:
        raise _bind_fault(listener, fault) from None
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not listener.host else 1)
        # Accepted sockets inherit these; a receive buffer has to be known before the handshake.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if settings.send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        sock.bind(address)
    except OSError as fault:
        sock.close()
        raise _bind_fault(listener, fault) from None
    return sock


def _bind_fault(listener: Listener, fault: OSError) -> BindFault:
    reason = "the port is taken" if fault.errno == errno.EADDRINUSE else fault.strerror or fault
    return BindFault(
        f"Socket server failed to bind to {listener.host or '*'}:{listener.port}: {reason}."
    )
