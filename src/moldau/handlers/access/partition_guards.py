"""What requests about leaders and replicas need: a row of refusal for every partition they name."""

from __future__ import annotations

from typing import Any

from moldau.handlers.access.row_guards import cluster_or
from moldau.model.errors import Error
from moldau.security.acl.acl_model import Operation
from moldau.wire.messages import partitions

DENIED = Error.CLUSTER_AUTHORIZATION_FAILED


def _not_elected(request: Any, text: str) -> partitions.ElectLeadersResponse:
    return partitions.ElectLeadersResponse(
        error_code=DENIED,
        replica_election_results=[
            partitions.ReplicaElectionResult(
                topic=row.topic,
                partition_result=[
                    partitions.PartitionResult(
                        partition_id=index, error_code=DENIED, error_message=text
                    )
                    for index in row.partitions
                ],
            )
            for row in request.topic_partitions or ()
        ],
    )


def _not_reassigned(request: Any, text: str) -> partitions.AlterPartitionReassignmentsResponse:
    return partitions.AlterPartitionReassignmentsResponse(
        error_code=DENIED,
        error_message=text,
        responses=[
            partitions.ReassignableTopicResponse(
                name=row.name,
                partitions=[
                    partitions.ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=DENIED, error_message=text
                    )
                    for each in row.partitions
                ],
            )
            for row in request.topics
        ],
    )


def _not_listed(request: Any, text: str) -> partitions.ListPartitionReassignmentsResponse:
    return partitions.ListPartitionReassignmentsResponse(
        error_code=DENIED,
        error_message=text,
        topics=[
            partitions.OngoingTopicReassignment(
                name=row.name,
                partitions=[
                    partitions.OngoingPartitionReassignment(partition_index=index)
                    for index in row.partition_indexes
                ],
            )
            for row in request.topics or ()
        ],
    )


guard_elections = cluster_or(Operation.ALTER, _not_elected)
guard_reassignments = cluster_or(Operation.ALTER, _not_reassigned)
guard_reassignment_list = cluster_or(Operation.DESCRIBE, _not_listed)
