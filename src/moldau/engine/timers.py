"""Drives one timing wheel from the loop: however many timers wait, the loop knows of one.

Used for whatever waits with a time-out: parked requests, group sessions, transactions. Callbacks
run on the loop, in the order of their times.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from moldau.engine.timing_wheel import TimingWheel, WheelTimer
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis

T = TypeVar("T")

TimerHandle = WheelTimer[Callable[[], None]]


class Wakeup(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Wakeup]
"""`loop.call_later`, or the virtual one of a test: seconds, callback."""


class Timers:
    __slots__ = ("_call_later", "_clock", "_due", "_wakeup", "_wakeup_at_ms", "_wheel")

    def __init__(self, clock: Clock, call_later: CallLater) -> None:
        self._clock = clock
        self._call_later = call_later
        self._wheel: TimingWheel[Callable[[], None]] = TimingWheel(clock.monotonic_ms())
        self._due: deque[TimerHandle] = deque()
        self._wakeup: Wakeup | None = None
        self._wakeup_at_ms: Millis = 0

    def now_ms(self) -> Millis:
        """By the monotonic clock, as all timers go."""
        return self._clock.monotonic_ms()

    def after(self, delay_ms: Millis, callback: Callable[[], None]) -> TimerHandle:
        """The handle's `cancel()` is cheap: use it freely."""
        at_ms = self._clock.monotonic_ms() + max(0, delay_ms)
        handle = self._wheel.add(callback, at_ms)
        if self._wakeup is None or at_ms < self._wakeup_at_ms:
            self._sleep()
        return handle

    async def pause(self, delay_ms: Millis) -> None:
        """Wait this long."""
        event = asyncio.Event()
        handle = self.after(delay_ms, event.set)
        try:
            await event.wait()
        finally:
            handle.cancel()

    async def within(self, delay_ms: Millis, future: asyncio.Future[T], message: str) -> T:
        """The future's outcome; after this long it is given up, with REQUEST_TIMED_OUT."""
        if delay_ms <= 0:
            _give_up(future, message)
        if future.done():
            return future.result()
        handle = self.after(delay_ms, lambda: _give_up(future, message))
        try:
            return await future
        finally:
            handle.cancel()

    def close(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def _sleep(self) -> None:
        at_ms = self._clock.monotonic_ms() if self._due else self._wheel.next_at_ms()
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if at_ms is not None:
            delay_ms = max(0, at_ms - self._clock.monotonic_ms())
            self._wakeup_at_ms = at_ms
            self._wakeup = self._call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._wakeup = None
        self._due.extend(self._wheel.advance(self._clock.monotonic_ms()))
        try:
            while self._due:
                handle = self._due.popleft()
                if not handle.is_cancelled:
                    handle.item()
        finally:
            # Also after a callback has failed: those behind it run at the next turn.
            self._sleep()


def _give_up(future: asyncio.Future[Any], message: str) -> None:
    if not future.done():
        future.set_exception(ApiError(Error.REQUEST_TIMED_OUT, message))
