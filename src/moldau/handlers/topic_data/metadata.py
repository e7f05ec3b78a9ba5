"""Metadata and DescribeCluster: brokers and topics, with the addresses of the client's listener."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from moldau.handlers.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from moldau.handlers.request_context import RequestContext
from moldau.handlers.request_slices import in_turns
from moldau.handlers.services import Services
from moldau.handlers.topic_data.topic_auto_creation import create_missing
from moldau.model.cluster import (
    INTERNAL_TOPICS,
    BrokerNode,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, BrokerId, topic_name_fault
from moldau.wire.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_IDS_SINCE: Final = 12
LISTENER_ERRORS_SINCE: Final = 6
BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2


async def metadata(request: MetadataRequest, ctx: RequestContext, on: Services) -> MetadataResponse:
    if on.member is not None:
        await on.member.ready()
    asked = request.topics
    if ctx.api_version == 0 and not asked:
        asked = None
    if asked and ctx.api_version < TOPIC_IDS_SINCE and any(map(needs_topic_ids, asked)):
        return _refuse(asked, Error.INVALID_REQUEST)
    by_id = asked is not None and any(topic.topic_id != NO_TOPIC_ID for topic in asked)
    may_create = request.allow_auto_topic_creation and on.config.auto_create_topics_enable
    names = {} if asked is None or by_id else await _names(asked, on)
    if names and may_create:
        await create_missing(names, on, on.quotas.mutations(ctx, is_strict=False))
    image = on.image()
    view = _View(image, ctx)
    if asked is None:
        rows = in_turns(image.topics.values(), on.clock)
        topics = [view.topic(topic) async for topic in rows]
    elif by_id:
        ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != NO_TOPIC_ID)
        topics = [view.topic_by_id(topic_id) async for topic_id in in_turns(ids, on.clock)]
    else:
        topics = [view.topic_by_name(name) async for name in in_turns(names, on.clock)]
    if request.include_topic_authorized_operations:
        for row in topics:
            if row.error_code != Error.UNKNOWN_TOPIC_ID:
                row.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack
            )
            for node, endpoint in reachable(image, ctx.listener)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def needs_topic_ids(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != NO_TOPIC_ID


async def _names(asked: Iterable[MetadataRequestTopic], on: Services) -> dict[str, None]:
    """Each once."""
    return {topic.name or "": None async for topic in in_turns(asked, on.clock)}


def _refuse(asked: list[MetadataRequestTopic], error: Error) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
            for topic in asked
        ]
    )


def reachable(image: ClusterImage, listener: str) -> list[tuple[BrokerNode, Endpoint]]:
    """Brokers that have the client's listener, and their address on it."""
    found = []
    for node in image.brokers.values():
        endpoint = node.endpoint(listener)
        if endpoint is not None:
            found.append((node, endpoint))
    return found


class _View:
    """The image as a client of one listener and version sees it."""

    __slots__ = ("_alive", "_image", "_reachable", "_unreachable_leader", "_unreachable_replica")

    def __init__(self, image: ClusterImage, ctx: RequestContext) -> None:
        self._image = image
        self._alive = image.brokers.keys()
        self._reachable = {node.id for node, _ in reachable(image, ctx.listener)}
        self._unreachable_leader = (
            Error.LISTENER_NOT_FOUND
            if ctx.api_version >= LISTENER_ERRORS_SINCE
            else Error.LEADER_NOT_AVAILABLE
        )
        self._unreachable_replica = ctx.api_version == 0

    def topic_by_name(self, name: str) -> MetadataResponseTopic:
        topic = self._image.topics.get(name)
        if topic is not None:
            return self.topic(topic)
        error = unknown_topic_error(name)
        return MetadataResponseTopic(
            error_code=error, name=name, is_internal=name in INTERNAL_TOPICS
        )

    def topic_by_id(self, topic_id: bytes) -> MetadataResponseTopic:
        name = self._image.topic_names.get(topic_id)
        if name is None:
            return MetadataResponseTopic(
                error_code=Error.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
            )
        return self.topic(self._image.topics[name])

    def topic(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.is_internal,
            partitions=[
                self._partition(index, partition)
                for index, partition in enumerate(topic.partitions)
            ],
        )

    def _partition(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        leader = partition.leader
        error = Error.NONE
        if leader not in self._reachable:
            in_cluster = leader in self._alive
            error = self._unreachable_leader if in_cluster else Error.LEADER_NOT_AVAILABLE
            leader = -1
        offline = self.offline(partition.replicas, partition.offline)
        if self._unreachable_replica and not error and offline:
            error = Error.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            offline_replicas=offline,
        )

    def offline(
        self, replicas: Iterable[BrokerId], known: Collection[BrokerId] = ()
    ) -> list[BrokerId]:
        return [broker for broker in replicas if broker not in self._reachable or broker in known]


def unknown_topic_error(name: str) -> Error:
    if topic_name_fault(name) is not None:
        return Error.INVALID_TOPIC_EXCEPTION
    return Error.UNKNOWN_TOPIC_OR_PARTITION


async def describe_cluster(
    request: DescribeClusterRequest, ctx: RequestContext, on: Services
) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLER_ENDPOINTS:
        return DescribeClusterResponse(
            error_code=Error.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKER_ENDPOINTS:
        return DescribeClusterResponse(
            error_code=Error.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    image = on.image()
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack
            )
            for node, endpoint in reachable(image, ctx.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
