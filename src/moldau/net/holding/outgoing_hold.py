"""Nothing leaves a broker for a moment: answers and calls to other brokers wait, in their order.

Brokers that take a moment together use it. What happens after the moment of one broker can become
known to nobody before all have taken theirs, so no broker's moment holds a consequence of something
that another one's does not hold. It ends by itself, and whoever began it is told that it did.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Sender(Protocol):
    def let_out(self) -> None:
        """Send what was held back."""


class OutgoingHold:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._kept: list[Sender] = []
        self._over: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self.is_on = False

    def begin(self, seconds_max: float) -> None:
        assert not self.is_on
        self.is_on = True
        self._began = self._loop.time()
        self._over = self._loop.create_future()
        self._timer = self._loop.call_later(seconds_max, self.end)

    def keep(self, sender: Sender) -> None:
        """It has something to send: let it out when the hold is over."""
        self._kept.append(sender)

    async def over(self) -> None:
        """Return when nothing is held back."""
        if self._over is not None:
            await asyncio.shield(self._over)

    def end(self) -> float | None:
        """The seconds for which it held; None if it had ended by itself."""
        if not self.is_on:
            return None
        assert self._timer is not None and self._over is not None
        self.is_on = False
        self._timer.cancel()
        over, self._over = self._over, None
        over.set_result(None)
        kept, self._kept = self._kept, []
        for sender in kept:
            sender.let_out()
        return self._loop.time() - self._began
