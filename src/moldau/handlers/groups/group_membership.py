"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: members of the classic group protocol.

Requests become commands for the shard that coordinates the group, and results become responses.
Joins and syncs may wait there for other members for as long as a rebalance may take.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from moldau.coordinators.coordinator_errors import told_to_client
from moldau.groups.group_commands import Heartbeat, JoinGroup, LeaveGroup, Leaver, SyncGroup
from moldau.groups.group_facts import Protocol
from moldau.groups.group_results import JoinResult, LeaveResult, SyncResult
from moldau.model.errors import ApiError, Error
from moldau.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from moldau.wire.primitives import TEXT_BYTES_MAX

if TYPE_CHECKING:
    from moldau.handlers.request_context import RequestContext
    from moldau.handlers.services import Services

REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9
PROTOCOL_REQUIRED_SINCE = 5
"""The version of SyncGroup from which clients say which protocol they sync."""
MEMBER_ROWS_SINCE = 3
"""The version of LeaveGroup from which several members may leave, with an answer each."""


async def join_group(
    request: JoinGroupRequest, ctx: RequestContext, on: Services
) -> JoinGroupResponse:
    if not request.group_id:
        return no_member(Error.INVALID_GROUP_ID, request.member_id, ctx)
    told_bytes = sum(len(each.name) + len(each.metadata) for each in request.protocols)
    if told_bytes > on.config.message_max_bytes:
        # The group could never be stored; Kafka says the same when it tries.
        return no_member(Error.UNKNOWN_SERVER_ERROR, request.member_id, ctx)
    command = _join_command(request, ctx, on)
    if len(command.new_member_id.encode()) > TEXT_BYTES_MAX:
        # Nobody could be told this id.
        return no_member(Error.UNKNOWN_SERVER_ERROR, request.member_id, ctx)
    try:
        result = await on.groups.submit(request.group_id, command)
    except ApiError as refusal:
        result = JoinResult(told_to_client(refusal.error), request.member_id)
    return _join_response(result, ctx)


def _join_command(request: JoinGroupRequest, ctx: RequestContext, on: Services) -> JoinGroup:
    version, client_id = ctx.api_version, ctx.client_id or ""
    session_timeout_ms = request.session_timeout_ms
    return JoinGroup(
        request.group_id,
        request.member_id,
        new_member_id(request.group_instance_id or client_id),
        request.group_instance_id,
        client_id,
        f"/{ctx.client_host}",
        session_timeout_ms,
        # The first version had one time-out for both.
        session_timeout_ms if version < REBALANCE_TIMEOUT_SINCE else request.rebalance_timeout_ms,
        request.protocol_type,
        tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        request.reason,
        member_id_required=version >= MEMBER_ID_REQUIRED_SINCE,
        knows_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
    )


def new_member_id(name: str) -> str:
    """The name and a random UUID, as people find it in logs and tools."""
    drawn = bytearray(os.urandom(16))
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    text = drawn.hex()
    return f"{name}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _join_response(result: JoinResult, ctx: RequestContext) -> JoinGroupResponse:
    no_protocol = None if ctx.api_version >= NULL_PROTOCOL_SINCE else ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=no_protocol if result.protocol is None else result.protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )


def no_member(error: Error, member_id: str, ctx: RequestContext) -> JoinGroupResponse:
    """The answer to a join that did not come to the group."""
    return _join_response(JoinResult(error, member_id), ctx)


def lacks_protocol(request: SyncGroupRequest, ctx: RequestContext) -> bool:
    return ctx.api_version >= PROTOCOL_REQUIRED_SINCE and None in (
        request.protocol_type,
        request.protocol_name,
    )


async def sync_group(
    request: SyncGroupRequest, ctx: RequestContext, on: Services
) -> SyncGroupResponse:
    if lacks_protocol(request, ctx):
        return SyncGroupResponse(error_code=Error.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return SyncGroupResponse(error_code=Error.INVALID_GROUP_ID)
    command = SyncGroup(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        {row.member_id: row.assignment for row in request.assignments},
    )
    try:
        result = await on.groups.submit(request.group_id, command)
    except ApiError as refusal:
        result = SyncResult(told_to_client(refusal.error))
    return SyncGroupResponse(
        error_code=told_to_client(result.error),
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )


async def heartbeat(
    request: HeartbeatRequest, ctx: RequestContext, on: Services
) -> HeartbeatResponse:
    if not request.group_id:
        return HeartbeatResponse(error_code=Error.INVALID_GROUP_ID)
    command = Heartbeat(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
    )
    try:
        await on.groups.stored(on.groups.submit(request.group_id, command))
    except ApiError as refusal:
        return HeartbeatResponse(error_code=told_to_client(refusal.error))
    return HeartbeatResponse()


async def leave_group(
    request: LeaveGroupRequest, ctx: RequestContext, on: Services
) -> LeaveGroupResponse:
    if not request.group_id:
        return LeaveGroupResponse(error_code=Error.INVALID_GROUP_ID)
    asked = request.members
    if ctx.api_version < MEMBER_ROWS_SINCE:
        asked = [MemberIdentity(member_id=request.member_id)]
    leavers = tuple(Leaver(row.member_id, row.group_instance_id, row.reason) for row in asked)
    command = LeaveGroup(request.group_id, leavers)
    try:
        rows = await on.groups.stored(on.groups.submit(request.group_id, command))
    except ApiError as refusal:
        return LeaveGroupResponse(error_code=told_to_client(refusal.error))
    return _leave_response(rows, ctx)


def _leave_response(rows: tuple[LeaveResult, ...], ctx: RequestContext) -> LeaveGroupResponse:
    if ctx.api_version < MEMBER_ROWS_SINCE:
        return LeaveGroupResponse(error_code=rows[0].error)
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=row.member_id, group_instance_id=row.instance_id, error_code=row.error
            )
            for row in rows
        ]
    )
