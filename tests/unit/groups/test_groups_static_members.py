"""Static members: restarts without a rebalance, and the fencing of doubles (KIP-345)."""

from __future__ import annotations

from moldau.groups import group_commands, group_facts
from moldau.groups.classic.classic_group import State
from moldau.groups.group_commands import Leaver
from moldau.groups.group_facts import Protocol
from moldau.model.errors import Error
from tests.support.group_coordinator import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Coordinator,
    error_of,
    subscription,
)

RANGE = Protocol("range", subscription("orders"))
STICKY = Protocol("sticky", subscription("orders"))


def two_static(coordinator: Coordinator) -> tuple[str, str]:
    """The leader's instance is i0, the follower's i1."""
    joins = [coordinator.join(instance_id=f"i{number}") for number in range(2)]
    coordinator.pass_ms(6_000)
    leader, follower = (coordinator.answers[join].member_id for join in joins)
    coordinator.sync(leader, 1, {leader: b"A", follower: b"B"})
    coordinator.sync(follower, 1)
    return leader, follower


def test_a_static_member_is_a_member_at_once() -> None:
    coordinator = Coordinator()
    token = coordinator.join(instance_id="i", member_id_required=True)
    assert token in coordinator.waiting


def test_a_static_member_that_returns_in_time_keeps_its_place_without_a_rebalance() -> None:
    coordinator = Coordinator()
    leader, old = two_static(coordinator)
    coordinator.pass_ms(SESSION_MS - 1)
    coordinator.heartbeat(leader, 1)
    token = coordinator.join(instance_id="i1", new_member_id="returned")
    answer = coordinator.answers[token]
    assert (answer.member_id, answer.generation, answer.leader) == ("returned", 1, leader)
    assert not answer.skip_assignment
    assert coordinator.group().state is State.STABLE
    sync = coordinator.sync("returned", 1)
    assert coordinator.answers[sync].assignment == b"B"
    assert error_of(coordinator.heartbeat(old, 1)) is Error.UNKNOWN_MEMBER_ID
    coordinator.pass_ms(SESSION_MS - 1)
    assert "returned" in coordinator.group().members


def test_a_replacement_survives_a_restart_of_the_coordinator() -> None:
    coordinator = Coordinator()
    two_static(coordinator)
    coordinator.join(instance_id="i1", new_member_id="returned")
    coordinator.restart()
    group = coordinator.group()
    assert group.static_members["i1"] == "returned"
    assert group.members["returned"].assignment == b"B"


def test_a_leader_that_returns_is_told_to_leave_the_assignment_as_it_is() -> None:
    coordinator = Coordinator()
    _, follower = two_static(coordinator)
    answer = coordinator.answers[coordinator.join(instance_id="i0", new_member_id="returned")]
    assert answer.leader == "returned"
    assert answer.skip_assignment
    assert {member.member_id for member in answer.members} == {"returned", follower}


def test_an_older_leader_that_returns_is_told_that_its_predecessor_leads() -> None:
    coordinator = Coordinator()
    leader, _ = two_static(coordinator)
    token = coordinator.join(
        instance_id="i0", new_member_id="returned", knows_skip_assignment=False
    )
    answer = coordinator.answers[token]
    assert (answer.leader, answer.members) == (leader, ())
    assert not answer.skip_assignment
    assert coordinator.group().leader == "returned"


def test_a_static_member_that_returns_with_other_protocols_may_change_the_choice() -> None:
    coordinator = Coordinator()
    joins = [
        coordinator.join(instance_id=f"i{number}", protocols=protocols)
        for number, protocols in enumerate(((RANGE, STICKY), (STICKY, RANGE), (RANGE, STICKY)))
    ]
    coordinator.pass_ms(9_000)
    leader = coordinator.answers[joins[0]].member_id
    coordinator.sync(leader, 1)
    token = coordinator.join(instance_id="i2", protocols=(STICKY, RANGE))
    assert token in coordinator.waiting
    assert coordinator.group().state is State.PREPARING_REBALANCE


