"""What the controller tells a broker: LeaderAndIsr, StopReplica, UpdateMetadata.

A controller that was replaced, or that means an earlier life of this broker, is refused as a
whole. Otherwise every partition has its own outcome, as in Apache Kafka 3.9. Requests are handled
one after the other, in the order of their arrival: one that the controller has repeated must not
go on behind what it has told since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from moldau.controller.broker_requests.state_requests import VERSIONS
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import ClusterMember, Services
from moldau.model.cluster import ClusterImage, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from moldau.replication.metadata_cache import FULL, LEADER_DURING_DELETE
from moldau.replication.replica_roles import EPOCH_OF_DELETION, NO_EPOCH, Role, Stop
from moldau.wire.messages.replication import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from moldau.wire.schema import Message

log = logging.getLogger("state.change.logger")

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
TOPIC_IDS_SINCE = 5
NO_BROKER_EPOCH = -1
ROLES_AT_ONCE = 20
"""Some thousand take a second."""

Request = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


async def serve_own_controller(request: Request, on: Services) -> Message:
    """What the controller tells its own broker, as if it had come over the network."""
    version = VERSIONS[type(request)]
    listener = on.config.inter_broker_listener
    if isinstance(request, LeaderAndIsrRequest):
        ctx = RequestContext(LEADER_AND_ISR, version, "controller", listener)
        return await leader_and_isr(request, ctx, on)
    if isinstance(request, StopReplicaRequest):
        ctx = RequestContext(STOP_REPLICA, version, "controller", listener)
        return await stop_replica(request, ctx, on)
    ctx = RequestContext(UPDATE_METADATA, version, "controller", listener)
    return await update_metadata(request, ctx, on)


async def leader_and_isr(
    request: LeaderAndIsrRequest, ctx: RequestContext, on: Services
) -> LeaderAndIsrResponse:
    member = await _member(on)
    async with member.turn:
        return await _leader_and_isr(request, ctx, member, on)


async def _leader_and_isr(
    request: LeaderAndIsrRequest, ctx: RequestContext, member: ClusterMember, on: Services
) -> LeaderAndIsrResponse:
    refusal = _refusal(request, member, on)
    if refusal is not None:
        return LeaderAndIsrResponse(error_code=refusal)
    rows = list(_roles(request))
    known = {replica.partition.topic_partition for replica in on.replicas}
    strange = {role.topic_partition.topic for role in rows if role.topic_partition not in known}
    if strange:
        # A log is made with its topic's own settings, and not while everybody waits.
        await member.learn_topics(strange)
        await on.replicas.prepare(rows)
        refusal = _refusal(request, member, on)
        if refusal is not None:
            return LeaderAndIsrResponse(error_code=refusal)
    member.view.heard(request.controller_epoch)
    log.info(
        "[Broker id=%d] Handling LeaderAndIsr request from controller %d epoch %d for "
        "%d partitions",
        *(on.node_id, request.controller_id, request.controller_epoch, len(rows)),
    )
    if request.type == FULL:
        _lay_down(on, {role.topic_partition for role in rows})
    errors: dict[TopicPartition, Error] = {}
    for first in range(0, len(rows), ROLES_AT_ONCE):
        if first:
            # Clients get their turn, and perhaps another controller.
            await asyncio.sleep(0)
            refusal = _refusal(request, member, on)
            if refusal is not None:
                # The roles of the slices before are taken: whoever goes by them must hear of it.
                member.publish(member.view.image)
                return LeaderAndIsrResponse(error_code=refusal)
        errors |= on.replicas.take_roles(rows[first : first + ROLES_AT_ONCE])
    member.publish(member.view.image)
    return _leader_and_isr_response(rows, errors, ctx.api_version)


def _lay_down(on: Services, kept: Collection[TopicPartition]) -> None:
    """Roles that the controller does not know of any more: they went while this broker was away.
    The logs stay until somebody says that they are to go."""
    held = [replica.partition.topic_partition for replica in on.replicas]
    stops = [Stop(place, EPOCH_OF_DELETION, False) for place in held if place not in kept]
    if stops:
        log.warning(
            "[Broker id=%d] The controller does not name %d replicas that are here, the first is "
            "%s: they are not served any more",
            *(on.node_id, len(stops), stops[0].topic_partition),
        )
        on.replicas.stop(stops)


def _roles(request: LeaderAndIsrRequest) -> Iterable[Role]:
    for row in request.ungrouped_partition_states:
        yield _role(row.topic_name, NO_TOPIC_ID, row)
    for topic in request.topic_states:
        for row in topic.partition_states:
            yield _role(topic.topic_name, topic.topic_id, row)


def _role(topic: str, topic_id: TopicId, row: LeaderAndIsrPartitionState) -> Role:
    image = PartitionImage(
        row.leader,
        row.leader_epoch,
        tuple(row.replicas),
        tuple(row.isr),
        row.partition_epoch,
        tuple(row.adding_replicas),
        tuple(row.removing_replicas),
    )
    return Role(TopicPartition(topic, row.partition_index), topic_id, image, row.is_new)


def _leader_and_isr_response(
    roles: Iterable[Role], errors: dict[TopicPartition, Error], version: int
) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse(partition_errors=[], topics=[])
    topics: dict[str, LeaderAndIsrTopicError] = {}
    for role in roles:
        name, partition = role.topic_partition
        row = LeaderAndIsrPartitionError(
            topic_name=name,
            partition_index=partition,
            error_code=errors[role.topic_partition],
        )
        if version < TOPIC_IDS_SINCE:
            response.partition_errors.append(row)
            continue
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = LeaderAndIsrTopicError(
                topic_id=role.topic_id, partition_errors=[]
            )
        topic.partition_errors.append(row)
    response.topics = list(topics.values())
    return response


async def stop_replica(
    request: StopReplicaRequest, ctx: RequestContext, on: Services
) -> StopReplicaResponse:
    member = await _member(on)
    async with member.turn:
        refusal = _refusal(request, member, on)
        if refusal is not None:
            return StopReplicaResponse(error_code=refusal)
        member.view.heard(request.controller_epoch)
        stops = list(_stops(request))
        log.info(
            "[Broker id=%d] Handling StopReplica request from controller %d epoch %d for "
            "%d partitions",
            *(on.node_id, request.controller_id, request.controller_epoch, len(stops)),
        )
        errors: dict[TopicPartition, Error] = {}
        for first in range(0, len(stops), ROLES_AT_ONCE):
            if first:
                await asyncio.sleep(0)
                refusal = _refusal(request, member, on)
                if refusal is not None:
                    # The controller that follows asks again for what is not deleted yet.
                    break
            errors |= on.replicas.stop(stops[first : first + ROLES_AT_ONCE])
        member.publish(member.view.image)
        if refusal is not None:
            return StopReplicaResponse(error_code=refusal)
    return StopReplicaResponse(
        partition_errors=[
            StopReplicaPartitionError(
                topic_name=place.topic, partition_index=place.partition, error_code=error
            )
            for place, error in errors.items()
        ]
    )


def _stops(request: StopReplicaRequest) -> Iterable[Stop]:
    deletes = request.delete_partitions
    for row in request.ungrouped_partitions:
        yield Stop(TopicPartition(row.topic_name, row.partition_index), NO_EPOCH, deletes)
    for older in request.topics:
        for index in older.partition_indexes:
            yield Stop(TopicPartition(older.name, index), NO_EPOCH, deletes)
    for topic in request.topic_states:
        for state in topic.partition_states:
            place = TopicPartition(topic.topic_name, state.partition_index)
            yield Stop(place, state.leader_epoch, state.delete_partition)


async def update_metadata(
    request: UpdateMetadataRequest, ctx: RequestContext, on: Services
) -> UpdateMetadataResponse:
    member = await _member(on)
    async with member.turn:
        refusal = _refusal(request, member, on)
        if refusal is not None:
            return UpdateMetadataResponse(error_code=refusal)
        is_first = request.type == FULL and not member.view.image.topics
        strange = set() if is_first else _strange_topics(request, member.view.image)
        if is_first or strange:
            # Whoever has no replica of a topic is asked for its settings as well. A broker that
            # has just begun has read all but those of the last moment.
            await (member.learn_late_topics() if is_first else member.learn_topics(strange))
            refusal = _refusal(request, member, on)
            if refusal is not None:
                return UpdateMetadataResponse(error_code=refusal)
        member.publish(member.view.update_metadata(request))
    return UpdateMetadataResponse()


def _strange_topics(request: UpdateMetadataRequest, image: ClusterImage) -> set[str]:
    """New ones, or made anew."""
    known = image.topics
    return {
        name
        for name, topic_id in _told_topics(request).items()
        if name not in known or topic_id not in (known[name].id, NO_TOPIC_ID)
    }


def _told_topics(request: UpdateMetadataRequest) -> dict[str, TopicId]:
    """Those that are not being deleted."""
    told = {
        row.topic_name: NO_TOPIC_ID
        for row in request.ungrouped_partition_states
        if row.leader != LEADER_DURING_DELETE
    }
    for topic in request.topic_states:
        if any(row.leader != LEADER_DURING_DELETE for row in topic.partition_states):
            told[topic.topic_name] = topic.topic_id
    return told


async def _member(on: Services) -> ClusterMember:
    if on.member is None:
        raise ApiError(Error.UNSUPPORTED_VERSION, "this broker stands alone, nobody controls it")
    await on.member.registered()
    return on.member


def _refusal(request: Request, member: ClusterMember, on: Services) -> Error | None:
    if NO_BROKER_EPOCH < request.broker_epoch < member.broker_epoch:
        # A newer one than ours is possible: the controller may hear of a registration first.
        error = Error.STALE_BROKER_EPOCH
    elif member.view.is_stale(request.controller_epoch):
        error = Error.STALE_CONTROLLER_EPOCH
    else:
        return None
    log.warning(
        "[Broker id=%d] Ignoring %s from controller %d with epoch %d and broker epoch %d: %s; the "
        "newest controller epoch is %d and this broker's epoch %d",
        *(on.node_id, type(request).__name__, request.controller_id, request.controller_epoch),
        *(request.broker_epoch, error.name, member.view.controller_epoch, member.broker_epoch),
    )
    return error
