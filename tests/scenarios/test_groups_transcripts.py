"""Every move of a classic group as a transcript: given facts, when a command, then a decision."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from moldau.engine.machine import Reply, Timer, Volatile
from moldau.groups.classic.classic_group import MOVES, State
from moldau.groups.group_commands import (
    CompleteInitialJoin,
    CompleteJoin,
    DeleteGroup,
    ExpireOffsets,
    ExpireSession,
    ExpireSync,
    JoinGroup,
    LeaveGroup,
    Leaver,
    SyncGroup,
)
from moldau.groups.group_facts import (
    AssignmentReceived,
    GenerationStarted,
    GroupDeleted,
    GroupStored,
    MemberAdded,
    MemberRejoined,
    MemberRemoved,
    MemberSyncing,
    Protocol,
    RebalancePrepared,
    Removal,
    StaticMemberReplaced,
    StoredMember,
)
from moldau.groups.group_machine import GroupMachine
from moldau.groups.group_results import JoinedMember, JoinResult, LeaveResult, SyncResult
from moldau.groups.group_settings import GroupSettings
from moldau.model.errors import Error
from tests.support.transcripts import Transcript

RANGE = (Protocol("range", b"r"),)
STICKY = (Protocol("sticky", b"s"),)
TOKEN = 1
"""Of the command; those who wait from earlier have 11 and 12."""


def member(member_id: str, token: int, instance_id: str | None = None) -> MemberAdded:
    return MemberAdded("g", member_id, instance_id, "c", "/h", 10, 60, "consumer", RANGE, token)


def stored(
    *members: tuple[str, bytes], generation: int = 1, wall_ms: int = 0, instance: str | None = None
) -> GroupStored:
    if not members:
        return GroupStored("g", "consumer", generation, None, None, wall_ms)
    rows = (StoredMember(name, instance, "c", "/h", 60, 10, b"r", given) for name, given in members)
    leader = members[0][0]
    return GroupStored("g", "consumer", generation, "range", leader, wall_ms, tuple(rows))


def join(member_id: str = "", protocols: tuple[Protocol, ...] = RANGE) -> JoinGroup:
    return JoinGroup(
        "g", member_id, "new", None, "c", "/h", 10, 60, "consumer", protocols,
        member_id_required=False,
    )  # fmt: skip


def joined(member_id: str, generation: int, leader: str, *names: str) -> JoinResult:
    members = tuple(JoinedMember(name, None, b"r") for name in names)
    return JoinResult(
        Error.NONE, member_id, generation, "consumer", "range", leader, members=members
    )


def assigned(assignment: bytes) -> SyncResult:
    return SyncResult(Error.NONE, "consumer", "range", assignment)


def prepared(generation: int, reason: str) -> Volatile:
    return Volatile(RebalancePrepared("g", generation, reason, 5))


def started(generation: int, count: int, wall_ms: int = 5) -> GenerationStarted:
    return GenerationStarted("g", generation, "range" if count else None, wall_ms, count)


NEW = GroupStored("g", None, 0, None, None, 0)
EMPTY = (stored(),)
INITIAL = (NEW, member("a", 11), RebalancePrepared("g", 0, "", 0))
ONE_STABLE = (stored(("a", b"A")),)
TWO_STABLE = (stored(("a", b"A"), ("b", b"B")),)
ONE_COMPLETING = (*INITIAL, started(1, 1, 0))
TWO_COMPLETING = (*INITIAL, member("b", 12), started(1, 2, 0))
TWO_PREPARING = (*TWO_STABLE, RebalancePrepared("g", 1, "", 0))
B_WAITS = (*TWO_PREPARING, MemberRejoined("g", "b", 10, 60, RANGE, 12))


class Row(NamedTuple):
    promise: str
    before: State
    after: State
    given: tuple[object, ...]
    when: object
    facts: tuple[object, ...]
    replies: tuple[Reply, ...] = ()


ROWS = (
    Row(
        "a first join wakes an empty group",
        State.EMPTY,
        State.PREPARING_REBALANCE,
        EMPTY,
        join(),
        (Volatile(member("new", TOKEN)), prepared(1, "Adding new member new")),
    ),
    Row(
        "an empty group dies on request",
        State.EMPTY,
        State.DEAD,
        EMPTY,
        DeleteGroup("g"),
        (GroupDeleted("g", 1),),
        (Reply(TOKEN, True),),
    ),
    Row(
        "an empty group without offsets dies by itself",
        State.EMPTY,
        State.DEAD,
        EMPTY,
        ExpireOffsets(),
        (GroupDeleted("g", 1),),
        (Reply(TOKEN, None),),
    ),
    Row(
        "a first generation starts when the initial delay is over",
        State.PREPARING_REBALANCE,
        State.COMPLETING_REBALANCE,
        INITIAL,
        CompleteInitialJoin("g", 3, 57),
        (Volatile(started(1, 1)),),
        (Reply(11, joined("a", 1, "a", "a")),),
    ),
    Row(
        "the last member to rejoin starts the generation",
        State.PREPARING_REBALANCE,
        State.COMPLETING_REBALANCE,
        B_WAITS,
        join("a"),
        (Volatile(MemberRejoined("g", "a", 10, 60, RANGE, TOKEN)), Volatile(started(2, 2))),
        (Reply(TOKEN, joined("a", 2, "a", "a", "b")), Reply(12, joined("b", 2, "a"))),
    ),
    Row(
        "when time is up the generation starts without the missing",
        State.PREPARING_REBALANCE,
        State.COMPLETING_REBALANCE,
        B_WAITS,
        CompleteJoin("g"),
        (Volatile(MemberRemoved("g", "a", Removal.NOT_REJOINED)), Volatile(started(2, 1))),
        (Reply(12, joined("b", 2, "b", "b")),),
    ),
    Row(
        "the generation starts when the one that is missing has left",
        State.PREPARING_REBALANCE,
        State.COMPLETING_REBALANCE,
        B_WAITS,
        LeaveGroup("g", (Leaver("a"),)),
        (Volatile(MemberRemoved("g", "a", Removal.LEFT)), Volatile(started(2, 1))),
        (Reply(12, joined("b", 2, "b", "b")), Reply(TOKEN, (LeaveResult("a", None),))),
    ),
    Row(
        "the generation starts when the session of the one that is missing ends",
        State.PREPARING_REBALANCE,
        State.COMPLETING_REBALANCE,
        B_WAITS,
        ExpireSession("g", "a"),
        (Volatile(MemberRemoved("g", "a", Removal.EXPIRED)), Volatile(started(2, 1))),
        (Reply(12, joined("b", 2, "b", "b")),),
    ),
    Row(
        "nobody has rejoined when time is up",
        State.PREPARING_REBALANCE,
        State.EMPTY,
        TWO_PREPARING,
        CompleteJoin("g"),
        (
            Volatile(MemberRemoved("g", "a", Removal.NOT_REJOINED)),
            Volatile(MemberRemoved("g", "b", Removal.NOT_REJOINED)),
            Volatile(started(2, 0)),
            stored(generation=2, wall_ms=5),
        ),
    ),
    Row(
        "the last member leaves during a rebalance",
        State.PREPARING_REBALANCE,
        State.EMPTY,
        (*TWO_PREPARING, MemberRemoved("g", "b", Removal.LEFT)),
        LeaveGroup("g", (Leaver("a"),)),
        (
            Volatile(MemberRemoved("g", "a", Removal.LEFT)),
            Volatile(started(2, 0)),
            stored(generation=2, wall_ms=5),
        ),
        (Reply(TOKEN, (LeaveResult("a", None),)),),
    ),
    Row(
        "the leader's sync makes the group stable",
        State.COMPLETING_REBALANCE,
        State.STABLE,
        (*TWO_COMPLETING, MemberSyncing("g", "b", 12)),
        SyncGroup("g", 1, "a", assignments={"a": b"A", "b": b"B"}),
        (Volatile(AssignmentReceived("g", 1, "a")), stored(("a", b"A"), ("b", b"B"), wall_ms=5)),
        (Reply(12, assigned(b"B")), Reply(TOKEN, assigned(b"A"))),
    ),
    Row(
        "a new member interrupts those who wait for the assignment",
        State.COMPLETING_REBALANCE,
        State.PREPARING_REBALANCE,
        (*TWO_COMPLETING, MemberSyncing("g", "b", 12)),
        join(),
        (Volatile(member("new", TOKEN)), prepared(1, "Adding new member new")),
        (Reply(12, SyncResult(Error.REBALANCE_IN_PROGRESS)),),
    ),
    Row(
        "a member with other protocols interrupts those who wait for the assignment",
        State.COMPLETING_REBALANCE,
        State.PREPARING_REBALANCE,
        TWO_COMPLETING,
        join("b", RANGE + STICKY),
        (
            Volatile(MemberRejoined("g", "b", 10, 60, RANGE + STICKY, TOKEN)),
            prepared(1, "Updating metadata for member b during CompletingRebalance"),
        ),
    ),
    Row(
        "a member leaves before the assignment is known",
        State.COMPLETING_REBALANCE,
        State.PREPARING_REBALANCE,
        (*TWO_COMPLETING, MemberSyncing("g", "b", 12)),
        LeaveGroup("g", (Leaver("b"),)),
        (
            Volatile(MemberRemoved("g", "b", Removal.LEFT)),
            prepared(1, "explicit `LeaveGroup` request for (b) members"),
        ),
        (
            Reply(12, SyncResult(Error.UNKNOWN_MEMBER_ID)),
            Reply(TOKEN, (LeaveResult("b", None),)),
        ),
    ),
    Row(
        "a member's session ends before the assignment is known",
        State.COMPLETING_REBALANCE,
        State.PREPARING_REBALANCE,
        TWO_COMPLETING,
        ExpireSession("g", "a"),
        (
            Volatile(MemberRemoved("g", "a", Removal.EXPIRED)),
            prepared(1, "removing member a on heartbeat expiration"),
        ),
    ),
    Row(
        "members that do not sync in time are removed",
        State.COMPLETING_REBALANCE,
        State.PREPARING_REBALANCE,
        (*TWO_COMPLETING, MemberSyncing("g", "b", 12)),
        ExpireSync("g", 1),
        (
            Volatile(MemberRemoved("g", "a", Removal.NOT_SYNCED)),
            prepared(1, "Removing ['a'] on pending sync request expiration"),
        ),
        (Reply(12, SyncResult(Error.REBALANCE_IN_PROGRESS)),),
    ),
    Row(
        "a static member that returns before the assignment is known interrupts",
        State.COMPLETING_REBALANCE,
        State.PREPARING_REBALANCE,
        (NEW, member("a", 11, "i"), RebalancePrepared("g", 0, "", 0), member("b", 12),
         started(1, 2, 0)),
        replace(join(), instance_id="i"),
        (
            Volatile(
                StaticMemberReplaced("g", "i", "a", "new", "c", "/h", 10, 60, RANGE, TOKEN)
            ),
            prepared(1, "Updating metadata for static member new with instance id i"),
        ),
    ),
    Row(
        "a new member makes a stable group rebalance",
        State.STABLE,
        State.PREPARING_REBALANCE,
        ONE_STABLE,
        join(),
        (Volatile(member("new", TOKEN)), prepared(1, "Adding new member new")),
    ),
    Row(
        "the leader joins again",
        State.STABLE,
        State.PREPARING_REBALANCE,
        TWO_STABLE,
        join("a"),
        (
            Volatile(MemberRejoined("g", "a", 10, 60, RANGE, TOKEN)),
            prepared(1, "Leader a re-joining group during Stable"),
        ),
    ),
    Row(
        "a follower joins again with other protocols",
        State.STABLE,
        State.PREPARING_REBALANCE,
        TWO_STABLE,
        join("b", RANGE + STICKY),
        (
            Volatile(MemberRejoined("g", "b", 10, 60, RANGE + STICKY, TOKEN)),
            prepared(1, "Updating metadata for member b during Stable"),
        ),
    ),
    Row(
        "a member leaves a stable group",
        State.STABLE,
        State.PREPARING_REBALANCE,
        TWO_STABLE,
        LeaveGroup("g", (Leaver("b"),)),
        (
            Volatile(MemberRemoved("g", "b", Removal.LEFT)),
            prepared(1, "explicit `LeaveGroup` request for (b) members"),
        ),
        (Reply(TOKEN, (LeaveResult("b", None),)),),
    ),
    Row(
        "a member's session ends in a stable group",
        State.STABLE,
        State.PREPARING_REBALANCE,
        TWO_STABLE,
        ExpireSession("g", "b"),
        (
            Volatile(MemberRemoved("g", "b", Removal.EXPIRED)),
            prepared(1, "removing member b on heartbeat expiration"),
        ),
    ),
    Row(
        "a member of a stable group never asks for its assignment",
        State.STABLE,
        State.PREPARING_REBALANCE,
        (*TWO_COMPLETING, stored(("a", b"A"), ("b", b"B")), AssignmentReceived("g", 1, "a")),
        ExpireSync("g", 1),
        (
            Volatile(MemberRemoved("g", "b", Removal.NOT_SYNCED)),
            prepared(1, "Removing ['b'] on pending sync request expiration"),
        ),
    ),
)  # fmt: skip


def story(*given: object) -> Transcript:
    settings = GroupSettings(session_timeout_min_ms=1, initial_rebalance_delay_ms=3)
    return Transcript(GroupMachine(settings), wall_ms=5).given(*given)


def state(transcript: Transcript) -> State:
    machine = transcript.machine
    assert isinstance(machine, GroupMachine)
    return machine.groups["g"].state if "g" in machine.groups else State.DEAD


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.promise)
def test_a_group_moves_as_its_table_says(row: Row) -> None:
    transcript = story(*row.given)
    assert state(transcript) is row.before
    transcript.when(row.when)
    assert transcript.decision.facts == row.facts
    assert transcript.decision.replies == row.replies
    assert state(transcript) is row.after


def test_every_legal_move_has_a_transcript() -> None:
    told = {(row.before, row.after) for row in ROWS}
    assert told == {(before, after) for before, moves in MOVES.items() for after in moves}


def test_a_group_that_is_left_by_its_last_member_is_empty_at_once() -> None:
    transcript = story(*ONE_STABLE).when(LeaveGroup("g", (Leaver("a"),)))
    assert transcript.facts == (
        Volatile(MemberRemoved("g", "a", Removal.LEFT)),
        prepared(1, "explicit `LeaveGroup` request for (a) members"),
        Volatile(started(2, 0)),
        stored(generation=2, wall_ms=5),
    )
    assert state(transcript) is State.EMPTY


def test_a_lone_leader_that_joins_again_is_answered_at_once() -> None:
    transcript = story(*ONE_STABLE).when(join("a"))
    assert transcript.answer == joined("a", 2, "a", "a")
    assert state(transcript) is State.COMPLETING_REBALANCE


def test_a_first_join_stores_the_group_before_anything_else() -> None:
    transcript = story().when(join())
    assert transcript.facts[0] == GroupStored("g", None, 0, None, None, 5)
    assert transcript.decision.timers == (
        Timer(("session", "g", "new"), 300_000, ExpireSession("g", "new")),
        Timer(("join", "g"), 3, CompleteInitialJoin("g", 3, 57)),
        Timer(("sync", "g"), None),
    )


def test_the_first_generation_of_members_is_watched_and_has_to_sync_in_time() -> None:
    transcript = story(*INITIAL).when(CompleteInitialJoin("g", 3, 57))
    assert transcript.decision.timers == (
        Timer(("join", "g"), None),
        Timer(("session", "g", "a"), 10, ExpireSession("g", "a")),
        Timer(("sync", "g"), 60, ExpireSync("g", 1)),
    )


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (TWO_STABLE, CompleteJoin("g")),
        (TWO_STABLE, CompleteInitialJoin("g", 3, 57)),
        (TWO_STABLE, ExpireSync("g", 1)),
        (TWO_COMPLETING, ExpireSync("g", 0)),
        (TWO_STABLE, ExpireSession("g", "stranger")),
        ((*B_WAITS,), ExpireSession("g", "b")),
        ((*TWO_COMPLETING, MemberSyncing("g", "b", 12)), ExpireSession("g", "b")),
        ((), ExpireSession("g", "a")),
        ((), CompleteJoin("g")),
    ],
)
def test_a_timer_that_comes_too_late_changes_nothing(
    given: tuple[object, ...], command: object
) -> None:
    transcript = story(*given).when(command)
    assert transcript.decision.facts == ()
    assert transcript.decision.replies == ()
