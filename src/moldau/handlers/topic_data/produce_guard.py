"""Who may write: asked before a Produce request is served, where an authorizer is configured.

A transactional batch needs leave to use its transactional id, whatever the request says of itself
(CVE-2018-17196). Topics that the client may not write to are answered without being looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from moldau.handlers.authorization import Resource, TopicGate
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.handlers.services import Services
from moldau.handlers.topic_data.produce import (
    TOPIC_IDS_SINCE,
    disconnect_if_refused,
    is_transactional,
    refuse_all,
)
from moldau.model.errors import ApiError, Error
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData


async def guard_produce(
    serve: Handler, request: ProduceRequest, ctx: RequestContext, on: Services
) -> ProduceResponse | None:
    if not _may_write_in_transaction(request, ctx, on):
        return _refused(request, request.topic_data, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    everything = request.topic_data

    def names() -> Iterator[str]:
        by_id = on.image().topic_names
        for topic in everything:
            name = topic.name or by_id.get(topic.topic_id, "")
            yield from repeat(name, len(topic.partition_data))

    gate = TopicGate(ctx, on, Operation.WRITE, names)
    allowed: list[TopicProduceData] = []
    denied: list[TopicProduceData] = []
    for topic in request.topic_data:
        (allowed if _is_allowed(topic, gate, ctx, on) else denied).append(topic)
    request.topic_data = allowed
    response: ProduceResponse | None = await serve(request, ctx, on)
    if denied:
        refused = _refused(request, denied, Error.TOPIC_AUTHORIZATION_FAILED)
        if response is not None and refused is not None:
            response.responses += refused.responses
    return response


def _may_write_in_transaction(request: ProduceRequest, ctx: RequestContext, on: Services) -> bool:
    if not any(
        is_transactional(row.records or b"")
        for topic in request.topic_data
        for row in topic.partition_data
    ):
        return True
    if request.transactional_id is None:
        return False
    resource = Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    return on.authorizer.allows(ctx, Operation.WRITE, resource)


def _is_allowed(
    topic: TopicProduceData, gate: TopicGate, ctx: RequestContext, on: Services
) -> bool:
    name = topic.name
    if ctx.api_version >= TOPIC_IDS_SINCE:
        try:
            name = on.replicas.name_of(topic.topic_id)
        except ApiError:
            return True  # an id that nobody knows: the handler says so
    return gate.allows(name)


def _refused(
    request: ProduceRequest, topics: list[TopicProduceData], error: Error
) -> ProduceResponse | None:
    response = refuse_all(topics, error)
    if request.acks == 0:
        disconnect_if_refused(response.responses)
        return None
    return response
