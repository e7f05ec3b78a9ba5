"""Ends of transactions in partitions that another broker leads: the request and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.coordinators.local_markers import Results, TransactionEnd
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def markers_request(ends: Sequence[TransactionEnd]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[_marker(end) for end in ends])


def _marker(end: TransactionEnd) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for place in end.partitions:
        topics.setdefault(place.topic, []).append(place.partition)
    return WritableTxnMarker(
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        transaction_result=end.committed,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=partitions)
            for name, partitions in topics.items()
        ],
        coordinator_epoch=end.coordinator_epoch,
        transaction_version=end.transaction_version,
    )


def results_of(
    response: WriteTxnMarkersResponse, ends: Sequence[TransactionEnd]
) -> list[Mapping[TopicPartition, Error]]:
    """In the order of the ends; brokers answer in any order, by producer."""
    by_producer: dict[int, Results] = {}
    for marker in response.markers:
        results = by_producer.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for row in topic.partitions:
                results[TopicPartition(topic.name, row.partition_index)] = Error(row.error_code)
    return [
        {
            place: by_producer.get(end.producer_id, {}).get(place, Error.NETWORK_EXCEPTION)
            for place in end.partitions
        }
        for end in ends
    ]
