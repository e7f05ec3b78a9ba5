"""A group as Kafka printed it up to 3.x: `GroupMetadata(groupId=..., ...)`."""

from __future__ import annotations

from typing import Any


def group_text(group: str, value: Any) -> str:
    if value is None:
        return "NULL"
    members = ", ".join(
        f"{member.member_id} -> {member_text(member, value.protocol)}" for member in value.members
    )
    return (
        f"GroupMetadata(groupId={group}, generation={value.generation},"
        f" protocolType={some(value.protocol_type)},"
        f" currentState={'Stable' if value.members else 'Empty'}, members=HashMap({members}))"
    )


def member_text(member: Any, protocol: str | None) -> str:
    return (
        f"MemberMetadata(memberId={member.member_id},"
        f" groupInstanceId={some(member.group_instance_id)}, clientId={member.client_id},"
        f" clientHost={member.client_host}, sessionTimeoutMs={member.session_timeout},"
        f" rebalanceTimeoutMs={member.rebalance_timeout}, supportedProtocols=List({protocol}))"
    )


def some(text: str | None) -> str:
    return f"Some({text})" if text else "None"
