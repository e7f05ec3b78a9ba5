"""One connection to another broker: requests out, answers in, in the order they were sent.

A broker answers in order, so a request that is overdue closes the connection: behind an answer
that does not come, none will. Once closed it stays closed; `peers.py` opens another.

Where brokers log in to one another, a session that ends is renewed before that on the same
connection (KIP-368): nobody sends meanwhile. One that was not used since its last log-in is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau import __version__
from moldau.model.log_line_limit import LogLimit
from moldau.net.request_frames import Frame, FrameBuffer, FrameError
from moldau.wire.apis import APIS, api, response_class
from moldau.wire.primitives import DecodeError
from moldau.wire.request_framing import (
    API_VERSIONS,
    decode_response,
    encode_request,
    read_correlation_id,
)
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.security.sasl.sasl_login import Login

log = logging.getLogger("org.apache.kafka.clients.NetworkClient")
log.addFilter(LogLimit())

FRAME_BYTES_MAX = 1024 * 1024 * 1024
IN_FLIGHT_MAX = 32
API_VERSIONS_VERSION = 3
CLOSE_SECONDS_MAX = 1.0
LOGIN_SECONDS_MAX = 30.0
"""For each answer of a log-in: one that is renewed waits behind what was sent before."""
HANDSHAKE, HANDSHAKE_VERSION_MIN = "SaslHandshakeRequest", 1

_KEYS = {row.name + "Request": row.key for row in APIS}


class PeerUnreachable(OSError):
    """Another broker did not answer: refused, gone, cut off or too slow."""


class PeerRefused(PeerUnreachable):
    """Another broker did not accept this one's log-in, or is not the one it claims to be."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} cannot be reached: the log-in failed: {reason}")
        self.reason = reason


