"""A request's place in the order of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.wire.request_framing import Chunk

if TYPE_CHECKING:
    from moldau.net.request_times import TimedRequest


class Disconnect(Exception):
    """The client broke the protocol: the connection ends, and the log says why in one line."""


class SessionExpired(Disconnect):
    """The client should have logged in again."""


class Answer:
    """`chunks` is None until the request is answered."""

    __slots__ = ("chunks", "may_be_overtaken", "request_bytes", "timed")

    def __init__(self, chunks: list[Chunk] | None = None) -> None:
        self.chunks = chunks
        self.request_bytes = 0
        """What its request holds of `queued.max.request.bytes`."""
        self.may_be_overtaken = True
        """Not while its work is still being done: then the next request has to wait."""
        self.timed: TimedRequest | None = None
        """Where its times are noted."""

    def cancel(self) -> None:
        """The connection is gone: whoever works on the answer may stop."""

    def leave(self) -> bool:
        """The client is gone, and no answer is wanted. Whether nothing more is done: who is in the
        middle of work does it to its end, and tells the connection."""
        self.cancel()
        return True


class Pause(Answer):
    """Holds a place in the order for a while, so that nothing behind it begins."""

    __slots__ = ("_timer",)

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        is_over: Callable[[], None],
        said_then: list[Chunk],
    ) -> None:
        super().__init__()
        self.may_be_overtaken = False
        self._timer = loop.call_later(seconds, self._end, is_over, said_then)

    def _end(self, is_over: Callable[[], None], said_then: list[Chunk]) -> None:
        self.chunks = said_then
        is_over()

    def cancel(self) -> None:
        self._timer.cancel()
