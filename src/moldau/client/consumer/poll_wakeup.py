"""Lets the thread that polls sleep until the loop has something for it.

Costs a lock, where a coroutine on the loop would cost a task, two futures and two wake-ups. Called
on the loop only; one thread at a time waits.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class PollWakeup:
    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = Lock()

    def wake(self) -> None:
        """Wake who waits; if nobody does, the next wait looks at `is_over` once more."""
        if self._lock.locked():
            # Nobody else releases it, so it is locked still.
            self._lock.release()

    def wait(self, timeout_s: float, is_over: Callable[[], bool]) -> None:
        """Until it is woken, if `is_over` does not say at once that there is no need."""
        # A call before this is looked at now; one from here on ends the wait.
        self._lock.acquire(blocking=False)
        if timeout_s > 0 and not is_over():
            self._lock.acquire(timeout=timeout_s)
