"""ElectLeaders: giving partitions back to their preferred leader, or to any that is left."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.controller.rules.leader_elections import Election
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.partitions import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)


async def elect_leaders(
    request: ElectLeadersRequest, ctx: RequestContext, on: Services
) -> ElectLeadersResponse:
    asked = request.topic_partitions
    topics = _all_of(on) if asked is None else asked
    count = sum(len(topic.partitions) for topic in topics)
    error = Error.NONE
    try:
        outcomes = await _elect(request.election_type, topics, on)
    except ApiError as refusal:
        error, outcomes = refusal.error, [refusal] * count
    rows = iter(outcomes)
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[_result(number, next(rows)) for number in topic.partitions],
        )
        for topic in topics
    ]
    if asked is None:
        # Whoever asks for all wants to hear only of those for which there was something to do.
        for result in results:
            result.partition_result = [
                row
                for row in result.partition_result
                if row.error_code != Error.ELECTION_NOT_NEEDED
            ]
    return ElectLeadersResponse(error_code=error, replica_election_results=results)


async def _elect(
    election_type: int, topics: Sequence[TopicPartitions], on: Services
) -> list[ApiError | None]:
    if election_type not in set(Election):
        raise ApiError(Error.INVALID_REQUEST, f"Unknown election type {election_type}")
    partitions = [
        TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions
    ]
    return await on.controller.elect_leaders(Election(election_type), partitions)


def _all_of(on: Services) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic=topic.name, partitions=list(range(len(topic.partitions))))
        for topic in on.image().topics.values()
    ]


def _result(number: int, refusal: ApiError | None) -> PartitionResult:
    if refusal is None:
        return PartitionResult(partition_id=number)
    return PartitionResult(
        partition_id=number, error_code=refusal.error, error_message=refusal.message
    )
