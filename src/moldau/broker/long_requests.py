"""Requests that take many turns of the loop, one after the other.

If each of a hundred clients had a long request, a turn of each would be a long wait for everybody
else, and a hundred half-made answers would fill the memory. So one is worked on, the others wait
in order. One that waits for something else makes room until it has work to do again.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Worker(Protocol):
    def resume(self) -> None:
        """Work for one turn."""


class LongWork:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers: dict[Worker, None] = {}
        """In the order in which they came; the first one works."""

    def __len__(self) -> int:
        return len(self._workers)

    def rest(self, worker: Worker) -> None:
        """It has more to do: at the loop's next turn, or when its time comes."""
        self._workers[worker] = None
        if next(iter(self._workers)) is worker:
            self._loop.call_soon(worker.resume)

    def leave(self, worker: Worker) -> None:
        if worker not in self._workers:
            return
        was_first = next(iter(self._workers)) is worker
        del self._workers[worker]
        if was_first and self._workers:
            self._loop.call_soon(next(iter(self._workers)).resume)
