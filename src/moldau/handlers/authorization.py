"""Who may do what: the port of the authorizer, and how a handler is put behind its guard.

Dispatch asks `is_open` once for each kind of request of a connection. Where it is true (no
authorizer is configured) handlers are called as they are. Otherwise an API is served behind its
row in `guards.py`; one without a row is refused, so that nothing new is open by mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.model.errors import ApiError, Error
from moldau.security.acl.acl_model import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from moldau.handlers.services import Services
    from moldau.replication.fetch_sessions import FetchedPartition
    from moldau.replication.replica import Replica


class Resource(NamedTuple):
    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


Count = Callable[[], int]
"""Asked only for the log."""


def once() -> int:
    return 1


class Authorizer(Protocol):
    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything; does not change while the broker runs."""

    @property
    def memory(self) -> object | None:
        """What is allowed may be remembered while this is the same object; None if it may not,
        because every decision has to be told or might be another one."""

    def allows(
        self,
        ctx: RequestContext,
        operation: Operation,
        resource: Resource,
        *,
        count: Count = once,
        is_logged: bool = True,
        logs_denial: bool = True,
    ) -> bool:
        """`count` tells how often the request names the resource. What only fills a bit field is
        not logged; a denial is not where the client has asked for nothing that it may not do."""

    def allows_somewhere(
        self, ctx: RequestContext, operation: Operation, type: ResourceType
    ) -> bool:
        """Whether there is any resource of the type that the client may do this to."""


class OpenAuthorizer:
    is_open = True
    memory = None

    def allows(
        self,
        ctx: RequestContext,
        operation: Operation,
        resource: Resource,
        *,
        count: Count = once,
        is_logged: bool = True,
        logs_denial: bool = True,
    ) -> bool:
        return True

    def allows_somewhere(
        self, ctx: RequestContext, operation: Operation, type: ResourceType
    ) -> bool:
        return True


OPEN_AUTHORIZER = OpenAuthorizer()

Guard = Callable[..., Any]
"""`async def guard(serve, request, ctx, on) -> response`: asks `on.authorizer`, then calls
`serve(request, ctx, on)` with what is allowed, and adds the rows of what is not."""


def guarded(api_key: int, serve: Handler) -> Handler:
    """The handler as clients may call it who may not do everything."""
    from moldau.handlers.guards import ASKS_ITSELF, FREE, GUARDS

    if api_key in FREE or api_key in ASKS_ITSELF:
        return serve
    return partial(GUARDS.get(api_key, _refuse), serve)


async def _refuse(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
    raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, f"no rule allows API {ctx.api_key}")


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


class TopicGate:
    """One operation on the topics of one request: each is asked about once."""

    def __init__(
        self,
        ctx: RequestContext,
        on: Services,
        operation: Operation,
        names: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`names` are those of all partitions that the request is about; for the log."""
        self._names = names
        self._counts: Counter[str] | None = None
        self._ctx = ctx
        self._authorizer = on.authorizer
        self._operation = operation
        self._known: dict[str, bool] = {}

    def allows(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = self._authorizer.allows(
                self._ctx, self._operation, topic(name), count=lambda: self._count(name)
            )
            self._known[name] = known
        return known

    def _count(self, name: str) -> int:
        if self._counts is None:
            self._counts = Counter(self._names())
        return self._counts[name] or 1

    def check(self, name: str) -> None:
        if not self.allows(name):
            raise ApiError(Error.TOPIC_AUTHORIZATION_FAILED)


def find_allowed(
    find: Callable[[FetchedPartition], Replica],
    asked: Sequence[FetchedPartition],
    ctx: RequestContext,
    on: Services,
    follower: int,
) -> Callable[[FetchedPartition], Replica]:
    """As `find`, for a client that may not read everything. A name that may not be read is
    refused whether or not there is such a topic; an id that nobody knows tells nothing."""

    def names() -> Iterator[str]:
        by_id = on.image().topic_names
        return (each.topic or by_id.get(each.topic_id, "") for each in asked)

    gate = TopicGate(ctx, on, Operation.READ, names)
    is_all_denied = follower >= 0 and not on.authorizer.allows(
        ctx, Operation.CLUSTER_ACTION, CLUSTER
    )

    def find_if_allowed(wanted: FetchedPartition) -> Replica:
        if is_all_denied:
            raise ApiError(Error.TOPIC_AUTHORIZATION_FAILED)
        if follower >= 0:
            return find(wanted)
        if wanted.topic:
            gate.check(wanted.topic)
            return find(wanted)
        replica = find(wanted)
        gate.check(replica.partition.topic_partition.topic)
        return replica

    return find_if_allowed
