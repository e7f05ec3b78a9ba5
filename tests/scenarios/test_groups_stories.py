"""How a group lives, told step by step: joins, syncs, lost answers, forced completion."""

from __future__ import annotations

from moldau.groups import group_commands, group_facts
from moldau.groups.classic.classic_group import State
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from tests.support.group_coordinator import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Coordinator,
    error_of,
    subscription,
)

INITIAL_DELAY_MS = 3_000
ALL = b"all partitions"


def test_the_first_member_leads_and_is_given_all_partitions() -> None:
    coordinator = Coordinator()
    join = coordinator.join()
    assert coordinator.group().state is State.PREPARING_REBALANCE
    coordinator.pass_ms(INITIAL_DELAY_MS)
    first = coordinator.answers[join]
    assert first.leader == first.member_id
    assert [member.member_id for member in first.members] == [first.member_id]
    sync = coordinator.sync(first.member_id, first.generation, {first.member_id: ALL})
    assert coordinator.answers[sync].assignment == ALL
    assert coordinator.group().state is State.STABLE


def test_a_second_member_has_to_wait_for_the_first_to_join_again() -> None:
    coordinator = Coordinator()
    (first,) = coordinator.stable()
    second = coordinator.join()
    assert coordinator.group().state is State.PREPARING_REBALANCE
    coordinator.pass_ms(SESSION_MS // 2)
    assert second in coordinator.waiting, "the first member was answered and has not joined again"
    again = coordinator.join(first)
    answers = coordinator.answers[second], coordinator.answers[again]
    assert [answer.generation for answer in answers] == [2, 2]
    assert {answer.leader for answer in answers} == {first}
    assert len(coordinator.answers[again].members) == 2
    assert coordinator.answers[second].members == ()


def test_who_does_not_join_again_in_time_is_left_out_and_only_the_others_are_answered() -> None:
    coordinator = Coordinator()
    (first,) = coordinator.stable()
    second = coordinator.join()
    # It still heartbeats, so it is not given up before the rebalance time-out.
    for _ in range(REBALANCE_MS // 5_000 - 1):
        coordinator.pass_ms(5_000)
        assert error_of(coordinator.heartbeat(first, 1)) is Error.REBALANCE_IN_PROGRESS
        assert second in coordinator.waiting
    coordinator.pass_ms(5_000)
    answer = coordinator.answers[second]
    assert answer.generation == 2
    assert answer.leader == answer.member_id
    assert list(coordinator.group().members) == [answer.member_id]
    assert error_of(coordinator.heartbeat(first, 2)) is Error.UNKNOWN_MEMBER_ID


def test_a_new_group_waits_for_more_members_before_its_first_generation() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join()]
    coordinator.pass_ms(INITIAL_DELAY_MS - 1)
    joins.append(coordinator.join())
    # Somebody has come while the group waited: it waits once more.
    coordinator.pass_ms(INITIAL_DELAY_MS)
    assert coordinator.waiting == set(joins)
    coordinator.pass_ms(1)
    assert not coordinator.waiting
    assert {coordinator.answers[join].generation for join in joins} == {1}
    assert coordinator.group().state is State.COMPLETING_REBALANCE


def test_members_that_keep_coming_extend_the_wait_up_to_the_rebalance_time_out() -> None:
    coordinator = Coordinator()
    joins = []
    for _ in range(10):
        joins.append(coordinator.join(rebalance_timeout_ms=10_000))
        coordinator.pass_ms(1_000)
    assert not coordinator.waiting
    assert coordinator.answers[joins[0]].generation == 1
    assert [each.member_count for each in coordinator.happened(group_facts.GenerationStarted)] == [
        10
    ]


def test_followers_wait_for_the_leaders_assignment_which_is_stored_first() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(3)]
    coordinator.pass_ms(2 * INITIAL_DELAY_MS)
    leader, *followers = [coordinator.answers[join].member_id for join in joins]
    waiting = [coordinator.sync(member_id, 1) for member_id in followers]
    assert coordinator.waiting == set(waiting), "there is no assignment yet"
    stored_before = len(coordinator.durable)
    sync = coordinator.sync(leader, 1, {leader: b"0", followers[0]: b"1", followers[1]: b"2"})
    (stored,) = coordinator.durable[stored_before:]
    assert isinstance(stored, group_facts.GroupStored)
    assert [member.assignment for member in stored.members] == [b"0", b"1", b"2"]
    answers = [coordinator.answers[token].assignment for token in (sync, *waiting)]
    assert answers == [b"0", b"1", b"2"]
    assert coordinator.group().state is State.STABLE


