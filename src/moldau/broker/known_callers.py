"""What dispatch knows by heart: each API in each version, and each client's way to ask for it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from moldau.handlers.authorization import Authorizer, guarded
from moldau.handlers.quota_keeping import QuotaKeeper, Usage, counted
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Route
from moldau.metrics.answer_cells import AnswerCells
from moldau.model.names import Millis
from moldau.wire.apis import api, is_old, request_class
from moldau.wire.schema import Message


class Lane(Protocol):
    """A short way for the plain requests of one API, tried before the ordinary one."""

    versions: range

    def answer(
        self,
        frame: memoryview,
        position: int,
        version: int,
        correlation_id: int,
        writer: Any,
    ) -> bytes | None:
        """None if the request is not plain; then nothing has happened yet. The writer is None if
        the client may do everything."""

    def writer(self, ctx: RequestContext) -> Any:
        """What is remembered of a client that may not do everything."""

    def throttled(self, answer: bytes, throttle_ms: Millis) -> bytes:
        """The same answer, which tells the client to wait."""


class Call:
    """One API in one version."""

    __slots__ = (
        "api_key",
        "carries_records",
        "decode",
        "decode_short",
        "function",
        "is_old",
        "lane",
        "version",
    )

    def __init__(self, route: Route, version: int, lane: Lane | None) -> None:
        self.lane = lane if lane is not None and version in lane.versions else None
        self.api_key = route.api_key
        self.version = version
        self.is_old = is_old(route.api_key, version)
        self.decode = request_class(route.api_key).decode
        self.decode_short = request_class(route.api_key).decode_short
        self.carries_records = request_class(route.api_key).__carries_records__
        self.function = route.function

    def __str__(self) -> str:
        row = api(self.api_key)
        return f"{row.name if row else self.api_key}-v{self.version}"


class Caller:
    """A client's header, met before: those of its next requests differ in the correlation id.

    What the authorizer and the keeper of quotas have to say in general is asked here, once: a
    client that may do everything without limit is served with nothing in between."""

    __slots__ = (
        "body_position",
        "call",
        "context",
        "function",
        "is_counted",
        "lane",
        "rest",
        "rest_at",
        "share",
        "writer",
    )

    def __init__(
        self,
        call: Call,
        context: RequestContext,
        body_position: int,
        rest: bytes,
        authorizer: Authorizer,
        quotas: QuotaKeeper,
    ) -> None:
        self.call = call
        self.context = context
        self.body_position = body_position
        self.rest = rest
        self.rest_at: Callable[[memoryview, int], tuple[Any, ...]]
        self.rest_at = struct.Struct(f"{len(rest)}s").unpack_from
        self.function = call.function
        self.lane = None if call.lane is None else call.lane.answer
        self.writer: Any = None
        if not authorizer.is_open:
            self.function = guarded(call.api_key, call.function)
            if call.lane is not None:
                self.writer = call.lane.writer(context)
        self.is_counted = not quotas.is_open
        self.share = None if quotas.is_open else quotas.share_of(context)
        """Of its quotas; to be asked for again where it does not cover a request."""
        if self.is_counted:
            self.function = partial(counted, self.function)

    def note_old(self, answers: AnswerCells) -> None:
        """Count its requests: a broker of a later release may not understand them."""
        function, call = self.function, self.call

        async def noted(request: Message, ctx: RequestContext, services: Any) -> Any:
            software = ("", "") if ctx.connection is None else ctx.connection.client_software
            answers.note_old(call.api_key, call.version, software)
            return await function(request, ctx, services)

        self.function = noted

    def context_of(self, frame: memoryview) -> RequestContext:
        if self.is_counted:
            return self.context._replace(usage=Usage(len(frame)))
        return self.context
