"""Jobs that run again and again beside the requests: retention, flushing, checkpoints.

A job is a plain function on the loop, or a coroutine function if it has to wait for threads. It
is never run twice at the same time, and a fault in one run is logged and leaves the next one in
place: a full disk today must not stop retention for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("kafka.server.KafkaScheduler")

Job = Callable[[], Awaitable[object] | None]


class Background:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: dict[str, _Periodic] = {}

    def every(
        self,
        name: str,
        interval_ms: int | Callable[[], int],
        job: Job,
        *,
        first_ms: int | None = None,
    ) -> None:
        """Run the job each `interval_ms`, counted from the end of the run before; a function is
        asked each time. Naming a job anew replaces it."""
        self.cancel(name)
        asked = interval_ms if callable(interval_ms) else lambda: interval_ms
        first_ms = asked() if first_ms is None else first_ms
        self._jobs[name] = _Periodic(self._loop, name, asked, job, first_ms)

    def cancel(self, name: str) -> None:
        periodic = self._jobs.pop(name, None)
        if periodic is not None:
            periodic.cancel()

    async def stop(self) -> None:
        """No job starts any more; those that run are waited for."""
        running = [p.running for p in self._jobs.values() if p.running is not None]
        for name in list(self._jobs):
            self.cancel(name)
        if running:
            await asyncio.wait(running)


class _Periodic:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        interval_ms: Callable[[], int],
        job: Job,
        first_ms: int,
    ) -> None:
        self._loop = loop
        self._name = name
        self._interval_ms = interval_ms
        self._job = job
        self._is_cancelled = False
        self.running: asyncio.Task[None] | None = None
        self._timer = loop.call_later(first_ms / 1000, self._start)

    def cancel(self) -> None:
        self._is_cancelled = True
        self._timer.cancel()

    def _start(self) -> None:
        self.running = self._loop.create_task(self._run(), name=self._name)

    async def _run(self) -> None:
        try:
            waiting = self._job()
            if waiting is not None:
                await waiting
        except Exception:
            log.exception("Uncaught exception in scheduled task '%s'", self._name)
        self.running = None
        if not self._is_cancelled:
            self._timer = self._loop.call_later(self._interval_ms() / 1000, self._start)
