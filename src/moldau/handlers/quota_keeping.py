"""The port of whoever keeps clients to their quotas; open to everybody unless some are set.

Dispatch asks once for every answer, before it leaves: the answer says how long the client has to
wait, and the connection starts nothing more for that long (KIP-219).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, Protocol

from moldau.handlers.request_context import RequestContext
from moldau.model.names import Millis
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.handlers.services import Services

Served = Callable[..., Coroutine[Any, Any, Any]]
UNLIMITED_BYTES = 2**31 - 1


class QuotaKeeper(Protocol):
    @property
    def is_open(self) -> bool:
        """Whether nobody has a quota: then nothing is asked or recorded. Who changes this tells
        the server to forget what it knows about callers."""

    def throttle_ms(self, ctx: RequestContext, local_ns: int, response: Message | None) -> Millis:
        """Record what the request has cost: `ctx.request_bytes`, the time its handler worked, the
        answer; how long its client has to wait. May empty an answer that is beyond the quota. It
        is None where nobody waits for one, or the short way of Produce has made it already."""

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        """How much one fetch of the client may read."""


class OpenQuotas:
    is_open = True

    def throttle_ms(self, ctx: RequestContext, local_ns: int, response: Message | None) -> Millis:
        return 0

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        return UNLIMITED_BYTES


OPEN_QUOTAS = OpenQuotas()


async def counted(serve: Served, request: Any, ctx: RequestContext, on: Services) -> Any:
    """A handler as clients call it that may have quotas."""
    worked = _Worked()
    response = await _stepwise(serve(request, ctx, on), worked)
    throttle_ms = on.quotas.throttle_ms(ctx, worked.ns, response)
    if throttle_ms > 0 and ctx.connection is not None:
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        # The answer gets its place in the order, and the pause comes behind it.
        await asyncio.sleep(0)
        ctx.connection.pause(throttle_ms)
    return response


class _Worked:
    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0


@coroutine
def _stepwise(work: Coroutine[Any, Any, Any], worked: _Worked) -> Generator[Any, Any, Any]:
    """Takes the time of the steps of a coroutine, and not of what it waits for."""
    while True:
        begun_ns = time.perf_counter_ns()
        try:
            awaited = work.send(None)
        except StopIteration as finished:
            return finished.value
        finally:
            worked.ns += time.perf_counter_ns() - begun_ns
        yield awaited
