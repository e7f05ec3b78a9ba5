"""DescribeQuorum: who keeps the cluster's metadata, and how far everybody has got.

Apache Kafka's controllers keep it in a partition; here it is the metadata store's journal, and the
node that writes it is a quorum of one. Its transactions stand for the partition's offsets.
"""

from __future__ import annotations

from moldau.controller.rules.topic_rules import METADATA_LOG_TOPIC
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.wire.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
    Listener,
    Node,
    ReplicaState,
)

PARTITION = 0


async def describe_quorum(
    request: DescribeQuorumRequest, ctx: RequestContext, on: Services
) -> DescribeQuorumResponse:
    asked = [(t.topic_name, p.partition_index) for t in request.topics for p in t.partitions]
    if asked != [(METADATA_LOG_TOPIC, PARTITION)]:
        return _unknown(request)
    try:
        leader, epoch, offset_end = await on.controller.quorum()
    except ApiError as refusal:
        return DescribeQuorumResponse(error_code=refusal.error, error_message=refusal.message)
    now = on.clock.wall_ms()
    voter = ReplicaState(
        replica_id=leader,
        log_end_offset=offset_end,
        last_fetch_timestamp=now,
        last_caught_up_timestamp=now,
    )
    row = DescribeQuorumResponsePartition(
        partition_index=PARTITION,
        leader_id=leader,
        leader_epoch=epoch,
        high_watermark=offset_end,
        current_voters=[voter],
    )
    topic = DescribeQuorumResponseTopic(topic_name=METADATA_LOG_TOPIC, partitions=[row])
    return DescribeQuorumResponse(topics=[topic], nodes=_nodes(leader, on))


def _nodes(leader: int, on: Services) -> list[Node]:
    node = on.image().brokers.get(leader)
    endpoints = () if node is None else node.endpoints
    return [
        Node(
            node_id=leader,
            listeners=[Listener(name=e.listener, host=e.host, port=e.port) for e in endpoints],
        )
    ]


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=Error.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
