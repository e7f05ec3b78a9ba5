"""DescribeGroups, ListGroups and DeleteGroups: groups seen from outside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.coordinators.coordinator_errors import told_to_client
from moldau.groups import group_results
from moldau.groups.classic.classic_group import State
from moldau.groups.group_commands import DeleteGroup, DescribeGroup, ListGroups
from moldau.handlers.authorized_operations import (
    ALTER_CONFIGS,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    bit_field,
)
from moldau.handlers.request_slices import in_turns
from moldau.model.errors import ApiError, Error
from moldau.wire.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from moldau.handlers.request_context import RequestContext
    from moldau.handlers.services import Services

GROUP_OPERATIONS: Final = bit_field(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
NOT_FOUND_SINCE = 6
"""The version of DescribeGroups from which an unknown group is an error, not a dead group."""


async def describe_groups(
    request: DescribeGroupsRequest, ctx: RequestContext, on: Services
) -> DescribeGroupsResponse:
    group_ids = list(dict.fromkeys(request.groups))
    begun = [
        (group_id, on.groups.submit(group_id, DescribeGroup(group_id)))
        async for group_id in in_turns(group_ids, on.clock)
    ]
    deadline_ms = on.groups.deadline()
    rows = [
        await _described(group_id, on.groups.stored(future, deadline_ms), ctx)
        async for group_id, future in in_turns(begun, on.clock)
    ]
    if request.include_authorized_operations:
        for row in rows:
            if row.error_code == Error.NONE:
                row.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=rows)


async def _described(
    group_id: str, outcome: Awaitable[group_results.DescribedGroup], ctx: RequestContext
) -> DescribedGroup:
    try:
        group = await outcome
    except ApiError as refusal:
        if refusal.error is not Error.GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, error_code=told_to_client(refusal.error))
        if ctx.api_version < NOT_FOUND_SINCE:
            return DescribedGroup(group_id=group_id, group_state=State.DEAD)
        return DescribedGroup(
            group_id=group_id,
            group_state=State.DEAD,
            error_code=refusal.error,
            error_message=refusal.message,
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )


async def list_groups(
    request: ListGroupsRequest, ctx: RequestContext, on: Services
) -> ListGroupsResponse:
    if on.groups.is_loading:
        return ListGroupsResponse(error_code=Error.COORDINATOR_LOAD_IN_PROGRESS)
    command = ListGroups(
        frozenset(state.lower() for state in request.states_filter),
        frozenset(kind.lower() for kind in request.types_filter),
    )
    begun = [on.groups.submit_to(partition, command) for partition in on.groups.partitions()]
    deadline_ms = on.groups.deadline()
    found: list[ListedGroup] = []
    for future in begun:
        try:
            rows = await on.groups.stored(future, deadline_ms)
        except ApiError as refusal:
            if refusal.error is Error.NOT_COORDINATOR:
                # Led elsewhere since a moment ago: that broker lists these groups.
                continue
            return ListGroupsResponse(error_code=told_to_client(refusal.error))
        found += [
            ListedGroup(
                group_id=row.group_id,
                protocol_type=row.protocol_type,
                group_state=row.state,
                group_type=row.type,
            )
            async for row in in_turns(rows, on.clock)
        ]
    return ListGroupsResponse(groups=found)


async def delete_groups(
    request: DeleteGroupsRequest, ctx: RequestContext, on: Services
) -> DeleteGroupsResponse:
    group_ids = list(dict.fromkeys(request.groups_names))
    begun = [
        (group_id, on.groups.submit(group_id, DeleteGroup(group_id)))
        async for group_id in in_turns(group_ids, on.clock)
    ]
    deadline_ms = on.groups.deadline()
    rows = []
    async for group_id, future in in_turns(begun, on.clock):
        error = Error.NONE
        try:
            while not await on.groups.stored(future, deadline_ms):
                await asyncio.sleep(0)  # it had very many offsets: others have a turn
                future = on.groups.submit(group_id, DeleteGroup(group_id))
        except ApiError as refusal:
            error = told_to_client(refusal.error)
        rows.append(DeletableGroupResult(group_id=group_id, error_code=error))
    return DeleteGroupsResponse(results=rows)
