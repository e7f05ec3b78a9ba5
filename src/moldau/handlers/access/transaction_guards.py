"""What requests of transactions and about them need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.handlers.access.row_guards import (
    may,
    may_with_cluster,
    named_judge,
    rows,
    topic_judge,
)
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.handlers.transactions.transaction_requests import exists
from moldau.model.cluster import INTERNAL_TOPICS
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records.batch import NO_PRODUCER_EPOCH
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.wire.messages import transaction_admin, transactions

if TYPE_CHECKING:
    from moldau.handlers.services import Services

ID = ResourceType.TRANSACTIONAL_ID
DENIED = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
BATCHES_SINCE = 4


async def guard_init_producer_id(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if request.transactional_id is not None:
        if not may(ctx, on, Operation.WRITE, ID, request.transactional_id):
            return _no_producer(DENIED)
    elif not (
        may_with_cluster(ctx, on, Operation.IDEMPOTENT_WRITE, logs_denial=False)
        or on.authorizer.allows_somewhere(ctx, Operation.WRITE, ResourceType.TOPIC)
    ):
        return _no_producer(Error.CLUSTER_AUTHORIZATION_FAILED)
    return await serve(request, ctx, on)


def _no_producer(error: Error) -> transactions.InitProducerIdResponse:
    return transactions.InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER_EPOCH)


async def guard_add_partitions(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if ctx.api_version >= BATCHES_SINCE:
        if not may_with_cluster(ctx, on, Operation.CLUSTER_ACTION):
            raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED)
        return await serve(request, ctx, on)
    topics = request.v3_and_below_topics
    if not may(ctx, on, Operation.WRITE, ID, request.v3_and_below_transactional_id):
        return _not_added(topics, {row.name: DENIED for row in topics}, on)
    errors = {}
    for row in topics:

        def count(row: Any = row) -> int:
            return len(row.partitions)

        if row.name in INTERNAL_TOPICS or not may(
            ctx, on, Operation.WRITE, ResourceType.TOPIC, row.name, count=count
        ):
            errors[row.name] = Error.TOPIC_AUTHORIZATION_FAILED
    if errors:
        return _not_added(topics, errors, on)
    return await serve(request, ctx, on)


def _not_added(topics: list[Any], errors: dict[str, Error], on: Services) -> Any:
    """Partitions are added together or not at all: the allowed ones were not tried."""

    def error_of(name: str, index: int) -> Error:
        error = errors.get(name)
        if error is not None:
            return error
        is_there = exists(TopicPartition(name, index), on)
        return Error.OPERATION_NOT_ATTEMPTED if is_there else Error.UNKNOWN_TOPIC_OR_PARTITION

    response = transactions.AddPartitionsToTxnResponse()
    response.results_by_topic_v3_and_below = [
        transactions.AddPartitionsToTxnTopicResult(
            name=row.name,
            results_by_partition=[
                transactions.AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=error_of(row.name, index),
                )
                for index in row.partitions
            ],
        )
        for row in topics
    ]
    return response


async def guard_add_offsets(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
    if not may(ctx, on, Operation.WRITE, ID, request.transactional_id):
        raise ApiError(DENIED)
    if not may(ctx, on, Operation.READ, ResourceType.GROUP, request.group_id):
        raise ApiError(Error.GROUP_AUTHORIZATION_FAILED)
    return await serve(request, ctx, on)


def _judge_owner(row: Any, request: Any, ctx: RequestContext, on: Services) -> Error | None:
    if not may(ctx, on, Operation.WRITE, ID, request.transactional_id):
        return DENIED
    if not may(ctx, on, Operation.READ, ResourceType.GROUP, request.group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    return None


guard_txn_offsets = rows(
    "topics",
    "topics",
    topic_judge(Operation.READ),
    lambda row, error: transactions.TxnOffsetCommitResponseTopic(
        name=row.name,
        partitions=[
            transactions.TxnOffsetCommitResponsePartition(
                partition_index=each.partition_index, error_code=error
            )
            for each in row.partitions
        ],
    ),
    first=_judge_owner,
)


async def guard_write_markers(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if may_with_cluster(ctx, on, Operation.ALTER, logs_denial=False) or may_with_cluster(
        ctx, on, Operation.CLUSTER_ACTION
    ):
        return await serve(request, ctx, on)
    return transactions.WriteTxnMarkersResponse(
        markers=[
            transactions.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    transactions.WritableTxnMarkerTopicResult(
                        name=row.name,
                        partitions=[
                            transactions.WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=Error.CLUSTER_AUTHORIZATION_FAILED,
                            )
                            for index in row.partition_indexes
                        ],
                    )
                    for row in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


guard_describe_producers = rows(
    "topics",
    "topics",
    topic_judge(Operation.READ),
    lambda row, error: transaction_admin.TopicResponse(
        name=row.name,
        partitions=[
            transaction_admin.PartitionResponse(
                partition_index=index, error_code=error, error_message=error.sentence
            )
            for index in row.partition_indexes
        ],
    ),
)
_guard_described = rows(
    "transactional_ids",
    "transaction_states",
    named_judge(Operation.DESCRIBE, ID),
    lambda name, error: transaction_admin.DescribedTransaction(
        transactional_id=name, error_code=error
    ),
)


async def guard_describe_transactions(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    response = await _guard_described(serve, request, ctx, on)
    for state in response.transaction_states:
        state.topics = [
            row
            for row in state.topics
            if may(ctx, on, Operation.DESCRIBE, ResourceType.TOPIC, row.topic)
        ]
    return response


async def guard_list_transactions(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    response = await serve(request, ctx, on)
    response.transaction_states = [
        row
        for row in response.transaction_states
        if may(ctx, on, Operation.DESCRIBE, ID, row.transactional_id)
    ]
    return response
