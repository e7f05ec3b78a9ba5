"""WriteTxnMarkers: what a transaction coordinator asks of the leaders of partitions."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.coordinators.local_markers import TransactionEnd
from moldau.handlers.request_context import RequestContext
from moldau.handlers.request_slices import Turn, in_turns
from moldau.handlers.services import Services
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: RequestContext, on: Services
) -> WriteTxnMarkersResponse:
    turn = Turn(on.clock)
    ends = []
    for marker in request.markers:
        ends.append(await _end_of(marker, on))
        if turn.is_over():
            await turn.rest()
    written = await on.markers.write(ends, on.config.request_timeout_ms)
    rows = []
    for marker, results in zip(request.markers, written, strict=True):
        topics = []
        for topic in marker.topics:
            topics.append(await _outcome_of(topic, results, on))
            if turn.is_over():
                await turn.rest()
        rows.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=rows)


async def _outcome_of(
    topic: WritableTxnMarkerTopic, results: Mapping[TopicPartition, Error], on: Services
) -> WritableTxnMarkerTopicResult:
    return WritableTxnMarkerTopicResult(
        name=topic.name,
        partitions=[
            WritableTxnMarkerPartitionResult(
                partition_index=index, error_code=results[TopicPartition(topic.name, index)]
            )
            async for index in in_turns(topic.partition_indexes, on.clock)
        ],
    )


async def _end_of(marker: WritableTxnMarker, on: Services) -> TransactionEnd:
    named = (
        TopicPartition(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    )
    return TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
        # Each once, however often it is named.
        tuple({place: None async for place in in_turns(named, on.clock)}),
    )
