"""What requests about groups and their offsets need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.handlers.access.row_guards import (
    allowed_bits,
    may,
    may_with_cluster,
    named_judge,
    rows,
    topic_judge,
    topic_names,
)
from moldau.handlers.groups.group_membership import lacks_protocol, no_member
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.model.errors import ApiError, Error
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.wire.messages import group_admin, group_offsets, groups

if TYPE_CHECKING:
    from moldau.handlers.services import Services

GROUP = ResourceType.GROUP
TOPIC = ResourceType.TOPIC
DENIED = Error.GROUP_AUTHORIZATION_FAILED
SEVERAL_SINCE = 8
ERROR_SINCE = 2
"""The version of OffsetFetch from which the whole answer has an error."""
KEYS_SINCE = 4
GROUP_KEY, TRANSACTION_KEY = 0, 1


def _judge_group(row: Any, request: Any, ctx: RequestContext, on: Services) -> Error | None:
    return None if may(ctx, on, Operation.READ, GROUP, request.group_id) else DENIED


def _not_committed(row: Any, error: Error) -> group_offsets.OffsetCommitResponseTopic:
    return group_offsets.OffsetCommitResponseTopic(
        name=row.name,
        topic_id=row.topic_id,
        partitions=[
            group_offsets.OffsetCommitResponsePartition(
                partition_index=each.partition_index, error_code=error
            )
            for each in row.partitions
        ],
    )


guard_offset_commit = rows(
    "topics", "topics", topic_judge(Operation.READ), _not_committed, first=_judge_group
)
_guard_deleted_topics = rows(
    "topics",
    "topics",
    topic_judge(Operation.READ),
    lambda row, error: group_offsets.OffsetDeleteResponseTopic(
        name=row.name,
        partitions=[
            group_offsets.OffsetDeleteResponsePartition(
                partition_index=each.partition_index, error_code=error
            )
            for each in row.partitions
        ],
    ),
)


async def guard_offset_delete(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if not may(ctx, on, Operation.DELETE, GROUP, request.group_id):
        raise ApiError(DENIED)
    return await _guard_deleted_topics(serve, request, ctx, on)


async def guard_offset_fetch(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if ctx.api_version < SEVERAL_SINCE:
        return await _guard_one_fetch(serve, request, ctx, on)
    denied, hidden = [], {}
    allowed = []
    for group in request.groups:
        if may(ctx, on, Operation.DESCRIBE, GROUP, group.group_id):
            hidden[group.group_id] = _take_out(group, ctx, on)
            allowed.append(group)
        else:
            row = group_offsets.OffsetFetchResponseGroup(group_id=group.group_id)
            row.error_code = DENIED
            denied.append(row)
    asked_all = {group.group_id for group in allowed if group.topics is None}
    request.groups = allowed
    response = group_offsets.OffsetFetchResponse()
    if allowed:
        response = await serve(request, ctx, on)
    for answered in response.groups:
        if answered.group_id in asked_all:
            answered.topics = [row for row in answered.topics if _may_see(row, ctx, on)]
        answered.topics += [
            group_offsets.OffsetFetchResponseTopics(
                name=row.name, topic_id=row.topic_id, partitions=_unknown_offsets(row, newer=True)
            )
            for row in hidden.get(answered.group_id, ())
            if answered.error_code == Error.NONE
        ]
    response.groups += denied
    return response


async def _guard_one_fetch(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
    if not may(ctx, on, Operation.DESCRIBE, GROUP, request.group_id):
        response = group_offsets.OffsetFetchResponse(error_code=DENIED)
        if ctx.api_version < ERROR_SINCE:
            response.topics = [
                group_offsets.OffsetFetchResponseTopic(
                    name=row.name, partitions=_unknown_offsets(row, error=DENIED)
                )
                for row in request.topics or ()
            ]
        return response
    is_all = request.topics is None
    hidden = _take_out(request, ctx, on)
    response = await serve(request, ctx, on)
    if is_all:
        response.topics = [row for row in response.topics if _may_see(row, ctx, on)]
    response.topics += [
        group_offsets.OffsetFetchResponseTopic(name=row.name, partitions=_unknown_offsets(row))
        for row in hidden
    ]
    return response


def _may_see(row: Any, ctx: RequestContext, on: Services) -> bool:
    return all(may(ctx, on, Operation.DESCRIBE, TOPIC, name) for name in topic_names(row, on))


def _take_out(asked: Any, ctx: RequestContext, on: Services) -> list[Any]:
    """The topics that may not be seen, which are not asked for any more."""
    if asked.topics is None:
        return []
    judge = topic_judge(Operation.DESCRIBE)
    denied = [row for row in asked.topics if judge(row, asked, ctx, on) is not None]
    asked.topics = [row for row in asked.topics if all(row is not each for each in denied)]
    return denied


def _unknown_offsets(
    row: Any, *, newer: bool = False, error: Error = Error.TOPIC_AUTHORIZATION_FAILED
) -> list[Any]:
    kind = (
        group_offsets.OffsetFetchResponsePartitions
        if newer
        else group_offsets.OffsetFetchResponsePartition
    )
    return [
        kind(partition_index=index, committed_offset=-1, metadata="", error_code=error)
        for index in row.partition_indexes
    ]


async def guard_find_coordinator(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    kinds = {GROUP_KEY: GROUP, TRANSACTION_KEY: ResourceType.TRANSACTIONAL_ID}
    kind = kinds.get(request.key_type)
    if kind is None:
        if not may_with_cluster(ctx, on, Operation.CLUSTER_ACTION):
            raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED)
        return await serve(request, ctx, on)
    judge = named_judge(Operation.DESCRIBE, kind)
    if ctx.api_version < KEYS_SINCE:
        error = judge(request.key, request, ctx, on)
        if error is not None:
            return groups.FindCoordinatorResponse(
                error_code=error, error_message=error.sentence, node_id=-1, port=-1
            )
        return await serve(request, ctx, on)
    guard = rows(
        "coordinator_keys",
        "coordinators",
        judge,
        lambda key, error: groups.Coordinator(key=key, node_id=-1, port=-1, error_code=error),
    )
    return await guard(serve, request, ctx, on)


_guard_described = rows(
    "groups",
    "groups",
    named_judge(Operation.DESCRIBE, GROUP),
    lambda group_id, error: group_admin.DescribedGroup(group_id=group_id, error_code=error),
)
guard_delete_groups = rows(
    "groups_names",
    "results",
    named_judge(Operation.DELETE, GROUP),
    lambda group_id, error: group_admin.DeletableGroupResult(group_id=group_id, error_code=error),
)


async def guard_describe_groups(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    response = await _guard_described(serve, request, ctx, on)
    if request.include_authorized_operations:
        for row in response.groups:
            if row.error_code == Error.NONE:
                row.authorized_operations = allowed_bits(ctx, on, GROUP, row.group_id)
    return response


async def guard_join(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
    if may(ctx, on, Operation.READ, GROUP, request.group_id):
        return await serve(request, ctx, on)
    return no_member(Error.GROUP_AUTHORIZATION_FAILED, "", ctx)


async def guard_sync(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
    # Kafka looks at what the request lacks first.
    if lacks_protocol(request, ctx):
        raise ApiError(Error.INCONSISTENT_GROUP_PROTOCOL)
    if not may(ctx, on, Operation.READ, GROUP, request.group_id):
        raise ApiError(DENIED)
    return await serve(request, ctx, on)


async def guard_list_groups(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
    response = await serve(request, ctx, on)
    if not may_with_cluster(ctx, on, Operation.DESCRIBE, logs_denial=False):
        response.groups = [
            row
            for row in response.groups
            if may(ctx, on, Operation.DESCRIBE, GROUP, row.group_id, logs_denial=False)
        ]
    return response
