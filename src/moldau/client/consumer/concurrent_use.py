"""A consumer is for one user at a time: who comes second gets an error, not a wait.

Whoever is inside may come in again: listeners and callbacks use the consumer too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from moldau.client.consumer.poll_loop import ConsumerEngine
from moldau.client.shared.client_errors import (
    ConcurrentModificationError as ConcurrentModificationError,
)


class SoleTask:
    """Lets one task in at a time, as often as it likes; gives it the engine."""

    def __init__(self, engine: Callable[[], ConsumerEngine]) -> None:
        self.is_on = True
        self._engine = engine
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0

    def __enter__(self) -> ConsumerEngine:
        engine = self._engine()
        if self.is_on:
            task = asyncio.current_task()
            if self._depth and self._owner is not task:
                raise ConcurrentModificationError(
                    "Consumer is not safe for concurrent use: another task is inside a call"
                )
            self._owner = task
            self._depth += 1
        return engine

    def __exit__(self, *_: object) -> None:
        if self.is_on:
            self._depth -= 1


class SoleThread:
    """Lets one thread in at a time, as often as it likes; a second one is an error, not a wait."""

    def __init__(self) -> None:
        self._owner: int | None = None
        self._depth = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner != me:
            if not self._lock.acquire(blocking=False):
                raise ConcurrentModificationError(
                    "Consumer is not safe for multi-threaded access: thread"
                    f" {self._owner} is inside a call. Only wakeup() is for other threads"
                )
            self._owner = me
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()
