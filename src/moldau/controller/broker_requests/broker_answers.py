"""What brokers' answers to the controller's requests mean for it.

Pure. A replica that could not take its role because of its disk is offline, until it takes one
again; one that was deleted brings the deletion of its topic forward. A request that was refused as
a whole means nothing here: the broker has heard of a newer controller, or has registered anew, and
the tree tells of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from moldau.controller.broker_requests.state_requests import stopped_for_good
from moldau.controller.cluster_commands import ConfirmDeleted, SeeReplicas
from moldau.controller.cluster_facts import Replica
from moldau.model.errors import Error
from moldau.model.names import BrokerId, TopicPartition
from moldau.wire.messages.replication import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)


def command_of(
    broker: BrokerId, request: object, response: object, offline: Collection[Replica] = ()
) -> object | None:
    """`offline` are the replicas that had lost their disk before."""
    if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
        rows = list(_outcomes(request, response))
        failed = tuple(place for place, error in rows if error == Error.KAFKA_STORAGE_ERROR)
        back = tuple(
            place for place, error in rows if error == Error.NONE and (place, broker) in offline
        )
        return SeeReplicas(broker, failed, back) if failed or back else None
    if isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
        outcomes = _deleted(request, response)
        return ConfirmDeleted(broker, outcomes) if outcomes else None
    return None


def _outcomes(
    request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> Iterator[tuple[TopicPartition, int]]:
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    rows = [
        (names.get(topic.topic_id, ""), row)
        for topic in response.topics
        for row in topic.partition_errors
    ]
    rows += [(row.topic_name, row) for row in response.partition_errors]
    for name, row in rows:
        if name:
            yield TopicPartition(name, row.partition_index), row.error_code


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
