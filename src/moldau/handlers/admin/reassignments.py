"""AlterPartitionReassignments and ListPartitionReassignments: moving replicas (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.controller.rules.reassignment_rules import Move, is_moving
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.cluster import TopicImage
from moldau.model.errors import ApiError, Error
from moldau.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: RequestContext, on: Services
) -> AlterPartitionReassignmentsResponse:
    may_change = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(allow_replication_factor_change=may_change)
    moves = [
        Move(topic.name, row.partition_index, None if row.replicas is None else tuple(row.replicas))
        for topic in request.topics
        for row in topic.partitions
    ]
    try:
        outcomes = await on.controller.alter_partition_reassignments(
            moves, allow_replication_factor_change=may_change
        )
    except ApiError as refusal:
        response.error_code, response.error_message = refusal.error, refusal.message
        return response
    rows = iter(outcomes)
    response.responses = [
        ReassignableTopicResponse(
            name=topic.name,
            # The outcomes lie in the order of the request: each partition takes its own.
            partitions=[_result(partition, next(rows)) for partition in topic.partitions],
        )
        for topic in request.topics
    ]
    return response


def _result(
    partition: ReassignablePartition, refusal: ApiError | None
) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=partition.partition_index,
        error_code=Error.NONE if refusal is None else refusal.error,
        error_message=refusal.message or None if refusal is not None else None,
    )


async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: RequestContext, on: Services
) -> ListPartitionReassignmentsResponse:
    try:
        topics = on.controller.topics_with_moves()
    except ApiError as refusal:
        return ListPartitionReassignmentsResponse(
            error_code=refusal.error, error_message=refusal.message
        )
    if request.topics is None:
        found = [_ongoing(topic, range(len(topic.partitions))) for topic in topics.values()]
    else:
        asked = [(topics.get(row.name), row.partition_indexes) for row in request.topics]
        found = [_ongoing(topic, numbers) for topic, numbers in asked if topic is not None]
    return ListPartitionReassignmentsResponse(topics=[row for row in found if row.partitions])


def _ongoing(topic: TopicImage, numbers: Iterable[int]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(name=topic.name, partitions=list(_moving(topic, numbers)))


def _moving(topic: TopicImage, numbers: Iterable[int]) -> Iterator[OngoingPartitionReassignment]:
    for number in numbers:
        if 0 <= number < len(topic.partitions) and is_moving(topic.partitions[number]):
            partition = topic.partitions[number]
            yield OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
