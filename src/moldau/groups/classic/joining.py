"""JoinGroup: who may be a member, and what its coming means for the group.

A new member makes everybody join again. A known one that comes again is answered from memory if
nothing has changed, because it may only have missed the answer; the leader, or a member with other
protocols, starts a rebalance. A static member that is back takes its old place (KIP-345).
"""

from __future__ import annotations

from moldau.engine.machine import NO_TOKEN, Token
from moldau.groups import group_facts
from moldau.groups.classic.classic_group import ClassicGroup, State
from moldau.groups.classic.classic_members import Member, stored_member
from moldau.groups.classic.group_decision import GroupDraft
from moldau.groups.classic.member_identity import identity_error
from moldau.groups.classic.rebalancing import (
    complete_if_all_joined,
    joined,
    rebalance_or_complete,
)
from moldau.groups.group_commands import NO_MEMBER_ID, JoinGroup
from moldau.groups.group_facts import Removal
from moldau.groups.group_results import JoinResult
from moldau.model.errors import Error


def join(draft: GroupDraft, command: JoinGroup, token: Token) -> None:
    group, member_id = draft.group, command.member_id
    if not _has_room(group, member_id, draft.settings.members_max):
        _turn_away(draft, member_id)
        draft.answer(token, JoinResult(Error.GROUP_MAX_SIZE_REACHED))
    elif not group.supports(command.protocol_type, command.protocols):
        draft.answer(token, JoinResult(Error.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif member_id == NO_MEMBER_ID:
        _join_unknown(draft, command, token)
    elif member_id in group.pending:
        _join_pending(draft, command, token)
    else:
        _join_known(draft, command, token)


def _has_room(group: ClassicGroup, member_id: str, members_max: int) -> bool:
    member = group.members.get(member_id)
    match group.state:
        case State.PREPARING_REBALANCE:
            # Those who wait count, not those who are known: so a group that has become too large
            # shrinks by the last ones to rejoin.
            return (member is not None and member.is_joining) or group.joining_count < members_max
        case State.COMPLETING_REBALANCE | State.STABLE:
            return member is not None or len(group.members) < members_max
        case _:
            return True


def _turn_away(draft: GroupDraft, member_id: str) -> None:
    group = draft.group
    if member_id in group.members:
        draft.note(group_facts.MemberRemoved(group.group_id, member_id, Removal.NO_ROOM))
        draft.unwatch(member_id)
        complete_if_all_joined(draft)
    elif member_id in group.pending:
        draft.note(group_facts.PendingMemberRemoved(group.group_id, member_id))
        draft.unwatch(member_id)
        complete_if_all_joined(draft)


def _join_unknown(draft: GroupDraft, command: JoinGroup, token: Token) -> None:
    group = draft.group
    if command.instance_id is not None:
        member_id_old = group.static_members.get(command.instance_id)
        if member_id_old is not None:
            _replace_static(draft, command, group.members[member_id_old], token)
        else:
            _add(draft, command, command.new_member_id, token)
    elif command.member_id_required:
        # It is a member when it comes back with the id: one that goes away before costs nothing.
        draft.note(group_facts.MemberPending(group.group_id, command.new_member_id))
        draft.watch(command.new_member_id, command.session_timeout_ms)
        draft.answer(token, JoinResult(Error.MEMBER_ID_REQUIRED, command.new_member_id))
    else:
        _add(draft, command, command.new_member_id, token)


def _join_pending(draft: GroupDraft, command: JoinGroup, token: Token) -> None:
    if command.instance_id is not None:
        # Ids are handed out to dynamic members only.
        draft.answer(token, JoinResult(Error.UNKNOWN_MEMBER_ID, command.member_id))
    else:
        _add(draft, command, command.member_id, token)


def _join_known(draft: GroupDraft, command: JoinGroup, token: Token) -> None:
    group, member_id = draft.group, command.member_id
    error = identity_error(group, member_id, command.instance_id)
    if error is not Error.NONE:
        draft.answer(token, JoinResult(error, member_id))
        return
    member = group.members[member_id]
    is_changed = member.protocols != command.protocols
    if group.state is State.PREPARING_REBALANCE:
        reason = f"Member {member_id} is joining group during {group.state}"
    elif group.state is State.STABLE and group.leader == member_id:
        # What matters to the assignment can change without a member changing, like the number of
        # a topic's partitions: the leader asks for a rebalance by joining again.
        reason = f"Leader {member_id} re-joining group during {group.state}"
    elif is_changed:
        reason = f"Updating metadata for member {member_id} during {group.state}"
    else:
        draft.watch_member(member)
        draft.answer(token, joined(group, member))
        return
    _rejoin(draft, command, member, token)
    rebalance_or_complete(draft, _with_client_reason(reason, command))


def _rejoin(draft: GroupDraft, command: JoinGroup, member: Member, token: Token) -> None:
    # An earlier request of the same member: its connection is gone, or its client confused.
    draft.answer(member.join_token, JoinResult(Error.REBALANCE_IN_PROGRESS, member.member_id))
    draft.note(
        group_facts.MemberRejoined(
            command.group_id,
            member.member_id,
            command.session_timeout_ms,
            command.rebalance_timeout_ms,
            command.protocols,
            token,
        )
    )


def _add(draft: GroupDraft, command: JoinGroup, member_id: str, token: Token) -> None:
    draft.note(
        group_facts.MemberAdded(
            command.group_id,
            member_id,
            command.instance_id,
            command.client_id,
            command.client_host,
            command.session_timeout_ms,
            command.rebalance_timeout_ms,
            command.protocol_type,
            command.protocols,
            token,
        )
    )
    draft.watch(member_id, draft.settings.new_member_join_timeout_ms)
    reason = f"Adding new member {member_id}"
    if command.instance_id is not None:
        reason += f" with group instance id {command.instance_id}"
    rebalance_or_complete(draft, _with_client_reason(reason, command))


def _replace_static(draft: GroupDraft, command: JoinGroup, old: Member, token: Token) -> None:
    leader_before = draft.group.leader or ""
    member_id = command.new_member_id
    draft.refuse_waiting(old, Error.FENCED_INSTANCE_ID, old.member_id)
    draft.unwatch(old.member_id)
    draft.watch(member_id, command.session_timeout_ms)
    may_stay = draft.group.state is State.STABLE
    replaced = group_facts.StaticMemberReplaced(
        command.group_id,
        command.instance_id or "",
        old.member_id,
        member_id,
        command.client_id,
        command.client_host,
        command.session_timeout_ms,
        command.rebalance_timeout_ms,
        command.protocols,
        token,
    )
    after = draft.group.copy()
    after.apply(replaced)
    if may_stay and after.chosen_protocol() == after.protocol:
        draft.note(replaced._replace(token=NO_TOKEN))
        _store_replacement(draft, command, leader_before, token)
        return
    draft.note(replaced)
    reason = f"Updating metadata for static member {member_id} with instance id"
    if may_stay:
        reason = f"Group's selectedProtocol will change because static member {member_id} with"
    rebalance_or_complete(draft, _with_client_reason(f"{reason} {command.instance_id}", command))


def _store_replacement(
    draft: GroupDraft, command: JoinGroup, leader_before: str, token: Token
) -> None:
    """The assignment stays, so nobody has to rejoin; only the new id is stored."""
    group = draft.group
    assert group.protocol is not None, f"{group.group_id} is stable without a protocol"
    draft.store(
        group_facts.GroupStored(
            group.group_id,
            group.protocol_type,
            group.generation,
            group.protocol,
            group.leader,
            draft.now.wall_ms,
            tuple(
                stored_member(each, group.protocol, each.assignment)
                for each in group.members.values()
            ),
        )
    )
    answer = joined(draft.group, draft.group.members[command.new_member_id])
    if command.knows_skip_assignment:
        is_leader = draft.group.leader == command.new_member_id
        draft.answer(token, answer._replace(skip_assignment=is_leader))
    else:
        # Told that its predecessor leads, an older client does not assign anew (KIP-814).
        draft.answer(token, answer._replace(leader=leader_before, members=()))


def _with_client_reason(reason: str, command: JoinGroup) -> str:
    return f"{reason}; client reason: {command.reason}" if command.reason else reason
