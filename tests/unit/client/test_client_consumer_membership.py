"""A member's place in its group: what it asks, and what each answer of the coordinator means."""

from __future__ import annotations

import pytest

from moldau.client.consumer.consumer_membership import (
    GroupSettings,
    Identity,
    Membership,
    MemberState,
    Verdict,
)
from moldau.model.errors import Error
from moldau.wire.messages.groups import JoinGroupResponse

SETTINGS = GroupSettings("g", None, 10_000, 3_000, 300_000)
PROTOCOLS = [("range", b"subscription")]


def joined_answer(generation: int = 1, member: str = "m", leader: str = "m") -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation, protocol_name="range", leader=leader, member_id=member
    )


def stable(now: int = 0, settings: GroupSettings = SETTINGS) -> Membership:
    membership = Membership(settings)
    membership.polled(now)
    membership.join_request(PROTOCOLS)
    assert membership.joined(joined_answer(), now) is Verdict.FINE
    assert membership.synced(0, membership.identity) is Verdict.FINE
    return membership


def test_a_new_member_is_unjoined_and_wants_to_join() -> None:
    membership = Membership(SETTINGS)
    assert membership.state is MemberState.UNJOINED
    assert membership.needs_rejoin
    assert not membership.has_generation
    assert membership.leave_request("bye") is None


def test_a_join_says_who_joins_with_which_protocols_and_why() -> None:
    membership = Membership(SETTINGS)
    request = membership.join_request([("range", b"r"), ("sticky", b"s")])
    assert membership.state is MemberState.REBALANCING
    assert request.member_id == ""
    assert request.session_timeout_ms == 10_000
    assert request.rebalance_timeout_ms == 300_000
    assert [(row.name, row.metadata) for row in request.protocols] == [
        ("range", b"r"),
        ("sticky", b"s"),
    ]
    assert request.reason == "initial join"


def test_a_member_that_needs_an_id_joins_again_at_once_with_it() -> None:
    membership = Membership(SETTINGS)
    membership.join_request(PROTOCOLS)
    answer = JoinGroupResponse(error_code=Error.MEMBER_ID_REQUIRED, member_id="given")
    assert membership.joined(answer, 0) is Verdict.AGAIN
    assert membership.join_request(PROTOCOLS).member_id == "given"


def test_a_member_is_stable_once_it_has_its_share() -> None:
    membership = Membership(SETTINGS)
    membership.join_request(PROTOCOLS)
    membership.joined(joined_answer(7, "m", leader="other"), 0)
    assert membership.state is MemberState.REBALANCING
    assert not membership.is_leader
    request = membership.sync_request({"m": b"share"})
    assert (request.generation_id, request.member_id, request.protocol_name) == (7, "m", "range")
    assert membership.synced(0, membership.identity) is Verdict.FINE
    assert membership.state is MemberState.STABLE
    assert not membership.needs_rejoin
    assert membership.metadata == ("g", 7, "m", None)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (Error.COORDINATOR_LOAD_IN_PROGRESS, Verdict.WAIT),
        (Error.REBALANCE_IN_PROGRESS, Verdict.WAIT),
        (Error.NOT_COORDINATOR, Verdict.REDISCOVER),
        (Error.COORDINATOR_NOT_AVAILABLE, Verdict.REDISCOVER),
        (Error.UNKNOWN_MEMBER_ID, Verdict.AGAIN),
        (Error.INCONSISTENT_GROUP_PROTOCOL, Verdict.FAIL),
        (Error.FENCED_INSTANCE_ID, Verdict.FAIL),
        (Error.GROUP_MAX_SIZE_REACHED, Verdict.FAIL),
        (Error.GROUP_AUTHORIZATION_FAILED, Verdict.FAIL),
        (Error.INVALID_SESSION_TIMEOUT, Verdict.FAIL),
    ],
)
def test_a_refused_join_is_mended_or_told(code: Error, verdict: Verdict) -> None:
    membership = stable()
    membership.request_rejoin("test")
    membership.join_request(PROTOCOLS)
    assert membership.joined(JoinGroupResponse(error_code=code), 0) is verdict
    assert (membership.member_id == "") == (code is Error.UNKNOWN_MEMBER_ID)
    assert membership.needs_rejoin


@pytest.mark.parametrize(
    ("code", "verdict", "member"),
    [
        (Error.REBALANCE_IN_PROGRESS, Verdict.REJOIN, "m"),
        (Error.UNKNOWN_MEMBER_ID, Verdict.REJOIN, ""),
        (Error.ILLEGAL_GENERATION, Verdict.REJOIN, "m"),
        (Error.NOT_COORDINATOR, Verdict.REDISCOVER, "m"),
        (Error.COORDINATOR_LOAD_IN_PROGRESS, Verdict.REJOIN, "m"),
        (Error.FENCED_INSTANCE_ID, Verdict.FAIL, "m"),
    ],
)
def test_a_refused_sync_makes_the_member_join_again(
    code: Error, verdict: Verdict, member: str
) -> None:
    membership = Membership(SETTINGS)
    membership.join_request(PROTOCOLS)
    membership.joined(joined_answer(), 0)
    assert membership.synced(code, membership.identity) is verdict
    assert membership.member_id == member
    assert membership.needs_rejoin


