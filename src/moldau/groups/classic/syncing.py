"""SyncGroup and Heartbeat: handing out the assignment, and staying a member.

Followers wait until the leader sends the assignment; it is stored before anybody is told. Whoever
comes later is answered from memory. Every request of a member is a sign of life.
"""

from __future__ import annotations

from moldau.engine.machine import Token
from moldau.groups import group_facts
from moldau.groups.classic.classic_group import ClassicGroup, State
from moldau.groups.classic.classic_members import Member, stored_member
from moldau.groups.classic.group_decision import GroupDraft
from moldau.groups.classic.group_timers import sync_key
from moldau.groups.classic.member_identity import generation_error
from moldau.groups.classic.rebalancing import prepare
from moldau.groups.group_commands import ExpireSync, Heartbeat, RefuseAssignment, SyncGroup
from moldau.groups.group_facts import Removal
from moldau.groups.group_results import SyncResult
from moldau.model.errors import Error


def sync(draft: GroupDraft, command: SyncGroup, token: Token) -> None:
    group = draft.group
    error = _sync_error(group, command)
    if error is not Error.NONE:
        draft.answer(token, SyncResult(error))
    elif group.state is State.STABLE:
        member = group.members[command.member_id]
        if command.member_id in group.unsynced:
            draft.note(group_facts.MemberSynced(command.group_id, command.member_id))
        _stop_waiting_for_syncs(draft)
        draft.watch_member(member)
        draft.answer(token, _assigned(group, member))
    elif group.leader == command.member_id:
        _assign(draft, command, token)
    else:
        member = group.members[command.member_id]
        draft.answer(member.sync_token, SyncResult(Error.REBALANCE_IN_PROGRESS))
        draft.note(group_facts.MemberSyncing(command.group_id, command.member_id, token))
        draft.watch_member(member)
        _stop_waiting_for_syncs(draft)


def _sync_error(group: ClassicGroup, command: SyncGroup) -> Error:
    error = generation_error(group, command.member_id, command.instance_id, command.generation)
    if error is not Error.NONE:
        return error
    if command.protocol_type not in (None, group.protocol_type) or (
        # Between two generations there is no protocol to differ from.
        group.protocol is not None and command.protocol not in (None, group.protocol)
    ):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    if group.state is State.PREPARING_REBALANCE:
        return Error.REBALANCE_IN_PROGRESS
    return Error.NONE


def _assign(draft: GroupDraft, command: SyncGroup, token: Token) -> None:
    """The leader's sync ends the rebalance."""
    before = draft.group
    assert before.protocol is not None, f"{before.group_id} has a generation without a protocol"
    waiting = [member for member in before.members.values() if member.is_syncing]
    draft.note(
        group_facts.AssignmentReceived(command.group_id, before.generation, command.member_id)
    )
    draft.store(
        group_facts.GroupStored(
            command.group_id,
            before.protocol_type,
            before.generation,
            before.protocol,
            before.leader,
            draft.now.wall_ms,
            tuple(
                stored_member(each, before.protocol, command.assignments.get(each.member_id, b""))
                for each in before.members.values()
            ),
        )
    )
    group = draft.group
    for member in waiting:
        draft.watch_member(member)
        draft.answer(member.sync_token, _assigned(group, group.members[member.member_id]))
    leader = group.members[command.member_id]
    draft.watch_member(leader)
    draft.answer(token, _assigned(group, leader))
    _stop_waiting_for_syncs(draft)


def refuse_assignment(draft: GroupDraft, command: RefuseAssignment, token: Token) -> None:
    """Those who wait for the assignment are told with the leader, and everybody has to join again:
    nobody can say what its share is."""
    draft.answer(token, SyncResult(command.error))
    draft.watch_member(draft.group.members[command.member_id])
    reason = f"The assignment by member {command.member_id} is not stored: {command.error.name}"
    prepare(draft, reason, command.error)


def _assigned(group: ClassicGroup, member: Member) -> SyncResult:
    return SyncResult(
        protocol_type=group.protocol_type, protocol=group.protocol, assignment=member.assignment
    )


def _stop_waiting_for_syncs(draft: GroupDraft) -> None:
    if not draft.group.unsynced:
        draft.cancel(sync_key(draft.group.group_id))


def sync_time_is_up(draft: GroupDraft, command: ExpireSync) -> None:
    """Who has joined and then never asked for its assignment is in the way of those who work."""
    group = draft.group
    if (
        group.generation != command.generation
        or group.state not in (State.COMPLETING_REBALANCE, State.STABLE)
        or not group.unsynced
    ):
        return
    late = list(group.unsynced)
    for member_id in late:
        draft.note(group_facts.MemberRemoved(group.group_id, member_id, Removal.NOT_SYNCED))
        draft.unwatch(member_id)
    prepare(draft, f"Removing {late} on pending sync request expiration")


def heartbeat(draft: GroupDraft, command: Heartbeat, token: Token) -> None:
    group = draft.group
    error = generation_error(group, command.member_id, command.instance_id, command.generation)
    if error is not Error.NONE:
        draft.refuse(token, error)
        return
    draft.watch_member(group.members[command.member_id])
    if group.state is State.PREPARING_REBALANCE:
        draft.refuse(token, Error.REBALANCE_IN_PROGRESS)
    else:
        draft.answer(token, None)
