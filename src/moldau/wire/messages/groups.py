"""The classic group protocol: finding the coordinator, joining, syncing, staying, leaving.

FindCoordinator asks for one `key` up to version 3 and for several `coordinator_keys` from 4 on.
Subscriptions and assignments are bytes here; `consumer_protocol.py` says what is in them.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    Struct,
    array,
    blob,
    boolean,
    int8,
    int16,
    int32,
    string,
)


class FindCoordinatorRequest(Message, versions="0-6", flexible="3+"):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default="")


class FindCoordinatorResponse(Message, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = blob()


class JoinGroupRequest(Message, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+")
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+")


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+")
    metadata: bytes = blob()


class JoinGroupResponse(Message, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+")
    protocol_name: str | None = string(nullable="7+", default="")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = blob()


class SyncGroupRequest(Message, versions="0-5", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+")
    protocol_type: str | None = string("5+", nullable="5+")
    protocol_name: str | None = string("5+", nullable="5+")
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+")
    protocol_name: str | None = string("5+", nullable="5+")
    assignment: bytes = blob()


class HeartbeatRequest(Message, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+")


class HeartbeatResponse(Message, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    reason: str | None = string("5+", nullable="5+")


class LeaveGroupRequest(Message, versions="0-5", flexible="4+"):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default="")
    error_code: int = int16()


class LeaveGroupResponse(Message, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
