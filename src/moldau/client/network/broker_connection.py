"""One connection to one broker: requests out, answers in, in the order they were sent.

Requests are pipelined: `request` writes at once and returns a future, `send` waits for room
first. A broker answers in order, so the answers need no table, only a queue. One timer per
connection watches all deadlines; no task is made for a request. Large answers are decoded where
they were received, see frames.py. Once closed, a connection stays closed: network_client.py opens
a new one. TLS lies below (asyncio's transport), log-ins are made by sasl_login.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from moldau.client.network.receive_buffers import BufferPool
from moldau.client.network.request_stats import NodeStats
from moldau.client.shared.client_errors import (
    DisconnectError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from moldau.net.request_frames import Frame, FrameBuffer, FrameError
from moldau.wire.apis import APIS, api, response_class
from moldau.wire.messages.api_versions import ApiVersionsResponse
from moldau.wire.primitives import DecodeError
from moldau.wire.request_framing import decode_response, encode_request, read_correlation_id
from moldau.wire.schema import Message

FIRST_FRAME_BYTES_MAX = 1024 * 1024
"""Before a peer has shown that it speaks the protocol, a larger size is rather another protocol."""
FRAME_BYTES_MAX = 1024 * 1024 * 1024
FRAMES_BYTES_MAX = 32 * 1024 * 1024
"""How much memory of large frames that are used up is kept for the next ones."""
WRITE_BUFFER_BYTES_MAX = 4 * 1024 * 1024
IN_FLIGHT_MAX = 100
CLOSE_SECONDS_MAX = 1.0

_KEYS = {row.name + "Request": row.key for row in APIS}


def api_key_of(request: Message) -> int:
    return _KEYS[type(request).__name__]


class InFlight:
    """A request that was written and not yet answered."""

    __slots__ = (
        "api_key",
        "correlation_id",
        "deadline",
        "future",
        "give_up",
        "is_raw",
        "sent_at",
        "version",
    )

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.is_raw = False
        self.deadline = 0.0
        self.give_up = 0.0
        self.sent_at = 0.0
        self.future: asyncio.Future[Any]


class Connection(asyncio.BufferedProtocol):
    """Made by `opening.open_connection`. `versions` is what the broker serves, by API key."""

    def __init__(
        self,
        name: str,
        *,
        client_id: str,
        request_timeout_ms: int,
        idle_max_ms: int = -1,
        in_flight_max: int = IN_FLIGHT_MAX,
        on_lost: Callable[[Connection], None] | None = None,
    ) -> None:
        self.name = name
        self.versions: dict[int, tuple[int, int]] = {}
        self.api_versions: ApiVersionsResponse | None = None
        self._client_id = client_id
        self._request_timeout_s = request_timeout_ms / 1000
        self._idle_max_s = idle_max_ms / 1000
        self._in_flight_max = in_flight_max
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = FrameBuffer(FIRST_FRAME_BYTES_MAX, BufferPool(FRAMES_BYTES_MAX).take)
        self._in_flight: deque[InFlight] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reserved = 0
        self._is_paused = False
        self._is_throttled = False
        self._is_held = False
        self._emptied: asyncio.Future[None] | None = None
        self.chore: asyncio.TimerHandle | asyncio.Task[None] | None = None
        """What has to be done on this connection as long as it is open."""
        self.lost_by: Exception | None = None
        self.stats: NodeStats | None = None
        """Counts the answers, if a broker wants to know."""
        self._correlation_id = 0
        self._used_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._fault: str | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._fault is None

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight) + self._reserved + len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether `request` may be called now."""
        return (
            self.is_open
            and not self._is_paused
            and not self._is_throttled
            and not self._is_held
            and len(self._in_flight) + self._reserved < self._in_flight_max
        )

    def version_for(
        self, api_key: int, version_max: int | None = None, version_min: int | None = None
    ) -> int:
        """The highest version both sides know, within the caller's limits."""
        ours = api(api_key)
        assert ours is not None, f"api {api_key}"
        theirs = self.versions.get(api_key)
        if theirs is None:
            raise UnsupportedVersionError(f"The broker {self.name} does not support {ours.name}")
        lowest = max(theirs[0], ours.version_min, version_min or 0)
        highest = min(theirs[1], ours.version_max)
        if version_max is not None:
            highest = min(highest, version_max)
        if lowest > highest:
            raise UnsupportedVersionError(
                f"The broker {self.name} supports {ours.name} in versions {theirs[0]} to"
                f" {theirs[1]}, which cannot say what is asked"
            )
        return highest

    async def send(
        self,
        request: Message,
        *,
        version_max: int | None = None,
        version_min: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """The response, once there was room to send and the broker has answered."""
        version = self.version_for(api_key_of(request), version_max, version_min)
        if self._waiting or not self.has_room:
            await self._room(timeout_ms)
        return await self.request(request, version, timeout_ms=timeout_ms)

    def request(
        self,
        request: Message,
        version: int,
        *,
        timeout_ms: int | None = None,
        expects_answer: bool = True,
    ) -> asyncio.Future[Any]:
        """Write now; the future gets the response. The caller has looked at `has_room`."""
        key = api_key_of(request)
        entry = InFlight(key, version, self._correlation_id)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(key, version, entry.correlation_id, self._client_id, request)
        return self._write(entry, frame, timeout_ms, expects_answer)

    async def ask_raw(self, request: Message, version: int, timeout_ms: int) -> bytes:
        """The answer's frame as it came, for the question whose answer has its own version."""
        future = self.request(request, version, timeout_ms=timeout_ms)
        if self._in_flight:
            self._in_flight[-1].is_raw = True
        frame: bytes = await future
        return frame

    def learned(self, answer: ApiVersionsResponse) -> None:
        """The peer has told what it serves, so it is a broker and may send large frames."""
        self.api_versions = answer
        self.versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        self._frames.limit_bytes = FRAME_BYTES_MAX

    async def hold(self) -> None:
        """Let nobody send until `release`; returns when everything is answered."""
        self._is_held = True
        while self._in_flight or self._reserved:
            self._emptied = self._loop.create_future()
            await self._emptied

    def release(self) -> None:
        self._is_held = False
        self._admit()

    def was_used_since(self, time: float) -> bool:
        """By the loop's clock."""
        return self._used_at > time or bool(self._in_flight or self._waiting)

    async def close(self) -> None:
        """Send what is written, then close; waits until the socket is gone."""
        self._fail("the client closed it")
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait([self._closed], timeout=CLOSE_SECONDS_MAX)
            if not self._closed.done():
                self._transport.abort()
                await self._closed

    def abort(self, reason: str) -> None:
        """Close at once; what is under way fails."""
        self._fail(reason)
        if self._transport is not None:
            self._transport.abort()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._watch(self._loop.time() + self._idle_max_s if self._idle_max_s >= 0 else None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.advance(nbytes):
                self._answered(frame)
        except (FrameError, DecodeError) as fault:
            self.abort(f"it does not speak Kafka's protocol: {fault}")
            return
        self._used_at = self._loop.time()
        if self._is_held:
            self._notice_empty()
        elif self._waiting:
            self._admit()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_by = exc
        self._fail("the broker closed it" if exc is None else str(exc))
        if self.chore is not None:
            self.chore.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed.done():
            self._closed.set_result(None)
        if self._on_lost is not None:
            self._on_lost(self)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._admit()

    # The insides.

    def _write(
        self, entry: InFlight, frame: bytes, timeout_ms: int | None, expects_answer: bool
    ) -> asyncio.Future[Any]:
        future = entry.future = self._loop.create_future()
        if not self.is_open or self._transport is None:
            future.set_exception(self._disconnected())
            return future
        now = self._used_at = self._loop.time()
        self._transport.write(frame)
        if not expects_answer:
            future.set_result(None)
            return future
        timeout_s = self._request_timeout_s if timeout_ms is None else timeout_ms / 1000
        entry.sent_at = now
        entry.deadline = now + timeout_s
        entry.give_up = now + max(timeout_s, self._request_timeout_s)
        self._in_flight.append(entry)
        self._watch(entry.deadline)
        return future

    def _answered(self, frame: Frame) -> None:
        """The entry stays in the queue until its answer is read: a fault here fails it too."""
        if not self._in_flight:
            raise FrameError("an answer to nothing")
        entry = self._in_flight[0]
        view: memoryview | bytes = frame.view
        if read_correlation_id(view) != entry.correlation_id:
            raise FrameError(f"an answer to another request than {entry.correlation_id}")
        if entry.future.done():
            self._in_flight.popleft()
            return
        if entry.is_raw:
            answer: Any = bytes(view)
        else:
            if frame.is_lent and response_class(entry.api_key).__carries_records__:
                view = memoryview(bytes(view))
            answer = decode_response(entry.api_key, entry.version, view)
            throttle_ms = getattr(answer, "throttle_time_ms", 0)
            if throttle_ms > 0:
                self._throttle(throttle_ms / 1000)
            if self.stats is not None:
                self.stats.answered(entry.api_key, self._loop.time() - entry.sent_at, throttle_ms)
        self._in_flight.popleft()
        entry.future.set_result(answer)

    def _throttle(self, seconds: float) -> None:
        """Over its quota a client has to be silent for a while (KIP-219)."""
        if not self._is_throttled:
            self._is_throttled = True
            self._loop.call_later(seconds, self._end_throttle)

    def _end_throttle(self) -> None:
        self._is_throttled = False
        self._admit()

    async def _room(self, timeout_ms: int | None) -> None:
        """Wait in line. The slot is handed over, so that nobody who comes later overtakes."""
        if not self.is_open:
            raise self._disconnected()
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        timeout_s = self._request_timeout_s if timeout_ms is None else timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except (TimeoutError, asyncio.CancelledError) as fault:
            self._give_back(waiter)
            if isinstance(fault, asyncio.CancelledError):
                raise
            raise KafkaTimeoutError(
                f"{self.name} took no further request for {timeout_s * 1000:.0f} ms"
            ) from None
        self._reserved -= 1

    def _give_back(self, waiter: asyncio.Future[None]) -> None:
        """Who gives up leaves the line, or passes on the slot that came too late."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        elif not waiter.cancelled() and waiter.exception() is None:
            self._reserved -= 1
            self._admit()
            self._notice_empty()

    def _notice_empty(self) -> None:
        """Who holds the connection looks again."""
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _admit(self) -> None:
        while self._waiting and self.has_room:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._reserved += 1
                waiter.set_result(None)

    def _watch(self, deadline: float | None) -> None:
        """Have the timer go off no later than then."""
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        if self._fault is not None:
            return
        now = self._loop.time()
        upcoming: list[float] = []
        stuck = None
        for entry in self._in_flight:
            if entry.deadline <= now and not entry.future.done():
                entry.future.set_exception(self._overdue(entry))
            if entry.give_up <= now:
                stuck = entry
            upcoming.append(entry.give_up if entry.deadline <= now else entry.deadline)
        if stuck is not None:
            # Answers come in order: behind one that does not come, none will.
            self.abort("a request was not answered in time")
            return
        if self._idle_max_s >= 0:
            idle_at = self._used_at + self._idle_max_s
            if idle_at <= now and not self._in_flight:
                self.abort("it was idle")
                return
            upcoming.append(max(idle_at, now + self._idle_max_s / 2) if idle_at <= now else idle_at)
        self._watch(min(upcoming) if upcoming else None)

    def _overdue(self, entry: InFlight) -> KafkaTimeoutError:
        row = api(entry.api_key)
        name = row.name if row is not None else str(entry.api_key)
        return KafkaTimeoutError(f"{self.name} did not answer {name} in time")

    def _disconnected(self) -> DisconnectError:
        return DisconnectError(f"No connection to {self.name}: {self._fault or 'not open'}")

    def _fail(self, reason: str) -> None:
        if self._fault is not None:
            return
        self._fault = reason
        for entry in self._in_flight:
            if not entry.future.done():
                entry.future.set_exception(self._disconnected())
        self._in_flight.clear()
        self._notice_empty()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(self._disconnected())
        self._waiting.clear()