def test_a_share_of_an_earlier_self_does_not_count() -> None:
    membership = Membership(SETTINGS)
    membership.join_request(PROTOCOLS)
    membership.joined(joined_answer(), 0)
    earlier = membership.identity
    membership.reset("kicked out")
    assert membership.synced(0, earlier) is Verdict.REJOIN
    assert membership.state is MemberState.UNJOINED


def test_a_heartbeat_during_a_rebalance_makes_the_member_rejoin_with_its_generation() -> None:
    membership = stable()
    verdict = membership.heartbeat_answered(Error.REBALANCE_IN_PROGRESS, membership.identity, 0)
    assert verdict is Verdict.REJOIN
    assert membership.has_generation
    assert membership.state is MemberState.STABLE


@pytest.mark.parametrize("code", [Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION])
def test_a_heartbeat_of_an_unknown_member_loses_everything(code: Error) -> None:
    membership = stable()
    assert membership.heartbeat_answered(code, membership.identity, 0) is Verdict.REJOIN
    assert membership.state is MemberState.UNJOINED
    assert not membership.has_generation
    assert not membership.beats


def test_an_answer_to_an_earlier_selfs_heartbeat_changes_nothing() -> None:
    membership = stable()
    earlier = Identity(0, "m")
    verdict = membership.heartbeat_answered(Error.UNKNOWN_MEMBER_ID, earlier, 0)
    assert verdict is Verdict.FINE
    assert membership.state is MemberState.STABLE


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (Error.NONE, Verdict.FINE),
        (Error.NOT_COORDINATOR, Verdict.REDISCOVER),
        (Error.COORDINATOR_LOAD_IN_PROGRESS, Verdict.FINE),
        (Error.FENCED_INSTANCE_ID, Verdict.FAIL),
    ],
)
def test_other_answers_to_a_heartbeat(code: Error, verdict: Verdict) -> None:
    membership = stable()
    assert membership.heartbeat_answered(code, membership.identity, 0) is verdict
    assert membership.state is MemberState.STABLE


def test_heartbeats_are_due_by_the_interval_from_the_join_on() -> None:
    membership = Membership(SETTINGS)
    membership.polled(0)
    membership.join_request(PROTOCOLS)
    assert not membership.beats, "the coordinator expects none while it collects members"
    membership.joined(joined_answer(), 1_000)
    assert membership.beats
    assert not membership.is_heartbeat_due(3_999)
    assert membership.is_heartbeat_due(4_000)
    membership.heartbeat_request(4_000)
    assert not membership.is_heartbeat_due(6_999)
    assert membership.wake_at() == 7_000
    membership.heartbeat_failed(4_100)
    assert membership.is_heartbeat_due(4_100)


def test_no_heartbeat_is_sent_while_a_rejoin_waits_for_its_answer() -> None:
    membership = stable()
    membership.request_rejoin("test")
    membership.join_request(PROTOCOLS)
    assert not membership.beats
    membership.joined(joined_answer(2), 0)
    assert membership.beats


def test_a_poll_is_overdue_for_members_only() -> None:
    membership = stable(now=0)
    assert not membership.is_poll_overdue(299_999)
    assert membership.is_poll_overdue(300_000)
    membership.polled(300_000)
    assert not membership.is_poll_overdue(300_001)
    membership.reset("left")
    assert not membership.is_poll_overdue(10**9)


def test_leaving_is_for_dynamic_members() -> None:
    request = stable().leave_request("closing")
    assert request is not None
    assert [(row.member_id, row.reason) for row in request.members] == [("m", "closing")]
    static = GroupSettings("g", "instance", 10_000, 3_000, 300_000)
    assert stable(settings=static).leave_request("closing") is None
    assert stable(settings=static).heartbeat_request(0).group_instance_id == "instance"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (Error.NONE, Verdict.FINE),
        (Error.UNKNOWN_MEMBER_ID, Verdict.REJOIN),
        (Error.ILLEGAL_GENERATION, Verdict.REJOIN),
        (Error.REBALANCE_IN_PROGRESS, Verdict.FAIL),
        (Error.NOT_COORDINATOR, Verdict.REDISCOVER),
        (Error.REQUEST_TIMED_OUT, Verdict.REDISCOVER),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Verdict.WAIT),
        (Error.OFFSET_METADATA_TOO_LARGE, Verdict.FAIL),
    ],
)
def test_answers_to_a_commit(code: Error, verdict: Verdict) -> None:
    membership = stable()
    assert membership.commit_answered(code, membership.identity) is verdict
    is_lost = verdict is Verdict.REJOIN
    assert (membership.state is MemberState.UNJOINED) == is_lost


def test_a_refused_commit_of_an_earlier_self_leaves_the_member_alone() -> None:
    membership = stable()
    verdict = membership.commit_answered(Error.ILLEGAL_GENERATION, Identity(0, "m"))
    assert verdict is Verdict.REJOIN
    assert membership.state is MemberState.STABLE
