"""What brokers' answers to the controller's requests mean for it.

Pure. A replica that could not take its role because of its disk is offline; one that was deleted
brings the deletion of its topic forward.
"""

from __future__ import annotations

from moldau.controller.cluster_commands import ConfirmDeleted, FailReplicas
from moldau.controller.state_requests import stopped_for_good
from moldau.model.errors import Error
from moldau.model.names import BrokerId, TopicPartition
from moldau.wire.messages.replication import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)


def command_of(broker: BrokerId, request: object, response: object) -> object | None:
    if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
        failed = _failed(request, response)
        return FailReplicas(broker, failed) if failed else None
    if isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
        outcomes = _deleted(request, response)
        return ConfirmDeleted(broker, outcomes) if outcomes else None
    return None


def _failed(
    request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> tuple[TopicPartition, ...]:
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    rows = [
        (names.get(topic.topic_id, ""), row)
        for topic in response.topics
        for row in topic.partition_errors
    ]
    rows += [(row.topic_name, row) for row in response.partition_errors]
    return tuple(
        TopicPartition(name, row.partition_index)
        for name, row in rows
        if row.error_code == Error.KAFKA_STORAGE_ERROR and name
    )


def _deleted(
    request: StopReplicaRequest, response: StopReplicaResponse
) -> dict[TopicPartition, Error]:
    """Kafka's brokers name only the partitions that they have something to say about."""
    outcomes = {
        TopicPartition(*place): Error.NONE
        for place, delete in stopped_for_good(request).items()
        if delete
    }
    for row in response.partition_errors:
        place = TopicPartition(row.topic_name, row.partition_index)
        if place in outcomes:
            outcomes[place] = Error(row.error_code)
    return outcomes