def test_a_double_with_an_instance_id_that_is_taken_over_is_fenced() -> None:
    coordinator = Coordinator()
    _, old = two_static(coordinator)
    coordinator.join(instance_id="i1", new_member_id="returned")
    assert error_of(coordinator.heartbeat(old, 1, "i1")) is Error.FENCED_INSTANCE_ID
    commit = coordinator.commit(1, old, 1, instance_id="i1")
    assert error_of(commit) is Error.FENCED_INSTANCE_ID
    join = coordinator.join(old, instance_id="i1")
    assert coordinator.answers[join].error is Error.FENCED_INSTANCE_ID
    sync = coordinator.ask(group_commands.SyncGroup(GROUP, 1, old, "i1"))
    assert sync.error is Error.FENCED_INSTANCE_ID
    (left,) = coordinator.ask(group_commands.LeaveGroup(GROUP, (Leaver(old, "i1"),)))
    assert left.error is Error.FENCED_INSTANCE_ID


def test_a_double_that_waits_is_fenced_when_the_instance_joins_again() -> None:
    coordinator = Coordinator()
    waiting = coordinator.join(instance_id="i", new_member_id="first")
    coordinator.join(instance_id="i", new_member_id="second")
    answer = coordinator.answers[waiting]
    assert (answer.error, answer.member_id) == (Error.FENCED_INSTANCE_ID, "first")
    assert list(coordinator.group().members) == ["second"]


def test_a_double_that_waits_for_its_assignment_is_fenced() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(instance_id=f"i{number}") for number in range(2)]
    coordinator.pass_ms(6_000)
    waiting = coordinator.sync(coordinator.answers[joins[1]].member_id, 1)
    coordinator.join(instance_id="i1")
    assert coordinator.answers[waiting].error is Error.FENCED_INSTANCE_ID
    assert coordinator.group().state is State.PREPARING_REBALANCE


def test_an_unknown_instance_is_no_member() -> None:
    coordinator = Coordinator()
    leader, _ = two_static(coordinator)
    assert error_of(coordinator.heartbeat(leader, 1, "i9")) is Error.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_rejoin_keeps_its_place_until_its_session_ends() -> None:
    coordinator = Coordinator()
    joins = [
        coordinator.join(instance_id="i0", session_timeout_ms=300_000),
        coordinator.join(),
    ]
    coordinator.pass_ms(6_000)
    static, dynamic = (coordinator.answers[join].member_id for join in joins)
    coordinator.sync(static, 1, {})
    coordinator.sync(dynamic, 1)
    coordinator.join()
    again = coordinator.join(dynamic)
    coordinator.pass_ms(REBALANCE_MS)
    answer = coordinator.answers[again]
    assert answer.generation == 2
    assert answer.leader == dynamic, "the leader did not come, so another was elected"
    assert static in coordinator.group().members
    (elected,) = coordinator.happened(group_facts.LeaderElected)
    assert (elected.member_id, elected.member_id_old) == (dynamic, static)


def test_a_join_of_absent_static_members_alone_is_tried_again_later() -> None:
    coordinator = Coordinator()
    token = coordinator.join(instance_id="i0", session_timeout_ms=300_000)
    coordinator.pass_ms(3_000)
    static = coordinator.answers[token].member_id
    coordinator.sync(static, 1, {})
    newcomer = coordinator.join(new_member_id="newcomer")
    coordinator.leave("newcomer")
    assert coordinator.answers[newcomer].error is Error.UNKNOWN_MEMBER_ID
    coordinator.pass_ms(REBALANCE_MS)
    assert coordinator.group().state is State.PREPARING_REBALANCE
    again = coordinator.join(static, instance_id="i0")
    assert coordinator.answers[again].generation == 2


def test_an_administrator_removes_static_members_by_their_instance() -> None:
    coordinator = Coordinator()
    leader, _ = two_static(coordinator)
    leavers = (Leaver("", "i1"), Leaver("", "i9"), Leaver("", None))
    rows = coordinator.ask(group_commands.LeaveGroup(GROUP, leavers))
    assert [row.error for row in rows] == [
        Error.NONE,
        Error.UNKNOWN_MEMBER_ID,
        Error.UNKNOWN_MEMBER_ID,
    ]
    assert list(coordinator.group().members) == [leader]
