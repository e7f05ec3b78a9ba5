"""What one connection of a browser may cost: time for a request to come, time to take an answer.

Uvicorn ends connections that rest; these are the two waits it leaves open. A reader is slow enough
to be cut off only if it does not empty the buffers, some 64 KiB, in a minute.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 20.0
"""From the first byte of a request, or the connection's begin, to the end of its head."""
TAKE_S = 60.0
"""In which a reader takes what stands in the buffers."""


class BoundedConnection(H11Protocol):
    _asking: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._await_request()
        elif self.conn.their_state is not h11.IDLE:
            self._asking = _without(self._asking)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._taking is None:
            self._taking = self.loop.call_later(TAKE_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taking = _without(self._taking)

    def connection_lost(self, exc: Exception | None) -> None:
        self._asking, self._taking = _without(self._asking), _without(self._taking)
        super().connection_lost(exc)

    def _await_request(self) -> None:
        if self._asking is None:
            self._asking = self.loop.call_later(REQUEST_S, self.transport.abort)


def _without(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancels it: there is none from now on."""
    if timer is not None:
        timer.cancel()
    return None
