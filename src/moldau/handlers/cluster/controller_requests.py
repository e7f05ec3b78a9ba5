"""What brokers ask of the controller: AlterPartition, ControlledShutdown, AllocateProducerIds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.controller.cluster_commands import AlterPartition, ControlledShutdown, IsrChange
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from moldau.wire.messages.partitions import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from moldau.wire.messages.replication import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from moldau.cluster.cluster_controller import ClusterController

TOPIC_IDS_SINCE = 2
BROKER_EPOCHS_SINCE = 3
RECOVERING = 1


async def alter_partition(
    request: AlterPartitionRequest, ctx: RequestContext, on: Services
) -> AlterPartitionResponse:
    controller = _controller(on)
    version = ctx.api_version
    try:
        names = [_name_of(topic, version, controller) for topic in request.topics]
        changes = [
            _change(name, row, version)
            for topic, name in zip(request.topics, names, strict=True)
            if name is not None
            for row in topic.partitions
        ]
        command = AlterPartition(
            request.broker_id, request.broker_epoch, tuple(changes), version >= TOPIC_IDS_SINCE
        )
        rows = await controller.alter_partition(command)
    except ApiError as refusal:
        return AlterPartitionResponse(error_code=refusal.error)
    outcomes = dict(zip((change.place for change in changes), rows, strict=True))
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopic(
                topic_id=topic.topic_id,
                topic_name=topic.topic_name,
                partitions=[
                    _outcome(
                        row.partition_index,
                        ApiError(Error.UNKNOWN_TOPIC_ID)
                        if name is None
                        else outcomes[TopicPartition(name, row.partition_index)],
                    )
                    for row in topic.partitions
                ],
            )
            for topic, name in zip(request.topics, names, strict=True)
        ]
    )


def _name_of(
    topic: AlterPartitionRequestTopic, version: int, controller: ClusterController
) -> str | None:
    return topic.topic_name if version < TOPIC_IDS_SINCE else controller.name_of(topic.topic_id)


def _change(name: str, row: AlterPartitionRequestPartition, version: int) -> IsrChange:
    has_epochs = version >= BROKER_EPOCHS_SINCE
    members: Sequence[int] = (
        [member.broker_id for member in row.new_isr_with_epochs] if has_epochs else row.new_isr
    )
    epochs = [member.broker_epoch for member in row.new_isr_with_epochs] if has_epochs else []
    return IsrChange(
        TopicPartition(name, row.partition_index),
        row.leader_epoch,
        row.partition_epoch,
        tuple(members),
        tuple(epochs),
        row.leader_recovery_state == RECOVERING,
    )


def _outcome(number: int, row: PartitionImage | ApiError) -> AlterPartitionResponsePartition:
    if isinstance(row, ApiError):
        return AlterPartitionResponsePartition(partition_index=number, error_code=row.error)
    return AlterPartitionResponsePartition(
        partition_index=number,
        leader_id=row.leader,
        leader_epoch=row.leader_epoch,
        isr=list(row.isr),
        partition_epoch=row.partition_epoch,
    )


async def controlled_shutdown(
    request: ControlledShutdownRequest, ctx: RequestContext, on: Services
) -> ControlledShutdownResponse:
    command = ControlledShutdown(request.broker_id, request.broker_epoch)
    try:
        remaining = await _controller(on).controlled_shutdown(command)
    except ApiError as refusal:
        return ControlledShutdownResponse(error_code=refusal.error)
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=place.topic, partition_index=place.partition)
            for place in remaining
        ]
    )


async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, ctx: RequestContext, on: Services
) -> AllocateProducerIdsResponse:
    controller = _controller(on)
    try:
        controller.check_broker(request.broker_id, request.broker_epoch)
        ids = await controller.allocate_producer_ids(request.broker_id)
    except ApiError as refusal:
        return AllocateProducerIdsResponse(error_code=refusal.error)
    return AllocateProducerIdsResponse(producer_id_start=ids.start, producer_id_len=len(ids))


def _controller(on: Services) -> ClusterController:
    """These are served in a cluster only."""
    assert on.member is not None, "a broker that stands alone does not serve this"
    return on.member.controller
