"""What requests about topics need: each denied topic gets its row, whether or not it exists."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.handlers.access.row_guards import (
    allowed_bits,
    may,
    may_with_cluster,
    rows,
    topic_judge,
    topic_names,
)
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.handlers.topic_data.metadata import TOPIC_IDS_SINCE, needs_topic_ids
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID
from moldau.security.acl.acl_model import CLUSTER_NAME, Operation, ResourceType
from moldau.wire.messages import metadata as metadata_messages
from moldau.wire.messages import offsets, topics
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from moldau.handlers.services import Services

TOPIC = ResourceType.TOPIC
DENIED = Error.TOPIC_AUTHORIZATION_FAILED
AUTHORIZATION_FAILED = "Authorization failed."


def _listed(row: Any, error: Error) -> offsets.ListOffsetsTopicResponse:
    return offsets.ListOffsetsTopicResponse(
        name=row.name,
        partitions=[
            offsets.ListOffsetsPartitionResponse(
                partition_index=each.partition_index, error_code=error
            )
            for each in row.partitions
        ],
    )


def _not_deleted(row: Any, error: Error) -> topics.DeleteRecordsTopicResult:
    return topics.DeleteRecordsTopicResult(
        name=row.name,
        partitions=[
            topics.DeleteRecordsPartitionResult(
                partition_index=each.partition_index, low_watermark=-1, error_code=error
            )
            for each in row.partitions
        ],
    )


def _no_epoch(row: Any, error: Error) -> offsets.OffsetForLeaderTopicResult:
    return offsets.OffsetForLeaderTopicResult(
        topic=row.topic,
        partitions=[
            offsets.EpochEndOffset(partition=each.partition, error_code=error)
            for each in row.partitions
        ],
    )


guard_list_offsets = rows("topics", "topics", topic_judge(Operation.DESCRIBE), _listed)
guard_delete_records = rows("topics", "topics", topic_judge(Operation.DELETE), _not_deleted)
_guard_leader_epochs = rows("topics", "topics", topic_judge(Operation.DESCRIBE), _no_epoch)
guard_create_partitions = rows(
    "topics",
    "results",
    topic_judge(Operation.ALTER),
    lambda row, error: topics.CreatePartitionsTopicResult(name=row.name, error_code=error),
)
_guard_creation = rows(
    "topics",
    "topics",
    topic_judge(Operation.CREATE),
    lambda row, error: topics.CreatableTopicResult(
        name=row.name, error_code=error, error_message=AUTHORIZATION_FAILED
    ),
)


async def guard_leader_epochs(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if may_with_cluster(ctx, on, Operation.CLUSTER_ACTION, logs_denial=False):
        return await serve(request, ctx, on)
    return await _guard_leader_epochs(serve, request, ctx, on)


async def guard_create_topics(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    names = dict.fromkeys(row.name for row in request.topics)
    may_all = may_with_cluster(ctx, on, Operation.CREATE, logs_denial=False)
    response = await (serve if may_all else partial(_guard_creation, serve))(request, ctx, on)
    shown = {
        name: may(ctx, on, Operation.DESCRIBE_CONFIGS, TOPIC, name, logs_denial=False)
        for name in names
    }
    for row in response.topics:
        if row.error_code == Error.NONE and not shown.get(row.name, False):
            row.configs = []
            row.num_partitions = row.replication_factor = -1
            row.topic_config_error_code = DENIED
    return response


async def guard_delete_topics(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    may_all = may_with_cluster(ctx, on, Operation.DELETE, logs_denial=False)
    field = "topics" if request.topics else "topic_names"
    names = [name for row in getattr(request, field) for name in topic_names(row, on) if name]
    shown = {
        name: may_all or may(ctx, on, Operation.DESCRIBE, TOPIC, name)
        for name in dict.fromkeys(names)
    }
    if may_all:
        return await serve(request, ctx, on)

    def denied(row: Any, error: Error) -> topics.DeletableTopicResult:
        if isinstance(row, str):
            return topics.DeletableTopicResult(
                name=row, error_code=error, error_message=error.sentence
            )
        name = (topic_names(row, on) or [""])[-1]
        is_by_id = not row.name
        may_see = not is_by_id or shown.get(name, False)
        return topics.DeletableTopicResult(
            name=name if may_see else None,
            topic_id=row.topic_id,
            error_code=error,
            error_message=error.sentence,
        )

    judge = topic_judge(Operation.DELETE)
    return await rows(field, "responses", judge, denied)(serve, request, ctx, on)


async def guard_metadata(
    serve: Handler, request: MetadataRequest, ctx: RequestContext, on: Services
) -> MetadataResponse:
    asked = request.topics
    hidden: list[MetadataResponseTopic] = []
    is_refused = ctx.api_version < TOPIC_IDS_SINCE and any(map(needs_topic_ids, asked or ()))
    if asked and not is_refused:
        request.topics = [row for row in asked if _is_shown(row, request, hidden, ctx, on)]
        if not request.topics and ctx.api_version == 0:
            # In the oldest version none means all: ask for a name that cannot be.
            request.topics = [metadata_messages.MetadataRequestTopic(name="")]
            response: MetadataResponse = await serve(request, ctx, on)
            response.topics = []
        else:
            response = await serve(request, ctx, on)
    else:
        response = await serve(request, ctx, on)
        response.topics = [
            row
            for row in response.topics
            if row.error_code != Error.NONE
            or may(ctx, on, Operation.DESCRIBE, TOPIC, row.name or "", logs_denial=False)
        ]
    if request.include_topic_authorized_operations:
        for row in response.topics:
            if row.name:
                row.topic_authorized_operations = allowed_bits(ctx, on, TOPIC, row.name)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_bits(ctx, on)
    response.topics += hidden
    return response


def cluster_bits(ctx: RequestContext, on: Services) -> int:
    if not may_with_cluster(ctx, on, Operation.DESCRIBE):
        return 0
    return allowed_bits(ctx, on, ResourceType.CLUSTER, CLUSTER_NAME)


def _is_shown(
    row: Any,
    request: MetadataRequest,
    hidden: list[MetadataResponseTopic],
    ctx: RequestContext,
    on: Services,
) -> bool:
    may_see = topic_judge(Operation.DESCRIBE)(row, request, ctx, on) is None
    is_by_id = row.topic_id != NO_TOPIC_ID
    if may_see and (is_by_id or _may_be_created(row.name or "", request, ctx, on)):
        return True
    denied = MetadataResponseTopic(error_code=DENIED, name=None if is_by_id else row.name)
    denied.topic_id = row.topic_id
    hidden.append(denied)
    return False


def _may_be_created(name: str, request: MetadataRequest, ctx: RequestContext, on: Services) -> bool:
    """Asking for a topic that is not there may create it."""
    creates = request.allow_auto_topic_creation and on.config.auto_create_topics_enable
    return (
        name in on.image().topics
        or not creates
        or may_with_cluster(ctx, on, Operation.CREATE, logs_denial=False)
        or may(ctx, on, Operation.CREATE, TOPIC, name)
    )


async def guard_topic_partitions(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    names = [row.name for row in request.topics] or sorted(on.image().topics)
    is_named = bool(request.topics)
    shown = [name for name in names if may(ctx, on, Operation.DESCRIBE, TOPIC, name)]
    is_first_page = request.cursor is None
    response = metadata_messages.DescribeTopicPartitionsResponse()
    if shown:
        request.topics = [metadata_messages.TopicRequest(name=name) for name in shown]
        if request.cursor is not None and request.cursor.topic_name not in shown:
            # It has been deleted, or may not be seen any more: go on behind it.
            request.topics.append(metadata_messages.TopicRequest(name=request.cursor.topic_name))
        response = await serve(request, ctx, on)
        response.topics = [row for row in response.topics if row.name in shown]
        for row in response.topics:
            row.topic_authorized_operations = allowed_bits(ctx, on, TOPIC, row.name or "")
    if is_named and is_first_page:
        response.topics += [
            metadata_messages.DescribeTopicPartitionsResponseTopic(error_code=DENIED, name=name)
            for name in names
            if name not in shown
        ]
    return response


async def guard_describe_cluster(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    response = await serve(request, ctx, on)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_bits(ctx, on)
    return response
