"""Guards that take single rows out of a request and add their refusals to the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.handlers.authorization import CLUSTER, Count, Guard, Resource, once
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID
from moldau.security.acl.acl_model import SUPPORTED_OPERATIONS, Operation, ResourceType
from moldau.wire.apis import api, response_class

if TYPE_CHECKING:
    from moldau.handlers.services import Services

Judge = Callable[[Any, Any, RequestContext, "Services"], Error | None]
"""Row, request, context, services: why the row is denied, or None."""
Denied = Callable[[Any, Error], Any]
"""The row of the answer for a denied row of the request."""

ERRORS = {
    ResourceType.TOPIC: Error.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Error.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Error.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def may(
    ctx: RequestContext,
    on: Services,
    operation: Operation,
    kind: ResourceType,
    name: str,
    *,
    logs_denial: bool = True,
    count: Count = once,
) -> bool:
    resource = Resource(kind, name)
    return on.authorizer.allows(ctx, operation, resource, logs_denial=logs_denial, count=count)


def may_with_cluster(
    ctx: RequestContext, on: Services, operation: Operation, *, logs_denial: bool = True
) -> bool:
    return on.authorizer.allows(ctx, operation, CLUSTER, logs_denial=logs_denial)


def needed(ctx: RequestContext, operation: Operation) -> str:
    """What somebody is told who may not do this to the cluster."""
    row = api(ctx.api_key)
    return f"{row.name if row else ctx.api_key} needs {operation.name} permission."


def allowed_bits(ctx: RequestContext, on: Services, kind: ResourceType, name: str) -> int:
    """A bit for every operation that the client may do (KIP-430)."""
    return sum(
        1 << operation
        for operation in SUPPORTED_OPERATIONS[kind]
        if on.authorizer.allows(ctx, operation, Resource(kind, name), is_logged=False)
    )


def topic_names(row: Any, on: Services) -> list[str]:
    """What a row calls its topic, by name, by id, or both. An id that nobody knows stands for
    nothing: the handler says so, and nothing is given away."""
    if isinstance(row, str):
        return [row]
    name = getattr(row, "name", None) or getattr(row, "topic", None)
    topic_id = getattr(row, "topic_id", NO_TOPIC_ID)
    if topic_id == NO_TOPIC_ID:
        return [name or ""]
    by_id = on.image().topic_names.get(topic_id)
    return [each for each in dict.fromkeys((name, by_id)) if each]


def topic_judge(operation: Operation) -> Judge:
    def judge(row: Any, request: Any, ctx: RequestContext, on: Services) -> Error | None:
        names = topic_names(row, on)
        if all(may(ctx, on, operation, ResourceType.TOPIC, name) for name in names):
            return None
        return Error.TOPIC_AUTHORIZATION_FAILED

    return judge


def named_judge(operation: Operation, kind: ResourceType) -> Judge:
    """Of rows that are names themselves."""

    def judge(row: Any, request: Any, ctx: RequestContext, on: Services) -> Error | None:
        return None if may(ctx, on, operation, kind, row) else ERRORS[kind]

    return judge


def rows(
    asked: str, answered: str, judge: Judge, denied: Denied, *, first: Judge | None = None
) -> Guard:
    """`asked` and `answered` name the lists of the request and of the answer. `first` is asked once
    and judges the rows all together."""

    async def guard(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
        allowed: list[Any] = []
        refused: list[Any] = []
        error_of_all = None if first is None else first(None, request, ctx, on)
        for row in getattr(request, asked):
            error = error_of_all or judge(row, request, ctx, on)
            if error is None:
                allowed.append(row)
            else:
                refused.append(denied(row, error))
        if not refused:
            return await serve(request, ctx, on)
        setattr(request, asked, allowed)
        # Without any row some requests would mean everything.
        response = await serve(request, ctx, on) if allowed else response_class(ctx.api_key)()
        getattr(response, answered).extend(refused)
        return response

    return guard


def cluster_or(operation: Operation, refused: Callable[[Any, str], Any]) -> Guard:
    """The whole request or nothing; `refused` makes the answer of the request and a sentence."""

    async def guard(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
        if may_with_cluster(ctx, on, operation):
            return await serve(request, ctx, on)
        return refused(request, needed(ctx, operation))

    return guard


def whole(operation: Operation, kind: ResourceType, field: str) -> Guard:
    """The request is about the one thing that a field names."""

    async def guard(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
        if not may(ctx, on, operation, kind, getattr(request, field)):
            raise ApiError(ERRORS[kind])
        return await serve(request, ctx, on)

    return guard