class _InFlight:
    __slots__ = ("api_key", "correlation_id", "deadline", "future", "version")

    def __init__(
        self,
        api_key: int,
        version: int,
        correlation_id: int,
        deadline: float,
        future: asyncio.Future[Any],
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.future = future


class PeerConnection(asyncio.BufferedProtocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, client_id: str) -> None:
        self._loop = loop
        self._name = name
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._frames = FrameBuffer(FRAME_BYTES_MAX)
        self._in_flight: deque[_InFlight] = deque()
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._turn = asyncio.Lock()
        """To send; kept while a log-in is renewed."""
        self._versions: dict[int, tuple[int, int]] | None = None
        self._negotiation = asyncio.Lock()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._fault: str | None = None
        self._renewal: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._was_used = False
        self._closed: asyncio.Future[None] = loop.create_future()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._fault is None

    async def version_for(self, request: Message) -> int:
        """The highest version of its API that both sides know."""
        key = _KEYS[type(request).__name__]
        if self._versions is None:
            async with self._negotiation:
                if self._versions is None:
                    self._versions = await self._ask_versions()
        ours, theirs = api(key), self._versions.get(key)
        assert ours is not None, f"api {key}"
        if theirs is None or theirs[1] < ours.version_min or theirs[0] > ours.version_max:
            raise PeerUnreachable(
                f"{self._name} does not serve {ours.name} in a version known here"
            )
        return min(theirs[1], ours.version_max)

    async def _ask_versions(self) -> dict[int, tuple[int, int]]:
        from moldau.wire.messages.api_versions import ApiVersionsRequest

        request = ApiVersionsRequest(
            client_software_name="moldau", client_software_version=__version__
        )
        await self.room()
        # The caller's time-out is around this.
        never = self._loop.time() + 3600
        answer = await self.request(request, API_VERSIONS_VERSION, never)
        return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    async def room(self) -> None:
        """Wait for one's turn to send; `request` must follow at once."""
        async with self._turn:
            await self._room.acquire()
        self._was_used = True

    async def log_in(self, login: Callable[[], Login | None], host: str) -> None:
        """Before the first request. `login` is asked again when the session is renewed. Raises
        PeerUnreachable."""
        await self._exchange(login, host)
        self._was_used = False

    async def _exchange(self, login: Callable[[], Login | None], host: str) -> None:
        from moldau.net.sasl.login_exchange import LoginRefused, exchange, renewal_seconds

        who = login()
        assert who is not None
        try:
            lifetime_ms = await exchange(self._ask, who, host)
        except LoginRefused as refusal:
            raise PeerRefused(self._name, str(refusal)) from None
        if lifetime_ms > 0:
            seconds = renewal_seconds(lifetime_ms)
            self._renewal = self._loop.call_later(seconds, self._renew_later, login, host)

    async def _ask(self, request: Message) -> Any:
        """In front of everybody who waits for room; the caller's time-out is around this."""
        version = await self.version_for(request)
        if type(request).__name__ == HANDSHAKE and version < HANDSHAKE_VERSION_MIN:
            raise PeerRefused(self._name, "it knows only the oldest form of the log-in")
        await self._room.acquire()
        return await self.request(request, version, self._loop.time() + LOGIN_SECONDS_MAX)

    def _renew_later(self, login: Callable[[], Login | None], host: str) -> None:
        if not (self._was_used or self._in_flight):
            self.abort("its session ended while it was idle")
        elif self.is_open:
            self._renewal = self._loop.create_task(self._renew(login, host))

    async def _renew(self, login: Callable[[], Login | None], host: str) -> None:
        """Answers to what was sent before still come, in their order."""
        try:
            async with self._turn:
                self._was_used = False
                await self._exchange(login, host)
        except PeerRefused as refusal:
            log.error("The log-in at %s was not renewed: %s", self._name, refusal.reason)
            self.abort("the log-in was not renewed")
        except PeerUnreachable:
            self.abort("the log-in was not renewed")

    async def request(self, request: Message, version: int, deadline: float) -> Any:
        """Send and wait for the answer until the loop's time is `deadline`."""
        try:
            if self._transport is None or self._fault is not None:
                raise self._unreachable()
            key = _KEYS[type(request).__name__]
            self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
            frame = encode_request(key, version, correlation_id, self._client_id, request)
            future: asyncio.Future[Any] = self._loop.create_future()
            self._in_flight.append(_InFlight(key, version, correlation_id, deadline, future))
            self._transport.write(frame)
            if self._timer is None or deadline < self._timer_at:
                self._watch(deadline)
            return await future
        finally:
            self._room.release()

    def abort(self, reason: str) -> None:
        """Close at once; what is under way fails."""
        self._fail(reason)
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        await asyncio.wait([self._closed], timeout=CLOSE_SECONDS_MAX)

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.advance(nbytes):
                self._answered(frame)
        except (FrameError, DecodeError) as fault:
            self.abort(f"it does not speak Kafka's protocol: {fault}")

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("it closed the connection" if exc is None else str(exc))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if isinstance(self._renewal, asyncio.TimerHandle):
            self._renewal.cancel()
        if not self._closed.done():
            self._closed.set_result(None)

    # The insides

    def _answered(self, frame: Frame) -> None:
        if not self._in_flight:
            raise FrameError("an answer to nothing")
        entry = self._in_flight[0]
        view: memoryview | bytes = frame.view
        if read_correlation_id(view) != entry.correlation_id:
            raise FrameError(f"an answer to another request than {entry.correlation_id}")
        if entry.future.done():
            # Nobody waits any more: its task was cancelled.
            self._in_flight.popleft()
            return
        if frame.is_lent and response_class(entry.api_key).__carries_records__:
            view = bytes(view)
        # An older broker answers this one question in the oldest version (KIP-511).
        is_oldest = entry.api_key == API_VERSIONS and view[4:6] != b"\0\0"
        answer = decode_response(entry.api_key, 0 if is_oldest else entry.version, view)
        self._in_flight.popleft()
        entry.future.set_result(answer)

    def _watch(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        if self._fault is not None or not self._in_flight:
            return
        deadline = min(entry.deadline for entry in self._in_flight)
        if deadline > self._loop.time():
            self._watch(deadline)
            return
        self.abort("a request was not answered in time")

    def _unreachable(self) -> PeerUnreachable:
        return PeerUnreachable(f"{self._name} cannot be reached: {self._fault or 'not connected'}")

    def _fail(self, reason: str) -> None:
        if self._fault is not None:
            return
        self._fault = reason
        for entry in self._in_flight:
            if not entry.future.done():
                entry.future.set_exception(self._unreachable())
        self._in_flight.clear()
