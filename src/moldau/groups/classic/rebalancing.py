"""The steps of a rebalance: everybody has to join again, then the next generation begins.

A join completes when every member waits in it and nobody who was handed an id is still on the way,
or when the slowest member's rebalance time-out is over: then it is forced, and only those who came
are answered. A new group waits first for more members than one.
"""

from __future__ import annotations

from moldau.groups import group_facts
from moldau.groups.classic.classic_group import ClassicGroup, State
from moldau.groups.classic.classic_members import Member
from moldau.groups.classic.group_decision import GroupDraft
from moldau.groups.classic.group_timers import join_key, sync_key
from moldau.groups.group_commands import CompleteInitialJoin, CompleteJoin, ExpireSync
from moldau.groups.group_facts import Removal
from moldau.groups.group_results import JoinedMember, JoinResult, SyncResult
from moldau.model.errors import Error
from moldau.model.names import Millis

CAN_START = frozenset({State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE})


def rebalance_or_complete(draft: GroupDraft, reason: str) -> None:
    """Something about the members has changed."""
    if draft.group.state in CAN_START:
        prepare(draft, reason)
    else:
        complete_if_all_joined(draft)


def complete_if_all_joined(draft: GroupDraft) -> None:
    group = draft.group
    # A new group's first join is ended by its timer alone.
    if (
        group.state is State.PREPARING_REBALANCE
        and group.has_everybody_joined
        and not group.is_in_initial_join
    ):
        complete(draft)


def prepare(
    draft: GroupDraft, reason: str, told_syncing: Error = Error.REBALANCE_IN_PROGRESS
) -> None:
    group = draft.group
    group_id = group.group_id
    for member in group.members.values():
        if member.is_syncing:
            draft.answer(member.sync_token, SyncResult(told_syncing))
            draft.watch_member(member)
    if group.state is State.EMPTY:
        _wait_for_first_members(draft)
    draft.cancel(sync_key(group_id))
    draft.note(group_facts.RebalancePrepared(group_id, group.generation, reason, draft.now.wall_ms))
    if draft.group.is_in_initial_join:
        return
    if draft.group.has_everybody_joined:
        complete(draft)
    else:
        _wait_for_joins(draft)


def _wait_for_first_members(draft: GroupDraft) -> None:
    delay_ms = draft.settings.initial_rebalance_delay_ms
    _wait_initially(draft, delay_ms, max(0, draft.group.rebalance_timeout_ms - delay_ms))


def _wait_initially(draft: GroupDraft, delay_ms: Millis, remaining_ms: Millis) -> None:
    group_id = draft.group.group_id
    command = CompleteInitialJoin(group_id, delay_ms, remaining_ms)
    draft.wake(join_key(group_id), delay_ms, command)


def _wait_for_joins(draft: GroupDraft) -> None:
    group_id = draft.group.group_id
    delay_ms = draft.group.rebalance_timeout_ms
    draft.wake(join_key(group_id), delay_ms, CompleteJoin(group_id))


def time_is_up(draft: GroupDraft) -> None:
    if draft.group.state is State.PREPARING_REBALANCE:
        complete(draft)


def initial_time_is_up(draft: GroupDraft, command: CompleteInitialJoin) -> None:
    """Wait on while members keep coming, but no longer than a rebalance may take."""
    if not draft.group.is_in_initial_join:
        return
    if draft.group.has_newcomer and command.remaining_ms:
        draft.note(group_facts.InitialJoinExtended(command.group_id))
        delay_ms = min(draft.settings.initial_rebalance_delay_ms, command.remaining_ms)
        _wait_initially(draft, delay_ms, max(0, command.remaining_ms - command.delay_ms))
    else:
        complete(draft)


def complete(draft: GroupDraft) -> None:
    """Go on with those who have joined."""
    group_id = draft.group.group_id
    draft.cancel(join_key(group_id))
    for member in list(draft.group.members.values()):
        # A static member may be restarting: its session alone decides about it.
        if not member.is_joining and not member.is_static:
            draft.note(group_facts.MemberRemoved(group_id, member.member_id, Removal.NOT_REJOINED))
            draft.unwatch(member.member_id)
    if draft.group.members and not _elect_leader(draft):
        _wait_for_joins(draft)
        return
    _start_generation(draft)


def _elect_leader(draft: GroupDraft) -> bool:
    """The leader computes the assignment, so it must be one who has joined."""
    group = draft.group
    assert group.leader is not None, f"{group.group_id} has members but no leader"
    if group.members[group.leader].is_joining:
        return True
    joined = next((each.member_id for each in group.members.values() if each.is_joining), None)
    if joined is None:
        return False
    draft.note(group_facts.LeaderElected(group.group_id, joined, group.leader))
    return True


def _start_generation(draft: GroupDraft) -> None:
    before = draft.group
    group_id, generation = before.group_id, before.generation + 1
    count = len(before.members)
    protocol = before.chosen_protocol() if count else None
    waiting = [member for member in before.members.values() if member.is_joining]
    draft.note(
        group_facts.GenerationStarted(group_id, generation, protocol, draft.now.wall_ms, count)
    )
    group = draft.group
    if not count:
        draft.store(
            group_facts.GroupStored(
                group_id, group.protocol_type, generation, None, None, draft.now.wall_ms
            )
        )
        return
    for member in waiting:
        draft.answer(member.join_token, joined(group, member))
    for member in group.members.values():
        draft.watch_member(member)
    delay_ms = group.rebalance_timeout_ms
    command = ExpireSync(group_id, generation)
    draft.wake(sync_key(group_id), delay_ms, command)


def joined(group: ClassicGroup, member: Member) -> JoinResult:
    """What a member of the current generation is told; the leader learns who the others are."""
    is_leader = group.leader == member.member_id
    return JoinResult(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=_members(group) if is_leader else (),
    )


def _members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(each.member_id, each.instance_id, each.metadata(group.protocol) or b"")
        for each in group.members.values()
    )
