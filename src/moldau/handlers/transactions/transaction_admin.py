"""DescribeTransactions, ListTransactions and DescribeProducers: looking for what hangs.

The coordinator knows transactions, the leader of a partition knows the producers that wrote to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.handlers.request_slices import in_turns
from moldau.handlers.transactions.transaction_outcomes import told
from moldau.model.errors import ApiError, Error
from moldau.model.linear_regex import Pattern, PatternError
from moldau.model.names import Millis, topic_name_fault
from moldau.replication.replica_loading import load
from moldau.transactions.transaction_commands import DescribeTransaction, ListTransactions
from moldau.transactions.transaction_states import STATES_BY_LABEL
from moldau.wire.messages.transaction_admin import (
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    PartitionResponse,
    ProducerState,
    TopicData,
    TopicResponse,
)

if TYPE_CHECKING:
    from moldau.handlers.request_context import RequestContext
    from moldau.handlers.services import Services
    from moldau.storage.log_state.producer_state import ProducerEntry


async def describe_transactions(
    request: DescribeTransactionsRequest, ctx: RequestContext, on: Services
) -> DescribeTransactionsResponse:
    deadline_ms = on.transactions.deadline()
    names = dict.fromkeys(request.transactional_ids)
    rows = [
        await _described(name, ctx, on, deadline_ms) async for name in in_turns(names, on.clock)
    ]
    return DescribeTransactionsResponse(transaction_states=rows)


async def _described(
    transactional_id: str, ctx: RequestContext, on: Services, deadline_ms: Millis
) -> DescribedTransaction:
    try:
        if not transactional_id:
            raise ApiError(Error.INVALID_REQUEST, "the transactional id is empty")
        asked = on.transactions.submit(transactional_id, DescribeTransaction(transactional_id))
        transaction = await on.transactions.stored(asked, deadline_ms)
    except ApiError as refusal:
        error = told(refusal, ctx.api_version)
        return DescribedTransaction(error_code=error, transactional_id=transactional_id)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=ids) for topic, ids in by_topic.items()],
    )


async def list_transactions(
    request: ListTransactionsRequest, ctx: RequestContext, on: Services
) -> ListTransactionsResponse:
    unknown = [name for name in request.state_filters if name not in STATES_BY_LABEL]
    if on.transactions.is_loading:
        return ListTransactionsResponse(error_code=Error.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        command = _filters(request, on)
    except PatternError:
        return ListTransactionsResponse(error_code=Error.INVALID_REGULAR_EXPRESSION)
    rows: list[ListedTransaction] = []
    # All partitions are asked before the first answer is awaited.
    asked = [
        on.transactions.submit_to(partition, command) for partition in on.transactions.partitions()
    ]
    deadline_ms = on.transactions.deadline()
    for future in asked:
        try:
            transactions = await on.transactions.stored(future, deadline_ms)
        except ApiError as refusal:
            if refusal.error is not Error.NOT_COORDINATOR:
                return ListTransactionsResponse(error_code=told(refusal, ctx.api_version))
            # The partition has gone elsewhere, and is listed there.
            continue
        rows += [
            ListedTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.label,
            )
            async for each in in_turns(transactions, on.clock)
        ]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows)


def _filters(request: ListTransactionsRequest, on: Services) -> ListTransactions:
    states = [STATES_BY_LABEL[name] for name in request.state_filters if name in STATES_BY_LABEL]
    pattern = request.transactional_id_pattern
    return ListTransactions(
        frozenset(states) if request.state_filters else None,
        frozenset(request.producer_id_filters),
        request.duration_filter,
        Pattern(pattern) if pattern else None,
    )


async def describe_producers(
    request: DescribeProducersRequest, ctx: RequestContext, on: Services
) -> DescribeProducersResponse:
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        # What is named again is answered once.
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = [
        TopicResponse(
            name=name, partitions=[await _producers(name, index, on) for index in partitions]
        )
        for name, partitions in asked.items()
    ]
    return DescribeProducersResponse(topics=topics)


async def _producers(topic: str, partition: int, on: Services) -> PartitionResponse:
    """Every replica answers for its own log, as in Apache Kafka."""
    try:
        fault = topic_name_fault(topic)
        if fault is not None:
            raise ApiError(Error.INVALID_TOPIC_EXCEPTION, fault)
        replica_log = await load(on.replicas.find(topic, partition))
    except ApiError as refusal:
        return PartitionResponse(
            partition_index=partition,
            error_code=refusal.error,
            error_message=refusal.message or refusal.error.sentence,
        )
    entries = list(replica_log.producers.entries)
    active = [_producer(entry) async for entry in in_turns(entries, on.clock)]
    return PartitionResponse(partition_index=partition, active_producers=active)


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )
