"""FindCoordinator: who keeps the state of a group or a transactional id.

That is whoever leads the partition of the internal topic that the key hashes to. The topic is
created when somebody first asks, so that a broker without groups and transactions carries nothing
for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.engine.shards import Shards
from moldau.handlers.request_context import RequestContext
from moldau.handlers.request_slices import in_turns
from moldau.handlers.services import Services
from moldau.handlers.topic_data.topic_auto_creation import create_internal
from moldau.model.errors import ApiError, Error
from moldau.wire.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

MANY_KEYS_SINCE: Final = 4


class CoordinatorAddress(NamedTuple):
    """Where a coordinator is, or why nobody knows."""

    error: Error = Error.NONE
    node_id: int = -1
    host: str = ""
    port: int = -1


async def find_coordinator(
    request: FindCoordinatorRequest, ctx: RequestContext, on: Services
) -> FindCoordinatorResponse:
    # None for what has no coordinator here: share groups, and types that nobody knows.
    shards = on.coordinators.get(request.key_type)
    if shards is not None:
        await create_internal(shards, on)
        # Somebody may have it made just now.
        await on.replicas.pending.settled_for(shards.topic)
    if ctx.api_version >= MANY_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[
                _coordinator(key, _address_of(key, shards, ctx, on))
                async for key in in_turns(request.coordinator_keys, on.clock)
            ]
        )
    address = _address_of(request.key, shards, ctx, on)
    return FindCoordinatorResponse(
        error_code=address.error,
        error_message=address.error.sentence if address.error else "NONE",
        node_id=address.node_id,
        host=address.host,
        port=address.port,
    )


def _coordinator(key: str, address: CoordinatorAddress) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=address.node_id,
        host=address.host,
        port=address.port,
        error_code=address.error,
        error_message=address.error.sentence if address.error else "",
    )


def _address_of(
    key: str, shards: Shards | None, ctx: RequestContext, on: Services
) -> CoordinatorAddress:
    if shards is None:
        return CoordinatorAddress(Error.INVALID_REQUEST)
    image = on.image()
    try:
        partition = shards.partition_of(key)
    except ApiError as refusal:
        return CoordinatorAddress(refusal.error)
    node = image.brokers.get(image.topics[shards.topic].partitions[partition].leader)
    endpoint = None if node is None else node.endpoint(ctx.listener)
    if node is None or endpoint is None:
        return CoordinatorAddress(Error.COORDINATOR_NOT_AVAILABLE)
    return CoordinatorAddress(Error.NONE, node.id, endpoint.host, endpoint.port)
