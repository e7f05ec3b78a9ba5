"""How members go: they say so, or an administrator removes them.

Whatever a member that goes was waiting for is answered UNKNOWN_MEMBER_ID, so that one which is
still there joins again.
"""

from __future__ import annotations

from moldau.engine.machine import Token
from moldau.groups import group_facts
from moldau.groups.classic.group_decision import GroupDraft
from moldau.groups.classic.member_identity import identity_error
from moldau.groups.classic.rebalancing import (
    complete_if_all_joined,
    rebalance_or_complete,
)
from moldau.groups.group_commands import NO_MEMBER_ID, LeaveGroup, Leaver
from moldau.groups.group_facts import Removal
from moldau.groups.group_results import LeaveResult
from moldau.model.errors import Error


def leave(draft: GroupDraft, command: LeaveGroup, token: Token) -> None:
    before = draft.group
    rows = [
        LeaveResult(each.member_id, each.instance_id, _leave_one(draft, each))
        for each in command.members
    ]
    if len(draft.group.members) < len(before.members):
        gone = ", ".join(row.member_id for row in rows if row.error is Error.NONE)
        rebalance_or_complete(draft, f"explicit `LeaveGroup` request for ({gone}) members")
    elif len(draft.group.pending) < len(before.pending):
        complete_if_all_joined(draft)
    draft.answer(token, tuple(rows))


def _leave_one(draft: GroupDraft, leaver: Leaver) -> Error:
    group, member_id = draft.group, leaver.member_id
    if member_id in group.pending:
        draft.note(group_facts.PendingMemberRemoved(group.group_id, member_id))
        draft.unwatch(member_id)
        return Error.NONE
    if member_id == NO_MEMBER_ID and leaver.instance_id is not None:
        member_id = group.static_members.get(leaver.instance_id, NO_MEMBER_ID)
    error = identity_error(group, member_id, leaver.instance_id)
    if error is Error.NONE:
        draft.unwatch(member_id)
        remove(draft, member_id, Removal.LEFT, leaver.reason)
    return error


def remove(draft: GroupDraft, member_id: str, why: Removal, reason: str | None = None) -> None:
    group = draft.group
    draft.refuse_waiting(group.members[member_id], Error.UNKNOWN_MEMBER_ID)
    draft.note(group_facts.MemberRemoved(group.group_id, member_id, why, reason))
