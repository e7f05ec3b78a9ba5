"""The memory that answers to slow clients may hold together: `queued.max.response.bytes`.

A connection starts no request while much of the last answer is unsent, so what it holds is one
answer. Many connections could still fill the memory: beyond the limit the one that holds the most
is closed. Clients that take their answers are never noticed here.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class SlowClient(Protocol):
    @property
    def is_closed(self) -> bool: ...

    @property
    def memory_unsent(self) -> int: ...

    def refuse(self, reason: str) -> None: ...


class UnsentAnswers:
    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int) -> None:
        self._loop = loop
        self._slow: set[SlowClient] = set()
        self._is_due = False
        self.limit_bytes = limit_bytes

    def note(self, client: SlowClient) -> None:
        """This client has left a long answer lying."""
        self._slow.add(client)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_due = False
        held = {client: client.memory_unsent for client in self._slow if not client.is_closed}
        held = {client: count for client, count in held.items() if count}
        while sum(held.values()) > self.limit_bytes:
            most = max(held, key=held.__getitem__)
            most.refuse(f"it has not taken {held.pop(most)} bytes of answers, and others need room")
        self._slow = set(held)
