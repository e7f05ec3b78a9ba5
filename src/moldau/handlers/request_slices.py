"""Long requests take turns: what would hold the loop for long is done a few milliseconds at a time.

A handler that walks many rows asks `is_over` now and then and rests where it is: everybody else
is served, then it goes on. What it reads may have changed by then, so only rows that stand alone
are made this way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from moldau.model.clock import Clock

TURN_MS: Final = 5
ROWS_PER_LOOK: Final = 64
"""Rows between two looks at the clock."""

T = TypeVar("T")


class Turn:
    __slots__ = ("_begun_ms", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_ms = clock.monotonic_ms()

    def is_over(self) -> bool:
        return self._clock.monotonic_ms() - self._begun_ms >= TURN_MS

    async def rest(self) -> None:
        """Let everybody else have a turn."""
        await asyncio.sleep(0)
        self._begun_ms = self._clock.monotonic_ms()


async def in_turns(items: Iterable[T], clock: Clock) -> AsyncIterator[T]:
    """The items, with a rest in between where a turn is over."""
    turn = Turn(clock)
    for count, item in enumerate(items, 1):
        yield item
        if not count % ROWS_PER_LOOK and turn.is_over():
            await turn.rest()
