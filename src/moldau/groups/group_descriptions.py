"""Groups as outsiders see them: described one by one, or listed."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.groups.classic.classic_group import ClassicGroup, State
from moldau.groups.group import Group
from moldau.groups.group_commands import ListGroups
from moldau.groups.group_results import DescribedGroup, DescribedMember, ListedGroup


def described(group: ClassicGroup) -> DescribedGroup:
    # Between two generations nobody can say which protocol, and so which metadata, will count.
    protocol = group.protocol if group.state is State.STABLE else None
    return DescribedGroup(
        group.group_id,
        group.state,
        group.protocol_type or "",
        protocol or "",
        tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(protocol) or b"",
                member.assignment,
            )
            for member in group.members.values()
        ),
    )


def listed(groups: Iterable[Group], command: ListGroups) -> tuple[ListedGroup, ...]:
    return tuple(
        ListedGroup(group.group_id, group.protocol_type or "", group.state_name, group.type_name)
        for group in groups
        if (not command.types or group.type_name in command.types)
        and (not command.states or group.state_name.lower() in command.states)
    )
