"""One listener: takes the address, then lets clients in as fast and as many as the limits allow.

A client beyond a limit waits in the listener's backlog, as in Apache Kafka; one whose address
has its share already is turned away.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.metrics.listener_cells import ListenerCells
from moldau.net.entrance import OPEN_ENTRANCE, Entrance
from moldau.net.transport import host_of

if TYPE_CHECKING:
    from moldau.net.server import Server

log = logging.getLogger("kafka.network.SocketServer")

ACCEPTS_PER_TURN = 64
RETRY_SECONDS = 0.5
TURNED_AWAY_MAX = 1_000
"""Connections of addresses that are too fast, open for a moment; the eldest go early."""
OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listener(NamedTuple):
    name: str
    host: str
    """Empty for every address of the machine."""
    port: int
    """0 until the system has chosen one."""
    security_protocol: str = "PLAINTEXT"


class BindFault(Exception):
    """A listener's address cannot be had; says which one and why."""


class Acceptor:
    def __init__(
        self, server: Server, listener: Listener, entrance: Entrance = OPEN_ENTRANCE
    ) -> None:
        """Takes the address; `listener` has the real port then. Raises BindFault."""
        self._server = server
        self.entrance = entrance
        self._socket = bound_socket(
            listener, server.settings.send_buffer_bytes, server.settings.receive_buffer_bytes
        )
        self.listener = listener._replace(port=self._socket.getsockname()[1])
        self.connection_count = 0
        self.cells = ListenerCells()
        self._is_open = False
        self._is_accepting = False
        self._blocked_since = 0.0
        self._resumption: asyncio.TimerHandle | None = None
        self._held: tuple[socket.socket, tuple[Any, ...]] | None = None
        """Who came faster than the limits allow: let in when its time has come."""
        self._turned_away: deque[socket.socket] = deque()
        """Those whose address has to be slower: closed a moment later."""

    def open(self) -> None:
        """Let clients in. Raises BindFault if somebody else listens there by now."""
        try:
            self._socket.listen(self._server.settings.backlog)
        except OSError as fault:
            raise _bind_fault(self.listener, fault) from None
        self._is_open = True
        self.accept()
        log.info(
            "Awaiting socket connections on %s:%d.", self.listener.host or "*", self.listener.port
        )

    def close(self) -> None:
        self._pause()
        self._is_open = False
        self._socket.close()
        if self._resumption is not None:
            self._resumption.cancel()
        if self._held is not None:
            self._held[0].close()
        while self._turned_away:
            self._turned_away.popleft().close()

    def accept(self) -> None:
        """Go on if a limit had stopped us and there is room again."""
        if self._resumption is not None or not self._is_open or not self._has_place():
            return
        if self._held is not None:
            held, self._held = self._held, None
            self._welcome(*held)
        if not self._is_accepting:
            self._server.loop.add_reader(self._socket.fileno(), self._acceptable)
            self._is_accepting = True
            if self._blocked_since:
                blocked = self._server.loop.time() - self._blocked_since
                self.cells.blocked_ns += int(blocked * 1e9)

    def _pause(self) -> None:
        if self._is_accepting:
            self._server.loop.remove_reader(self._socket.fileno())
            self._is_accepting = False
            self._blocked_since = self._server.loop.time()

    def _has_place(self) -> bool:
        settings, name = self._server.settings, self.listener.name
        here_max = settings.connections_per_listener_max.get(name)
        if here_max is not None and self.connection_count >= here_max:
            return False
        is_protected = self._server.is_protected(name)
        return is_protected or len(self._server.connections) < settings.connections_max

    def _acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._has_place():
                self._pause()
                return
            try:
                client, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as fault:
                if fault.errno not in OUT_OF_RESOURCES:
                    raise
                log.error("Accepting no clients for a moment reason=%s", fault.strerror)
                self._pause_for(RETRY_SECONDS)
                return
            throttle_ms = self._server.connection_rates.came(self.listener.name, self._now_ms())
            if throttle_ms > 0:
                self._held = client, peer
                self._pause_for(throttle_ms / 1000)
                return
            self._welcome(client, peer)

    def _pause_for(self, seconds: float) -> None:
        self._pause()
        self._resumption = self._server.loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._resumption = None
        self.accept()

    def _now_ms(self) -> int:
        return int(self._server.loop.time() * 1000)

    def _turn_away(self, client: socket.socket, throttle_ms: int) -> None:
        """The client sees a connection that ends late: it is slow to come again."""
        if len(self._turned_away) >= TURNED_AWAY_MAX:
            self._turned_away.popleft().close()
        self._turned_away.append(client)
        self._server.loop.call_later(throttle_ms / 1000, self._end_turned_away, client)

    def _end_turned_away(self, client: socket.socket) -> None:
        if client in self._turned_away:
            self._turned_away.remove(client)
            client.close()

    def _welcome(self, client: socket.socket, peer: tuple[Any, ...]) -> None:
        host, server = host_of(peer), self._server
        throttle_ms = server.connection_rates.came_from(host, self.listener.name, self._now_ms())
        if throttle_ms > 0:
            self._turn_away(client, throttle_ms)
            return
        limit = server.connections_max_of(host)
        if server.connections_of(host) >= limit:
            sentence = "address already has the configured maximum of %d connections."
            log.info(f"Rejected connection from /%s, {sentence}", host, limit)
            client.close()
            return
        client.setblocking(False)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            client.close()  # already gone again
            return
        self._server.admit(self.entrance.transport(client), peer, self)


def _name(host: str) -> str | bytes:
    """For the system. Given as text, even an address makes Python load the tables of IDNA."""
    return host.encode("ascii") if host.isascii() else host


def bound_socket(
    listener: Listener, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
) -> socket.socket:
    """Takes the address. Raises BindFault."""
    host = listener.host
    if not host:
        host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            _name(host), listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
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
        if send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        if receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
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