def test_a_sync_that_comes_late_is_answered_from_memory() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.pass_ms(2 * INITIAL_DELAY_MS)
    leader, late = [coordinator.answers[join].member_id for join in joins]
    coordinator.sync(leader, 1, {leader: b"0", late: b"1"})
    assert coordinator.group().state is State.STABLE
    sync = coordinator.sync(late, 1)
    assert coordinator.answers[sync].assignment == b"1"
    assert coordinator.group().state is State.STABLE


def test_a_follower_that_missed_the_answer_to_its_join_gets_the_same_one_again() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.pass_ms(2 * INITIAL_DELAY_MS)
    leader, follower = [coordinator.answers[join].member_id for join in joins]
    # The answer was lost on the way to the follower; the leader carries on without knowing.
    coordinator.sync(leader, 1, {leader: b"0", follower: b"1"})
    assert coordinator.group().state is State.STABLE
    again = coordinator.join(follower)
    assert coordinator.answers[again] == coordinator.answers[joins[1]]
    assert coordinator.group().state is State.STABLE, "nobody else was bothered"
    sync = coordinator.sync(follower, 1)
    assert coordinator.answers[sync].assignment == b"1"


def test_a_member_that_missed_the_answer_may_ask_again_before_the_assignment_is_known() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.pass_ms(2 * INITIAL_DELAY_MS)
    leader, follower = [coordinator.answers[join].member_id for join in joins]
    for join, member_id in zip(joins, (leader, follower), strict=True):
        again = coordinator.join(member_id)
        assert coordinator.answers[again] == coordinator.answers[join]
    assert coordinator.group().state is State.COMPLETING_REBALANCE


def test_without_the_leader_a_group_cannot_become_stable() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.pass_ms(2 * INITIAL_DELAY_MS)
    leader, follower = [coordinator.answers[join].member_id for join in joins]
    sync = coordinator.sync(follower, 1)
    coordinator.pass_ms(SESSION_MS - 1)
    assert sync in coordinator.waiting
    assert coordinator.group().state is State.COMPLETING_REBALANCE
    # The leader's session ends: the follower has to join again, and leads.
    coordinator.pass_ms(1)
    assert error_of(coordinator.answers[sync]) is Error.REBALANCE_IN_PROGRESS
    again = coordinator.join(follower)
    assert coordinator.answers[again].leader == follower
    assert leader not in coordinator.group().members


def test_members_heartbeat_while_the_group_rebalances_and_are_told_to_join_again() -> None:
    coordinator = Coordinator()
    first, second = coordinator.stable(2)
    coordinator.join()
    for _ in range(4):
        coordinator.pass_ms(SESSION_MS - 1)
        assert error_of(coordinator.heartbeat(first, 1)) is Error.REBALANCE_IN_PROGRESS
        assert error_of(coordinator.heartbeat(second, 1)) is Error.REBALANCE_IN_PROGRESS
    assert {first, second} <= set(coordinator.group().members)


def test_a_member_that_joined_has_one_session_to_sync() -> None:
    coordinator = Coordinator()
    join = coordinator.join()
    coordinator.pass_ms(INITIAL_DELAY_MS)
    member_id = coordinator.answers[join].member_id
    coordinator.pass_ms(SESSION_MS - 1)
    assert member_id in coordinator.group().members
    coordinator.pass_ms(1)
    assert coordinator.group().state is State.EMPTY


def test_a_follower_that_waits_for_the_assignment_starts_a_new_session() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.pass_ms(2 * INITIAL_DELAY_MS)
    leader, follower = [coordinator.answers[join].member_id for join in joins]
    coordinator.pass_ms(SESSION_MS - 1)
    coordinator.heartbeat(leader, 1)
    coordinator.sync(follower, 1)
    coordinator.pass_ms(SESSION_MS - 1)
    assert set(coordinator.group().members) == {leader, follower}


def test_a_sync_in_a_stable_group_starts_a_new_session() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    coordinator.pass_ms(SESSION_MS - 1)
    coordinator.sync(member_id, 1)
    coordinator.pass_ms(SESSION_MS - 1)
    assert member_id in coordinator.group().members


