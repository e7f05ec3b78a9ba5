"""Requests that wait for a partition to change: long-poll fetches, writes with acks=all.

A request parks on the partitions it is about and is woken by what happens to them or by its
time-out. Whoever changes a partition only marks it; the parked requests are looked at in the next
turn of the loop, after the reply that caused the change was queued, and once for any number of
changes. Nothing here survives a crash: clients ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from moldau.engine.timers import Timers
from moldau.model.names import Millis

PARKED_MAX = 100_000

T = TypeVar("T")


class Watcher(Protocol):
    """Neither method may add or remove watchers: they are called while all are looked at."""

    def is_ready(self, place: Watched, /) -> bool:
        """Asked whenever a watched thing has changed."""

    def wake(self) -> None: ...


class Watched:
    """A thing that requests can wait for."""

    __slots__ = ("parked",)

    def __init__(self) -> None:
        self.parked: dict[Watcher, None] = {}
        """In the order of their coming."""


class Parked:
    """`is_ready` is asked whenever a watched thing has changed; it must be cheap."""

    __slots__ = ("_future", "is_ready")

    def __init__(self, future: asyncio.Future[bool], is_ready: Callable[[Watched], bool]) -> None:
        self._future = future
        self.is_ready = is_ready

    def wake(self) -> None:
        if not self._future.done():
            self._future.set_result(True)

    def expire(self) -> None:
        if not self._future.done():
            self._future.set_result(False)


class Waiting:
    __slots__ = ("_changed", "_loop", "_parked_max", "_timers", "parked_count", "writes_count")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        parked_max: int = PARKED_MAX,
    ) -> None:
        self._loop = loop
        self._timers = timers
        self._parked_max = parked_max
        self._changed: dict[Watched, None] = {}
        self.parked_count = 0
        self.writes_count = 0
        """Of these, writes that wait for followers."""

    async def until(
        self,
        watched: Iterable[Watched],
        is_ready: Callable[[Watched], bool],
        timeout_ms: Millis,
    ) -> bool:
        """True when one of `watched` made the request ready; False when its time is up.

        With too many requests parked already the time is up at once.
        """
        if timeout_ms <= 0 or self.parked_count >= self._parked_max:
            return False
        future: asyncio.Future[bool] = self._loop.create_future()
        parked = Parked(future, is_ready)
        places = list(watched)
        for place in places:
            place.parked[parked] = None
        timer = self._timers.after(timeout_ms, parked.expire)
        self.parked_count += 1
        try:
            return await future
        finally:
            # Also when the client has gone and the request is thrown away here.
            self.parked_count -= 1
            timer.cancel()
            for place in places:
                place.parked.pop(parked, None)

    async def until_settled(
        self,
        rows: Iterable[T],
        watched_of: Callable[[T], Watched],
        is_settled: Callable[[T], bool],
        timeout_ms: Millis,
    ) -> list[T]:
        """Wait until every row is settled, for better or worse; those that are not when time is
        up. A row that is settled is not looked at again."""
        left = list(rows)

        def settle(_: Watched | None = None) -> bool:
            left[:] = [row for row in left if not is_settled(row)]
            return not left

        deadline_ms = self._timers.now_ms() + timeout_ms
        while not settle():
            left_ms = deadline_ms - self._timers.now_ms()
            self.writes_count += 1
            try:
                if not await self.until(map(watched_of, left), settle, left_ms):
                    break
            finally:
                self.writes_count -= 1
        return left

    def changed(self, place: Watched) -> None:
        """Something happened that may make a parked request ready."""
        if place.parked:
            if not self._changed:
                self._loop.call_soon(self._look)
            self._changed[place] = None

    def disturb(self, place: Watched) -> None:
        """What was waited for may never come: wake everybody to find out."""
        for parked in place.parked:
            parked.wake()

    def _look(self) -> None:
        changed, self._changed = self._changed, {}
        for place in changed:
            for parked in place.parked:
                if parked.is_ready(place):
                    parked.wake()
