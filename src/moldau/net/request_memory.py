"""The memory that long requests of all connections may hold together: `queued.max.request.bytes`.

As in Apache Kafka a request is let in while any of it is left, so the last one may go beyond the
limit; then connections with a long request wait, in order, until others have been answered. A
request that was let in has room for all of its bytes, so two halves never wait for each other.
Requests that fit one read are not counted.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

UNLIMITED = (1 << 63) - 1


class Waiter(Protocol):
    def go_on(self) -> None:
        """There may be room now."""


class RequestMemory:
    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int = -1) -> None:
        self._loop = loop
        self._limit_bytes = limit_bytes
        self._waiting: dict[Waiter, None] = {}
        """In the order in which they came."""
        self.held_bytes = 0

    @property
    def _has_room(self) -> bool:
        return self._limit_bytes <= 0 or self.held_bytes < self._limit_bytes

    @property
    def left_bytes(self) -> int:
        """As Apache Kafka tells it: without a limit the largest number that it has."""
        if self._limit_bytes <= 0:
            return UNLIMITED
        return max(0, self._limit_bytes - self.held_bytes)

    def set_limit(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._wake()

    def take(self, count: int, waiter: Waiter) -> bool:
        """Whether a request of so many bytes may be read; if not, `go_on` is called in time."""
        if not self._has_room:
            self._waiting[waiter] = None
            return False
        self._waiting.pop(waiter, None)
        self.held_bytes += count
        return True

    def give_back(self, count: int) -> None:
        if count:
            self.held_bytes -= count
            self._wake()

    def leave(self, waiter: Waiter, count: int) -> None:
        """A connection has ended."""
        self._waiting.pop(waiter, None)
        self.give_back(count)

    def _wake(self) -> None:
        if self._waiting and self._has_room:
            self._loop.call_soon(self._wake_first)

    def _wake_first(self) -> None:
        while self._waiting and self._has_room:
            waiter = next(iter(self._waiting))
            del self._waiting[waiter]
            waiter.go_on()
