"""Who may join a group, and on which terms."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.groups import group_facts
from moldau.groups.classic.classic_group import State
from moldau.groups.group_facts import Protocol, Removal
from moldau.model.errors import Error
from tests.support.group_coordinator import (
    GROUP,
    SESSION_MS,
    Coordinator,
    error_of,
    subscription,
)

RANGE = Protocol("range", subscription("orders"))
STICKY = Protocol("sticky", subscription("orders"))
ROUND_ROBIN = Protocol("roundrobin", subscription("orders"))


def test_a_modern_member_is_told_its_id_and_has_to_come_back_with_it() -> None:
    coordinator = Coordinator()
    first = coordinator.join(new_member_id="c-1", member_id_required=True)
    answer = coordinator.answers[first]
    assert (answer.error, answer.member_id) == (Error.MEMBER_ID_REQUIRED, "c-1")
    assert coordinator.group().state is State.EMPTY
    assert not coordinator.group().members
    again = coordinator.join("c-1", member_id_required=True)
    coordinator.pass_ms(3_000)
    assert coordinator.answers[again].leader == "c-1"


def test_an_id_that_does_not_come_back_is_forgotten_after_its_session() -> None:
    coordinator = Coordinator()
    coordinator.join(new_member_id="c-1", member_id_required=True)
    coordinator.pass_ms(SESSION_MS - 1)
    assert "c-1" in coordinator.group().pending
    coordinator.pass_ms(1)
    assert not coordinator.group().pending
    late = coordinator.join("c-1")
    assert coordinator.answers[late].error is Error.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_ids_that_were_handed_out() -> None:
    coordinator = Coordinator()
    (first,) = coordinator.stable()
    coordinator.join(new_member_id="late", member_id_required=True)
    assert coordinator.group().state is State.STABLE, "it is no member yet"
    again = coordinator.join(first)
    assert again in coordinator.waiting
    coordinator.join("late")
    assert coordinator.answers[again].generation == 2
    assert len(coordinator.answers[again].members) == 2


def test_a_rebalance_goes_on_when_an_id_that_was_handed_out_expires() -> None:
    coordinator = Coordinator()
    (first,) = coordinator.stable()
    coordinator.join(new_member_id="gone", member_id_required=True)
    again = coordinator.join(first)
    coordinator.pass_ms(SESSION_MS)
    assert coordinator.answers[again].generation == 2


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001])
def test_a_session_timeout_outside_the_limits_is_refused(session_timeout_ms: int) -> None:
    coordinator = Coordinator()
    token = coordinator.join("me", session_timeout_ms=session_timeout_ms)
    answer = coordinator.answers[token]
    assert (answer.error, answer.member_id) == (Error.INVALID_SESSION_TIMEOUT, "me")
    assert not coordinator.machine.groups


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_a_session_timeout_at_the_limits_is_taken(session_timeout_ms: int) -> None:
    coordinator = Coordinator()
    assert coordinator.join(session_timeout_ms=session_timeout_ms) in coordinator.waiting


def test_a_member_of_a_group_that_nobody_knows_has_to_start_anew() -> None:
    coordinator = Coordinator()
    answer = coordinator.answers[coordinator.join("me")]
    assert (answer.error, answer.member_id) == (Error.UNKNOWN_MEMBER_ID, "me")


def test_an_unknown_member_of_a_known_group_has_to_start_anew() -> None:
    coordinator = Coordinator()
    coordinator.stable()
    assert coordinator.answers[coordinator.join("stranger")].error is Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "options",
    [
        {"protocols": ()},
        {"protocol_type": ""},
    ],
)
def test_who_knows_no_protocol_cannot_found_a_group(options: dict[str, Any]) -> None:
    coordinator = Coordinator()
    answer = coordinator.answers[coordinator.join(**options)]
    assert answer.error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert not coordinator.machine.groups, "no group is left behind"


@pytest.mark.parametrize(
    "options",
    [
        {"protocols": (STICKY,)},
        {"protocol_type": "connect"},
        {"protocols": ()},
    ],
)
def test_who_shares_no_protocol_with_all_members_is_refused(options: dict[str, Any]) -> None:
    coordinator = Coordinator()
    coordinator.stable(2)
    answer = coordinator.answers[coordinator.join(**options)]
    assert answer.error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.group().state is State.STABLE


def test_any_protocol_type_makes_a_group() -> None:
    coordinator = Coordinator()
    worker = Protocol("sessioned", b"what Connect workers tell each other")
    coordinator.stable(2, protocol_type="connect", protocols=(worker,))
    assert coordinator.group().protocol_type == "connect"
    assert coordinator.group().protocol == "sessioned"


def test_the_protocol_that_most_members_like_best_among_those_known_to_all_is_chosen() -> None:
    coordinator = Coordinator()
    tokens = [
        coordinator.join(protocols=(STICKY, RANGE)),
        coordinator.join(protocols=(RANGE, STICKY)),
        coordinator.join(protocols=(ROUND_ROBIN, STICKY, RANGE)),
    ]
    coordinator.pass_ms(9_000)
    assert {coordinator.answers[token].protocol for token in tokens} == {"sticky"}


def test_a_leader_is_told_the_metadata_of_the_chosen_protocol() -> None:
    coordinator = Coordinator()
    first = coordinator.join(protocols=(STICKY, Protocol("range", b"first")))
    second = coordinator.join(protocols=(Protocol("range", b"second"),))
    coordinator.pass_ms(9_000)
    members = coordinator.answers[first].members
    assert [member.metadata for member in members] == [b"first", b"second"]
    assert coordinator.answers[second].members == ()


def test_a_group_takes_no_more_members_than_it_may_have() -> None:
    coordinator = Coordinator(members_max=2)
    coordinator.stable(2)
    answer = coordinator.answers[coordinator.join()]
    assert (answer.error, answer.member_id) == (Error.GROUP_MAX_SIZE_REACHED, "")
    assert coordinator.group().state is State.STABLE


def test_a_group_that_has_become_too_large_shrinks_by_the_last_to_rejoin() -> None:
    coordinator = Coordinator(members_max=3)
    first, second, last = coordinator.stable(3)
    coordinator.settings = coordinator.settings._replace(members_max=2)
    coordinator.restart()
    assert coordinator.group().state is State.PREPARING_REBALANCE
    joins = [coordinator.join(first), coordinator.join(second)]
    answer = coordinator.answers[coordinator.join(last)]
    assert answer.error is Error.GROUP_MAX_SIZE_REACHED
    assert [coordinator.answers[join].generation for join in joins] == [2, 2]
    (removed,) = coordinator.happened(group_facts.MemberRemoved)
    assert removed == group_facts.MemberRemoved(GROUP, last, Removal.NO_ROOM)


def test_a_join_that_is_sent_twice_is_answered_once_it_completes_and_the_first_is_let_go() -> None:
    coordinator = Coordinator()
    (first,) = coordinator.stable()
    coordinator.join()
    lost = coordinator.join(first)
    # The join is complete: both members wait no more.
    assert coordinator.answers[lost].generation == 2
    coordinator.join()
    lost = coordinator.join(first)
    again = coordinator.join(first)
    assert coordinator.answers[lost].error is Error.REBALANCE_IN_PROGRESS
    assert again in coordinator.waiting


def test_a_new_member_that_went_away_while_it_waited_is_dropped_in_the_end() -> None:
    coordinator = Coordinator(new_member_join_timeout_ms=20_000)
    (first,) = coordinator.stable()
    lost = coordinator.join(rebalance_timeout_ms=120_000)
    for _ in range(4):
        coordinator.pass_ms(5_000)
        coordinator.heartbeat(first, 1)
    assert coordinator.answers[lost].error is Error.UNKNOWN_MEMBER_ID
    assert list(coordinator.group().members) == [first]


def test_the_clients_reason_is_part_of_the_reason_for_a_rebalance() -> None:
    coordinator = Coordinator()
    coordinator.join(new_member_id="c-1", reason="rebalance enforced by user")
    (prepared,) = coordinator.happened(group_facts.RebalancePrepared)
    assert prepared.reason == ("Adding new member c-1; client reason: rebalance enforced by user")


def test_with_no_initial_delay_the_first_member_is_answered_at_once() -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=0)
    token = coordinator.join()
    coordinator.pass_ms(0)
    assert coordinator.answers[token].generation == 1


def test_a_static_member_with_the_id_of_a_dynamic_one_is_not_known() -> None:
    coordinator = Coordinator()
    coordinator.join(new_member_id="c-1", member_id_required=True)
    token = coordinator.join("c-1", instance_id="i")
    assert error_of(coordinator.answers[token]) is Error.UNKNOWN_MEMBER_ID


def test_a_member_may_name_a_protocol_twice() -> None:
    coordinator = Coordinator()
    coordinator.stable(2, protocols=(RANGE, RANGE))
    assert coordinator.group().protocol == "range"
