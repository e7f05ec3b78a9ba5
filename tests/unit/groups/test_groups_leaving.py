"""How members go, and what the rest of the group notices."""

from __future__ import annotations

from moldau.groups import group_commands
from moldau.groups.classic.classic_group import State
from moldau.model.errors import Error
from tests.support.group_coordinator import GROUP, SESSION_MS, Coordinator, error_of


def test_several_members_leave_in_one_request_with_an_answer_each() -> None:
    coordinator = Coordinator()
    first, second, third = coordinator.stable(3)
    rows = coordinator.leave(first, "stranger", second)
    assert [(row.member_id, row.error) for row in rows] == [
        (first, Error.NONE),
        ("stranger", Error.UNKNOWN_MEMBER_ID),
        (second, Error.NONE),
    ]
    assert list(coordinator.group().members) == [third]
    assert coordinator.group().leader == third


def test_nobody_can_leave_a_group_that_does_not_exist() -> None:
    (row,) = Coordinator().leave("me")
    assert row.error is Error.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_while_it_waits_is_told_that_it_is_unknown() -> None:
    coordinator = Coordinator()
    coordinator.stable()
    waiting = coordinator.join(new_member_id="hasty")
    coordinator.leave("hasty")
    answer = coordinator.answers[waiting]
    assert (answer.error, answer.member_id) == (Error.UNKNOWN_MEMBER_ID, "")


def test_an_id_that_was_handed_out_can_be_given_back_without_a_rebalance() -> None:
    coordinator = Coordinator()
    (first,) = coordinator.stable()
    coordinator.join(new_member_id="undecided", member_id_required=True)
    (row,) = coordinator.leave("undecided")
    assert row.error is Error.NONE
    assert coordinator.group().state is State.STABLE
    assert error_of(coordinator.heartbeat(first, 1)) is Error.NONE


def test_a_join_completes_when_the_last_id_that_was_handed_out_is_given_back() -> None:
    coordinator = Coordinator()
    (first,) = coordinator.stable()
    coordinator.join(new_member_id="undecided", member_id_required=True)
    again = coordinator.join(first)
    assert again in coordinator.waiting
    coordinator.leave("undecided")
    assert coordinator.answers[again].generation == 2


def test_who_has_left_is_not_watched_any_more() -> None:
    coordinator = Coordinator()
    first, second = coordinator.stable(2)
    coordinator.leave(second)
    assert ("session", GROUP, second) not in coordinator.timers
    assert ("session", GROUP, first) in coordinator.timers


def test_heartbeats_are_refused_as_the_protocol_says() -> None:
    coordinator = Coordinator()
    assert error_of(coordinator.heartbeat("me", 1)) is Error.UNKNOWN_MEMBER_ID
    (first,) = coordinator.stable()
    assert error_of(coordinator.heartbeat("stranger", 1)) is Error.UNKNOWN_MEMBER_ID
    assert error_of(coordinator.heartbeat(first, 0)) is Error.ILLEGAL_GENERATION
    assert error_of(coordinator.heartbeat(first, 2)) is Error.ILLEGAL_GENERATION
    assert coordinator.heartbeat(first, 1) is None


def test_heartbeats_are_taken_between_join_and_sync() -> None:
    coordinator = Coordinator()
    join = coordinator.join()
    coordinator.pass_ms(3_000)
    member_id = coordinator.answers[join].member_id
    for _ in range(3):
        coordinator.pass_ms(SESSION_MS - 1)
        assert coordinator.heartbeat(member_id, 1) is None


def test_syncs_are_refused_as_the_protocol_says() -> None:
    coordinator = Coordinator()
    (first,) = coordinator.stable()

    def sync(**options: object) -> Error:
        fields = {"group_id": GROUP, "generation": 1, "member_id": first, **options}
        return error_of(coordinator.ask(group_commands.SyncGroup(**fields)))  # type: ignore[arg-type]

    assert sync(group_id="other") is Error.UNKNOWN_MEMBER_ID
    assert sync(member_id="stranger") is Error.UNKNOWN_MEMBER_ID
    assert sync(generation=2) is Error.ILLEGAL_GENERATION
    assert sync(protocol_type="connect") is Error.INCONSISTENT_GROUP_PROTOCOL
    assert sync(protocol="sticky") is Error.INCONSISTENT_GROUP_PROTOCOL
    assert sync(protocol_type="consumer", protocol="range") is Error.NONE
    coordinator.join()
    assert sync() is Error.REBALANCE_IN_PROGRESS


def test_a_member_that_the_leader_forgot_is_given_nothing() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.pass_ms(6_000)
    leader, follower = (coordinator.answers[join].member_id for join in joins)
    waiting = coordinator.sync(follower, 1)
    coordinator.sync(leader, 1, {leader: b"A", "stranger": b"C"})
    assert coordinator.answers[waiting].assignment == b""
    assert coordinator.answers[waiting].error is Error.NONE


def test_a_sync_that_is_sent_twice_is_answered_once() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join() for _ in range(2)]
    coordinator.pass_ms(6_000)
    leader, follower = (coordinator.answers[join].member_id for join in joins)
    lost = coordinator.sync(follower, 1)
    again = coordinator.sync(follower, 1)
    assert coordinator.answers[lost].error is Error.REBALANCE_IN_PROGRESS
    coordinator.sync(leader, 1, {follower: b"B"})
    assert coordinator.answers[again].assignment == b"B"


def test_loaded_members_have_a_whole_session_to_be_heard_of() -> None:
    coordinator = Coordinator()
    first, second = coordinator.stable(2)
    coordinator.pass_ms(SESSION_MS - 1)
    coordinator.restart()
    coordinator.pass_ms(SESSION_MS - 1)
    assert coordinator.heartbeat(first, 1) is None
    coordinator.pass_ms(1)
    assert coordinator.group().state is State.PREPARING_REBALANCE
    assert second not in coordinator.group().members


def test_a_loaded_follower_that_joins_again_as_it_was_is_answered_from_the_log() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    coordinator.restart()
    answer = coordinator.answers[coordinator.join(follower)]
    assert (answer.generation, answer.leader, answer.protocol) == (1, leader, "range")
    assert coordinator.answers[coordinator.sync(follower, 1)].assignment == (
        f"for {follower}".encode()
    )
