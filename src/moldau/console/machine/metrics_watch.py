"""The metrics of brokers as the console has noticed them: the last look, and the course of some.

One task for the whole console, while somebody looks at what it tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from moldau.console.charts import Point
from moldau.console.machine.broker_metrics import (
    BYTES_IN,
    BYTES_OUT,
    TIMES,
    Sample,
    SilentError,
    ask_metrics,
)

POINTS_MAX = 360
UNUSED_S = 15 * 60
FIRST_WAIT_S = 4.0
REQUESTS = ("Produce", "FetchConsumer", "Fetch")


class Moment(NamedTuple):
    ms: int
    times: dict[str, float]
    """The 99th percentile by kind of request, of the slowest broker; in milliseconds."""
    bytes_in: float | None
    """Per second."""
    bytes_out: float | None


class MetricsWatch:
    def __init__(self, addresses: Sequence[str], every_s: float) -> None:
        self.addresses = tuple(addresses)
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self._used_at = 0.0
        self._counts: tuple[float, float, float] | None = None
        self.moments: deque[Moment] = deque(maxlen=POINTS_MAX)
        self.last: dict[str, list[Sample]] = {}
        self.faults: dict[str, str] = {}

    async def used(self) -> None:
        """Somebody looks: waits for the first look, not for others."""
        self._used_at = time.monotonic()
        if not self.addresses:
            return
        if self._task is None or self._task.done():
            self._looked.clear()
            self._task = asyncio.create_task(self._run())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._looked.wait(), FIRST_WAIT_S)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def points(self, kind: str) -> list[Point]:
        """Of a kind of request, or of "in" and "out"."""
        if kind in ("in", "out"):
            return [Point(m.ms, m.bytes_in if kind == "in" else m.bytes_out) for m in self.moments]
        return [Point(m.ms, m.times.get(kind)) for m in self.moments]

    async def _run(self) -> None:
        while time.monotonic() - self._used_at < UNUSED_S:
            await self.look()
            self._looked.set()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        answers = await asyncio.gather(
            *(asyncio.to_thread(ask_metrics, each) for each in self.addresses),
            return_exceptions=True,
        )
        self.last, self.faults = {}, {}
        for address, answer in zip(self.addresses, answers, strict=True):
            if isinstance(answer, list):
                self.last[address] = answer
            elif isinstance(answer, SilentError):
                self.faults[address] = str(answer)
            else:
                raise answer
        self.moments.append(self._moment())

    def _moment(self) -> Moment:
        found = [each for rows in self.last.values() for each in rows]
        times: dict[str, float] = {}
        for each in found:
            kind = each.labels.get("request", "")
            is_wanted = each.name == TIMES and each.labels.get("quantile") == "0.99"
            if is_wanted and kind in REQUESTS and each.value == each.value:
                times[kind] = max(times.get(kind, 0.0), each.value)
        now = time.monotonic()
        # Of all topics: the series without the label of one.
        counts = [
            sum(each.value for each in found if each.name == name and not each.labels.get("topic"))
            for name in (BYTES_IN, BYTES_OUT)
        ]
        before, is_whole = self._counts, not self.faults and bool(self.last)
        self._counts = (now, counts[0], counts[1]) if is_whole else None
        rates: list[float | None] = [None, None]
        if before is not None and is_whole and now > before[0]:
            grown = (counts[0] - before[1], counts[1] - before[2])
            # A broker that was started anew counts from 0.
            rates = [each / (now - before[0]) if each >= 0 else None for each in grown]
        return Moment(int(time.time() * 1000), times, rates[0], rates[1])
