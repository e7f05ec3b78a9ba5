"""A connection's life before its client is known, and what of it goes on afterwards.

Until the authenticator is content it gets every frame, and frames are short. A client that is
turned away hears of it only after `connection.failed.authentication.delay.ms`, and nothing more of
it is read meanwhile: that is the brake on guessing. Who takes too long is turned away as well.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from moldau.model.log_line_limit import LogLimit
from moldau.net.answers import Answer, Pause, SessionExpired
from moldau.net.entrance import Authenticator
from moldau.security.naming.principal import Principal
from moldau.wire.request_framing import Chunk

if TYPE_CHECKING:
    from moldau.net.connection import Connection
    from moldau.net.server import Server

log = logging.getLogger("org.apache.kafka.common.network.Selector")
log.addFilter(LogLimit())

LOGIN_SECONDS_MAX = 30.0
"""From the first byte of TLS to the last of the log-in. Apache Kafka knows only the idle limit."""
SWEEP_SECONDS = 1.0
LAST_WORD_SECONDS = 0.5
"""Between the answer to a log-in that failed and the end of the connection: some clients throw an
answer away that the end comes together with, and then try again for ever."""


class Login:
    __slots__ = ("_authenticator", "_is_greeted", "_server", "deadline")

    def __init__(self, authenticator: Authenticator, server: Server) -> None:
        self._authenticator = authenticator
        self._is_greeted = False
        self._server = server
        self.deadline = server.loop.time() + LOGIN_SECONDS_MAX

    @property
    def frame_bytes_max(self) -> int:
        return self._authenticator.frame_bytes_max

    def greet(self, connection: Connection) -> None:
        """Both sides have agreed on how to speak."""
        if not self._is_greeted:
            self._is_greeted = True
            step = self._authenticator.greet()
            if step.refusal:
                connection.turn_away(step.refusal)
            elif step.principal is not None:
                self._let_in(connection, step.principal)

    def begin(self, connection: Connection, frame: memoryview) -> list[Chunk] | Answer:
        """In the place of whoever answers requests."""
        cells = connection.acceptor.cells
        try:
            step = self._authenticator.take(frame)
        except SessionExpired:
            cells.expired += 1
            raise
        if step.refusal:
            log_failure(connection, step.refusal)
            cells.failed_renewals += connection.is_known
            seconds = self._server.settings.failed_login_delay_ms / 1000
            answer: list[Chunk] = [] if step.answer is None else [step.answer]
            end = partial(connection.end_after, LAST_WORD_SECONDS if answer else 0.0)
            return Pause(self._server.loop, seconds, end, answer)
        cells.renewals += step.is_renewal
        if step.principal is not None:
            self._let_in(connection, step.principal)
        if step.is_request:
            return self._server.times.begin(connection, frame)
        return [] if step.answer is None else [step.answer]

    def _let_in(self, connection: Connection, principal: Principal) -> None:
        connection.acceptor.cells.logins += not connection.is_known
        self._server.logins.forget(connection)
        connection.let_in(principal, self.begin if self._authenticator.stays else None)


class Logins:
    """All connections whose client is not known yet, oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._under_way: dict[Connection, Login] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._under_way)

    def add(self, connection: Connection, login: Login) -> None:
        self._under_way[connection] = login
        if self._timer is None:
            self._timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def forget(self, connection: Connection) -> None:
        self._under_way.pop(connection, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self) -> None:
        self._timer = None
        now = self._loop.time()
        for connection, login in list(self._under_way.items()):
            if login.deadline > now:
                break
            log_failure(connection, f"it has not logged in within {LOGIN_SECONDS_MAX:g} s")
            connection.close()
        if self._under_way:
            self._timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)


def log_failure(connection: Connection, reason: str) -> None:
    connection.acceptor.cells.failed_logins += not connection.is_known
    log.info(
        "Failed authentication with /%s (channelId=%s) (%s)",
        connection.client_host,
        connection,
        reason,
    )
