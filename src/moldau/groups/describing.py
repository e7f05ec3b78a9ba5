"""Groups as outsiders see them: described one by one, or listed."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.groups.classic import ClassicGroup, State
from moldau.groups.commands import ListGroups
from moldau.groups.results import DescribedGroup, DescribedMember, ListedGroup

CLASSIC_TYPE = "classic"


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


def listed(groups: Iterable[ClassicGroup], command: ListGroups) -> tuple[ListedGroup, ...]:
    if command.types and CLASSIC_TYPE not in command.types:
        return ()
    return tuple(
        ListedGroup(group.group_id, group.protocol_type or "", group.state, CLASSIC_TYPE)
        for group in groups
        if not command.states or group.state.lower() in command.states
    )
