"""Asking the coordinator of a transaction about partitions, be it here or on another broker.

Whoever leads a partition (or a group's offsets) has to know that it is in the transaction before
it writes. In a cluster the coordinator is often elsewhere: then it is asked by AddPartitionsToTxn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.model.cluster import NO_LEADER
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicPartition
from moldau.net.peers import PeerUnreachable
from moldau.transactions.commands import AddPartitions
from moldau.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from moldau.handlers.services import Services

LANE = "transactions"


def submit_partitions(command: AddPartitions, on: Services) -> asyncio.Future[object]:
    """Refusals are in the future, an error for each partition is its result."""
    coordinator = _coordinator(command.transactional_id, on)
    if on.member is None or coordinator in (on.node_id, NO_LEADER):
        return on.transactions.submit(command.transactional_id, command)
    asking = asyncio.get_running_loop().create_task(_ask(coordinator, command, on))
    # Whoever asked may have gone meanwhile, or may ask anew: then nobody looks at a refusal.
    asking.add_done_callback(lambda task: task.cancelled() or task.exception())
    return asking


def _coordinator(transactional_id: str, on: Services) -> BrokerId:
    topic = on.image().topics.get(on.transactions.topic)
    if topic is None:
        return NO_LEADER
    return topic.partitions[on.transactions.partition_of(transactional_id)].leader


async def _ask(coordinator: BrokerId, command: AddPartitions, on: Services) -> object:
    assert on.member is not None
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
        response = await on.member.peers.call(
            coordinator,
            AddPartitionsToTxnRequest(transactions=[transaction]),
            timeout_ms=on.config.request_timeout_ms,
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
