"""All listeners and the connections that came through them, on one event loop.

`bind` takes the ports early, so that a taken port stops the start and a port chosen by the
system can be advertised; clients are let in by `start`, when the broker is ready to answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from moldau.model.log_line_limit import LogLimit
from moldau.model.names import Millis
from moldau.net.acceptor import Acceptor, Listener
from moldau.net.answers import Answer
from moldau.net.connection import Begin, Connection
from moldau.net.entrance import OPEN_ENTRANCE, Entrance
from moldau.net.holding.outgoing_hold import OutgoingHold
from moldau.net.login import Logins
from moldau.net.loop_time import LoopTime
from moldau.net.request_memory import RequestMemory
from moldau.net.request_times import RequestTimes
from moldau.net.send_queue import RegionCutShort
from moldau.net.transport import Transport
from moldau.net.unsent_answers import UnsentAnswers
from moldau.security.quotas.budgets import Window
from moldau.security.quotas.connection_rates import ConnectionRates
from moldau.wire.request_framing import Chunk

log = logging.getLogger("kafka.network.SocketServer")
log.addFilter(LogLimit())

SWEEPS_PER_IDLE_TIME = 10
SWEEP_SECONDS_MIN = 0.005
SWEEP_SECONDS_MAX = 30.0
UNLIMITED = 2**31 - 1


class Requests(Protocol):
    """Whoever answers what clients ask."""

    def begin(self, connection: Connection, frame: memoryview) -> list[Chunk] | Answer:
        """Work on one request: the answer at once (empty if nobody waits for one), or a place to
        be filled later. The frame is the answerer's own if it takes time, otherwise it is lent.
        Raises `Disconnect` on what cannot be answered."""


_NO_LIMITS: Mapping[str, int] = {}


class SocketSettings(NamedTuple):
    request_bytes_max: int = 100 * 1024 * 1024
    send_buffer_bytes: int = 100 * 1024
    """-1 leaves it to the operating system; so for the next."""
    receive_buffer_bytes: int = 100 * 1024
    backlog: int = 50
    idle_ms_max: int = 600_000
    """-1 lets clients be silent for ever."""
    connections_max: int = UNLIMITED
    connections_per_listener_max: Mapping[str, int] = _NO_LIMITS
    connections_per_second_max: int = UNLIMITED
    connections_per_second_listener_max: Mapping[str, int] = _NO_LIMITS
    connection_rate_samples: int = 11
    connection_rate_sample_ms: Millis = 1_000
    protected_listener: str = ""
    """The limits of all listeners together do not hold there."""
    connections_per_ip_max: int = UNLIMITED
    connections_per_ip_overrides: Mapping[str, int] = _NO_LIMITS
    requests_overlapping_max: int = 500
    """Unanswered requests of all connections together, not counting each connection's first."""
    request_bytes_held_max: int = -1
    """Bytes of long requests that are read or worked on, of all connections; -1 sets no bound."""
    answer_bytes_held_max: int = 128 * 1024 * 1024
    """Bytes of answers that slow clients have not taken, of all connections."""
    failed_login_delay_ms: int = 100
    """How long a client that could not log in waits for the answer and the end."""


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
        self.times = RequestTimes(requests)
        """Gets the frames, and takes the time of what `requests` do."""
        self.logins = Logins(loop)
        self.overlapping_apis = overlapping_apis
        self.overlapping = 0
        self.request_memory = RequestMemory(loop, settings.request_bytes_held_max)
        self.hold = OutgoingHold(loop)
        self.unsent = UnsentAnswers(loop, settings.answer_bytes_held_max)
        self.connections: set[Connection] = set()
        self.connections_accepted = 0
        self.takes_loop_time = False
        self.tick = 0
        """Counts sweeps: a connection notes the last one before it was heard of."""
        window = Window(settings.connection_rate_samples, settings.connection_rate_sample_ms)
        self.connection_rates = ConnectionRates(window, is_protected=self.is_protected)
        self._limit_rates()
        self._acceptors: list[Acceptor] = []
        self._per_ip: Counter[str] = Counter()
        self._sweep_timer: asyncio.TimerHandle | None = None

    def bind(self, listener: Listener, entrance: Entrance = OPEN_ENTRANCE) -> Listener:
        """Take the address; the listener with the port that it really got. Raises BindFault."""
        acceptor = Acceptor(self, listener, entrance)
        self._acceptors.append(acceptor)
        return acceptor.listener

    def watch_requests(self, begin: Begin | None) -> None:
        """From now on requests go by way of `begin`, which calls `times.begin_timed`; None leaves
        nothing in between."""
        before, self.times.begin = self.times.begin, begin or self.times.plain
        for connection in self.connections:
            # One that is logging in, or may do so again, asks for it by itself.
            if connection.begin == before:
                connection.begin = self.times.begin

    @property
    def listeners(self) -> list[Listener]:
        return [acceptor.listener for acceptor in self._acceptors]

    @property
    def acceptors(self) -> list[Acceptor]:
        return list(self._acceptors)

    def start(self) -> None:
        for acceptor in self._acceptors:
            acceptor.open()
        self._plan_sweep()

    def stop(self) -> None:
        """Let nobody in any more and end every connection; unfinished requests are cancelled."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self.logins.stop()
        self.unsent.stop()
        for connection in list(self.connections):
            connection.close()

    def take_loop_time(self, wanted: bool) -> None:
        """Whether somebody has a quota of what the loop spends on a connection."""
        self.takes_loop_time = wanted
        for connection in self.connections:
            connection.take_loop_time(LoopTime() if wanted else None)

    def forget_callers(self) -> None:
        """What was remembered about clients does not hold any more: limits or rules changed."""
        for connection in self.connections:
            connection.memory.clear()

    def reconfigure(self, settings: SocketSettings) -> None:
        """New limits hold for whoever comes next; sockets that are open keep theirs."""
        self.settings = settings
        self.request_memory.set_limit(settings.request_bytes_held_max)
        self.unsent.limit_bytes = settings.answer_bytes_held_max
        self._limit_rates()
        self._make_room()
        for acceptor in self._acceptors:
            acceptor.accept()

    def _limit_rates(self) -> None:
        settings = self.settings
        self.connection_rates.limit(
            settings.connections_per_second_max, settings.connections_per_second_listener_max
        )

    def is_protected(self, listener: str) -> bool:
        return listener == self.settings.protected_listener

    def connections_of(self, host: str) -> int:
        return self._per_ip[host]

    def connections_max_of(self, host: str) -> int:
        settings = self.settings
        return settings.connections_per_ip_overrides.get(host, settings.connections_per_ip_max)

    # Told by acceptors and connections

    def admit(self, transport: Transport, peer: tuple[Any, ...], acceptor: Acceptor) -> None:
        self.connections_accepted += 1
        connection = Connection(transport, peer, acceptor, self)
        self.connections.add(connection)
        self._per_ip[connection.client_host] += 1
        acceptor.connection_count += 1
        acceptor.cells.opened += 1
        self._make_room()

    def _make_room(self) -> None:
        """A broker that came in beyond the limit, or a smaller limit: whoever was silent longest
        has to go."""
        beyond = len(self.connections) - self.settings.connections_max
        if beyond > 0:
            others = [c for c in self.connections if not self.is_protected(c.listener.name)]
            others.sort(key=lambda connection: (connection.tick_seen, connection.number))
            for connection in others[:beyond]:
                log.debug("Closing connection=%s to make room", connection)
                connection.close()

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        connection.acceptor.connection_count -= 1
        self._per_ip[connection.client_host] -= 1
        if not self._per_ip[connection.client_host]:
            del self._per_ip[connection.client_host]
        for acceptor in self._acceptors:
            acceptor.accept()

    def may_overlap(self, api_key: int) -> bool:
        """Whether one more request of this kind may begin before an earlier one is answered."""
        return (
            api_key in self.overlapping_apis
            and self.overlapping < self.settings.requests_overlapping_max
        )

    def refused(self, connection: Connection, reason: str) -> None:
        log.warning("Closing connection=%s reason=%s", connection, reason)

    def broke(self, connection: Connection, fault: OSError) -> None:
        if isinstance(fault, RegionCutShort):
            log.error("Closing connection=%s reason=%s", connection, fault.strerror)
        else:
            log.debug("Connection ended connection=%s reason=%s", connection, fault)

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
