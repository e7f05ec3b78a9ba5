"""The port of whoever keeps clients to their quotas; open to everybody unless some are set.

Dispatch asks once for every answer, before it leaves: the answer says how long the client has to
wait, and the connection starts nothing more for that long (KIP-219). A Fetch and what changes
topics ask for themselves, because they answer otherwise then; their answers say already how long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, Protocol

from moldau.handlers.request_context import RequestContext
from moldau.model.errors import ApiError
from moldau.model.names import Millis
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.handlers.services import Services
    from moldau.security.quotas.client_share import Share

Served = Callable[..., Coroutine[Any, Any, Any]]
UNLIMITED_BYTES = 2**31 - 1


class Mutations(Protocol):
    """Changes of topics that one request asks for, counted in partitions."""

    def take(self, partitions: int) -> None:
        """Raises ApiError (THROTTLING_QUOTA_EXCEEDED) if the client has to wait first."""

    def throttle_ms(self) -> Millis:
        """How long the client has to wait, from now."""


class QuotaKeeper(Protocol):
    @property
    def is_open(self) -> bool:
        """Whether nobody has a quota: then nothing is asked or recorded. Who changes this tells
        the server to forget what it knows about callers."""

    def settle(self, ctx: RequestContext, outcome: Message | ApiError | None) -> Millis:
        """Record what the request has cost, as `ctx.usage` knows it, and how long its client has
        to wait. The outcome is None where nobody waits for an answer."""

    def share_of(self, ctx: RequestContext) -> Share | None:
        """What the client has, together with whoever shares it, to be kept by the short way; None
        while nobody has a quota."""

    def settle_produce(self, ctx: RequestContext, request_bytes: int, now_ns: int) -> Millis:
        """As `settle`, for the short way of Produce where the share does not cover it."""

    def settle_fetch(self, ctx: RequestContext, response_bytes: int) -> Millis:
        """As `settle`, for a client's Fetch; who has to wait gets nothing, and the bytes count as
        not sent."""

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        """How much one fetch of the client may read."""

    def mutations(self, ctx: RequestContext, *, is_strict: bool) -> Mutations:
        """What is not strict is done all the same, and the client waits afterwards."""


class NoMutations:
    def take(self, partitions: int) -> None:
        return

    def throttle_ms(self) -> Millis:
        return 0


NO_MUTATIONS = NoMutations()


class OpenQuotas:
    is_open = True

    def settle(self, ctx: RequestContext, outcome: Message | ApiError | None) -> Millis:
        return 0

    def share_of(self, ctx: RequestContext) -> Share | None:
        return None

    def settle_produce(self, ctx: RequestContext, request_bytes: int, now_ns: int) -> Millis:
        return 0

    def settle_fetch(self, ctx: RequestContext, response_bytes: int) -> Millis:
        return 0

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        return UNLIMITED_BYTES

    def mutations(self, ctx: RequestContext, *, is_strict: bool) -> Mutations:
        return NO_MUTATIONS


OPEN_QUOTAS = OpenQuotas()


class Usage:
    """What one request costs, as far as it is known."""

    __slots__ = ("_begun_ns", "_worked_ns", "before_wait_ns", "request_bytes")

    def __init__(self, request_bytes: int) -> None:
        self.request_bytes = request_bytes
        self.before_wait_ns = 0
        """What its handler had worked when it first had to wait; 0 if it never had to."""
        self._worked_ns = 0
        self._begun_ns = 0

    @property
    def local_ns(self) -> int:
        """The time that its handler has worked, without what it waited for."""
        running_ns = time.perf_counter_ns() - self._begun_ns if self._begun_ns else 0
        return self._worked_ns + running_ns

    @coroutine
    def timed(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        while True:
            self._begun_ns = time.perf_counter_ns()
            try:
                awaited = work.send(None)
            except StopIteration as finished:
                return finished.value
            finally:
                self._worked_ns += time.perf_counter_ns() - self._begun_ns
                self._begun_ns = 0
            self.before_wait_ns = self.before_wait_ns or self._worked_ns
            yield awaited


async def counted(serve: Served, request: Any, ctx: RequestContext, on: Services) -> Any:
    """A handler as clients call it that may have quotas."""
    usage = ctx.usage
    assert usage is not None
    try:
        response = await usage.timed(serve(request, ctx, on))
    except ApiError as refusal:
        refusal.throttle_ms = on.quotas.settle(ctx, refusal)
        await _pause(ctx, refusal.throttle_ms, on)
        raise
    throttle_ms = on.quotas.settle(ctx, response)
    if hasattr(response, "throttle_time_ms"):
        # A handler may have found a reason of its own.
        throttle_ms = max(throttle_ms, response.throttle_time_ms)
        response.throttle_time_ms = throttle_ms
    await _pause(ctx, throttle_ms, on)
    return response


async def _pause(ctx: RequestContext, throttle_ms: Millis, on: Services) -> None:
    if throttle_ms > 0 and ctx.connection is not None:
        on.answers.throttle(ctx.api_key, throttle_ms)
        # The answer gets its place in the order, and the pause comes behind it.
        await asyncio.sleep(0)
        ctx.connection.pause(throttle_ms)
