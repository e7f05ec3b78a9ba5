"""The memory that answers to slow clients may hold together: `queued.max.response.bytes`.

A connection starts no request while much of the last answer is unsent, so what it holds is one
answer. Many connections could still fill the memory: beyond half of the limit those are closed that
take nothing, beyond the limit those that take slowly too, each time the one that holds the most.
A client that is alone with a very long answer and takes it is served, however long that is.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

LOOK_SECONDS = 0.1
TAKEN_BYTES_MIN = 64 * 1024
"""Who takes less between two looks takes nothing."""


class SlowClient(Protocol):
    @property
    def is_closed(self) -> bool: ...

    @property
    def memory_unsent(self) -> int: ...

    def refuse(self, reason: str) -> None: ...


class UnsentAnswers:
    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int) -> None:
        self._loop = loop
        self._held: dict[SlowClient, int] = {}
        """What each held at the last look; more than there is for one that is new."""
        self._next_look: asyncio.TimerHandle | None = None
        self.limit_bytes = limit_bytes

    def note(self, client: SlowClient) -> None:
        """This client has left a long answer lying."""
        self._held.setdefault(client, 2**63)
        if sum(each.memory_unsent for each in self._held) > self.limit_bytes:
            self._loop.call_soon(self._make_room)
        if self._next_look is None:
            self._next_look = self._loop.call_later(LOOK_SECONDS, self._look)

    def stop(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()

    def _look(self) -> None:
        now = self._holders()
        idle = {
            client: count
            for client, count in now.items()
            if self._held[client] - count < TAKEN_BYTES_MIN
        }
        _close_largest(idle, sum(now.values()) - self.limit_bytes // 2)
        self._held = self._holders()
        self._make_room()
        self._next_look = None
        if self._held:
            self._next_look = self._loop.call_later(LOOK_SECONDS, self._look)

    def _make_room(self) -> None:
        now = self._holders()
        if len(now) > 1:
            _close_largest(now, sum(now.values()) - self.limit_bytes)

    def _holders(self) -> dict[SlowClient, int]:
        counts = {each: each.memory_unsent for each in self._held if not each.is_closed}
        return {client: count for client, count in counts.items() if count}


def _close_largest(held: dict[SlowClient, int], excess_bytes: int) -> None:
    while held and excess_bytes > 0:
        most = max(held, key=held.__getitem__)
        count = held.pop(most)
        excess_bytes -= count
        most.refuse(f"it has not taken {count} bytes of answers, and others need room")
