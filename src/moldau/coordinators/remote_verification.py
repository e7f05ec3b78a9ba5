"""A transaction whose coordinator is another broker: it is asked by AddPartitionsToTxn."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.net.peers import PeerCalls, PeerUnreachable
from moldau.transactions.transaction_commands import AddPartitions
from moldau.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

LANE = "transactions"


async def add_partitions(
    command: AddPartitions, peers: PeerCalls, coordinator: BrokerId, timeout_ms: Millis
) -> Mapping[TopicPartition, Error]:
    """An error for each partition. Raises ApiError for what is about the transaction."""
    topics: dict[str, list[int]] = {}
    for place in sorted(command.partitions):
        topics.setdefault(place.topic, []).append(place.partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=command.transactional_id,
        producer_id=command.producer_id,
        producer_epoch=command.producer_epoch,
        verify_only=command.verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    try:
        response = await peers.call(
            coordinator,
            AddPartitionsToTxnRequest(transactions=[transaction]),
            timeout_ms=timeout_ms,
            lane=LANE,
        )
    except PeerUnreachable as fault:
        raise ApiError(Error.NETWORK_EXCEPTION, str(fault)) from fault
    return _results(response)


def _results(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, Error]:
    if response.error_code:
        raise ApiError(Error(response.error_code), "the coordinator refused the request")
    results = {
        TopicPartition(topic.name, row.partition_index): Error(row.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for row in topic.results_by_partition
    }
    errors = set(results.values())
    if len(errors) == 1 and Error.NONE not in errors:
        # The same for all: it is about the transaction, not about a partition.
        error = errors.pop()
        raise ApiError(error, error.sentence)
    return results
