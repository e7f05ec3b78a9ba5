"""Whether a request comes from a member of the group, and from its current generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.model.errors import Error

if TYPE_CHECKING:
    from moldau.groups.classic.classic_group import ClassicGroup


def identity_error(group: ClassicGroup, member_id: str, instance_id: str | None) -> Error:
    if instance_id is not None:
        current = group.static_members.get(instance_id)
        if current is None:
            return Error.UNKNOWN_MEMBER_ID
        if current != member_id:
            # A second process uses the same instance id, and came later.
            return Error.FENCED_INSTANCE_ID
    return Error.NONE if member_id in group.members else Error.UNKNOWN_MEMBER_ID


def generation_error(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> Error:
    error = identity_error(group, member_id, instance_id)
    if error is Error.NONE and generation != group.generation:
        return Error.ILLEGAL_GENERATION
    return error