def test_the_leaders_sync_starts_a_new_session_for_everybody_who_is_answered() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.pass_ms(2 * INITIAL_DELAY_MS)
    leader, follower = [coordinator.answers[join].member_id for join in joins]
    coordinator.sync(follower, 1)
    for _ in range(3):
        # The follower waits and cannot heartbeat; it is not given up meanwhile.
        coordinator.pass_ms(SESSION_MS - 1)
        coordinator.heartbeat(leader, 1)
    coordinator.sync(leader, 1, {})
    coordinator.pass_ms(SESSION_MS - 1)
    assert set(coordinator.group().members) == {leader, follower}
    coordinator.pass_ms(1)
    assert coordinator.group().state is State.EMPTY


def test_every_request_of_a_member_is_a_sign_of_life() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    signs = (
        lambda: coordinator.heartbeat(follower, 1),
        lambda: coordinator.commit(5, follower, 1),
        lambda: coordinator.sync(follower, 1),
        lambda: coordinator.join(follower),
    )
    for sign in signs:
        coordinator.pass_ms(SESSION_MS - 1)
        coordinator.heartbeat(leader, 1)
        sign()
    assert set(coordinator.group().members) == {leader, follower}
    assert coordinator.group().generation == 1


def test_a_member_that_is_not_heard_of_is_removed_and_the_others_rebalance() -> None:
    coordinator = Coordinator()
    alive, silent = coordinator.stable(2)
    coordinator.pass_ms(SESSION_MS - 1)
    coordinator.heartbeat(alive, 1)
    coordinator.pass_ms(1)
    assert coordinator.group().state is State.PREPARING_REBALANCE
    assert error_of(coordinator.heartbeat(alive, 1)) is Error.REBALANCE_IN_PROGRESS
    again = coordinator.join(alive)
    assert coordinator.answers[again].generation == 2
    assert list(coordinator.group().members) == [alive]
    assert error_of(coordinator.heartbeat(silent, 1)) is Error.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_in_a_join_is_not_asked_for_heartbeats() -> None:
    coordinator = Coordinator()
    first, second = coordinator.stable(2)
    coordinator.join()
    coordinator.join(first)
    for _ in range(5):
        coordinator.pass_ms(SESSION_MS - 1)
        coordinator.heartbeat(second, 1)
    assert first in coordinator.group().members


def test_a_member_that_leaves_makes_the_others_rebalance_at_once() -> None:
    coordinator = Coordinator()
    first, second = coordinator.stable(2)
    coordinator.leave(second)
    assert coordinator.group().state is State.PREPARING_REBALANCE
    again = coordinator.join(first)
    assert coordinator.answers[again].generation == 2


def test_a_leader_that_sees_new_partitions_starts_a_rebalance_by_joining_again() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    coordinator.join(leader)
    assert coordinator.group().state is State.PREPARING_REBALANCE
    again = coordinator.join(follower)
    assert coordinator.answers[again].generation == 2


def test_a_member_that_reads_other_topics_starts_a_rebalance() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    other = (group_facts.Protocol("range", subscription("orders", "payments")),)
    coordinator.join(follower, protocols=other)
    assert coordinator.group().state is State.PREPARING_REBALANCE
    again = coordinator.join(leader)
    metadata = {each.member_id: each.metadata for each in coordinator.answers[again].members}
    assert metadata[follower] == subscription("orders", "payments")


def test_a_new_owner_reads_on_where_the_old_one_has_committed() -> None:
    coordinator = Coordinator()
    first, second = coordinator.stable(2)
    place = TopicPartition("orders", 3)
    coordinator.commit(42, second, 1, place=place)
    coordinator.leave(second)
    coordinator.join(first)
    coordinator.sync(first, 2, {first: ALL})
    asked = (group_commands.TopicOffsets("orders", (3,)),)
    (topic,) = coordinator.ask(group_commands.FetchOffsets(GROUP, asked))
    assert topic.offsets[0].offset == 42


def test_a_member_that_was_cut_off_finds_its_work_taken_over_when_it_returns() -> None:
    coordinator = Coordinator()
    isolated, other = coordinator.stable(2)
    for _ in range(3):
        coordinator.pass_ms(SESSION_MS // 2)
        coordinator.heartbeat(other, 1)
    coordinator.join(other)
    coordinator.sync(other, 2, {other: ALL})
    coordinator.commit(100, other, 2)
    for _ in range(120_000 // 5_000):
        coordinator.pass_ms(5_000)
        coordinator.heartbeat(other, 2)
    assert error_of(coordinator.commit(7, isolated, 1)) is Error.UNKNOWN_MEMBER_ID
    assert coordinator.committed().offset == 100
