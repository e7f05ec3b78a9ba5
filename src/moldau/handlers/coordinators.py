"""FindCoordinator: who keeps the state of a group or a transactional id; WriteTxnMarkers.

That is whoever leads the partition of the internal topic that the key hashes to. The topic is
created when somebody first asks, so that a broker without groups and transactions carries nothing
for them. Markers are what a coordinator asks of the leaders of a transaction's partitions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.engine.shards import Shards
from moldau.handlers.auto_topics import create_missing
from moldau.handlers.context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.replication.markers import TransactionEnd
from moldau.wire.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

GROUP: Final = 0
TRANSACTION: Final = 1
MANY_KEYS_SINCE: Final = 4


class Place(NamedTuple):
    """Where a coordinator is, or why nobody knows."""

    error: Error = Error.NONE
    node_id: int = -1
    host: str = ""
    port: int = -1


async def find_coordinator(
    request: FindCoordinatorRequest, ctx: RequestContext, on: Services
) -> FindCoordinatorResponse:
    shards = _shards_for(request.key_type, on)
    if shards is not None:
        await create_missing((shards.topic,), on)
    if ctx.api_version >= MANY_KEYS_SINCE:
        places = [(key, _place_of(key, shards, ctx, on)) for key in request.coordinator_keys]
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=place.node_id,
                    host=place.host,
                    port=place.port,
                    error_code=place.error,
                    error_message=place.error.sentence if place.error else "",
                )
                for key, place in places
            ]
        )
    place = _place_of(request.key, shards, ctx, on)
    return FindCoordinatorResponse(
        error_code=place.error,
        error_message=place.error.sentence if place.error else "NONE",
        node_id=place.node_id,
        host=place.host,
        port=place.port,
    )


def _shards_for(key_type: int, on: Services) -> Shards | None:
    """None for what has no coordinator here: share groups, and types that nobody knows."""
    if key_type == GROUP:
        return on.groups
    return on.transactions if key_type == TRANSACTION else None


def _place_of(key: str, shards: Shards | None, ctx: RequestContext, on: Services) -> Place:
    if shards is None:
        return Place(Error.INVALID_REQUEST)
    image = on.image()
    try:
        partition = shards.partition_of(key)
    except ApiError as refusal:
        return Place(refusal.error)
    node = image.brokers.get(image.topics[shards.topic].partitions[partition].leader)
    endpoint = None if node is None else node.endpoint(ctx.listener)
    if node is None or endpoint is None:
        return Place(Error.COORDINATOR_NOT_AVAILABLE)
    return Place(Error.NONE, node.id, endpoint.host, endpoint.port)


async def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: RequestContext, on: Services
) -> WriteTxnMarkersResponse:
    ends = [_end_of(marker) for marker in request.markers]
    written = await on.markers.write(ends, on.config.request_timeout_ms)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=results[TopicPartition(topic.name, index)],
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker, results in zip(request.markers, written, strict=True)
        ]
    )


def _end_of(marker: WritableTxnMarker) -> TransactionEnd:
    return TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
        tuple(
            # Each once, however often it is named.
            dict.fromkeys(
                TopicPartition(topic.name, index)
                for topic in marker.topics
                for index in topic.partition_indexes
            )
        ),
    )
