"""A group of the classic protocol: its states, and how facts change it.

    Empty ──first join──> PreparingRebalance ──all joined, or time is up──> CompletingRebalance
      ^                     ^    │ nobody left         a member comes, goes, changes │   │
      │                     │    └──────> Empty        (back to PreparingRebalance) <┘   │
      └─> Dead              └──a member comes, goes, changes── Stable <──leader's sync───┘

What to do next is decided elsewhere (joining, rebalancing, syncing, leaving); here a fact is taken
as it is. `copy` lets a decision look ahead without touching the real group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from moldau.engine.machine import NO_TOKEN, Timer
from moldau.groups import group_facts
from moldau.groups.classic.classic_members import MEMBER_BYTES, Member, loaded_member
from moldau.groups.classic.group_timers import session_key
from moldau.groups.classic.member_identity import generation_error
from moldau.groups.classic.subscribed_topics import (
    CONSUMER_PROTOCOL_TYPE,
    is_subscribed,
    subscribed_topics,
)
from moldau.groups.group_commands import (
    NO_MEMBER_ID,
    CommitOffsets,
    CommitTransactionalOffsets,
    ExpireSession,
)
from moldau.model.clock import Now
from moldau.model.errors import Error
from moldau.model.names import Millis


class State(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """Gone: no group is kept in this state."""


MOVES: Final = {
    State.EMPTY: {State.PREPARING_REBALANCE, State.DEAD},
    State.PREPARING_REBALANCE: {State.COMPLETING_REBALANCE, State.EMPTY},
    State.COMPLETING_REBALANCE: {State.STABLE, State.PREPARING_REBALANCE},
    State.STABLE: {State.PREPARING_REBALANCE},
    State.DEAD: set[State](),
}
"""The legal moves. Loading starts in Empty or Stable, as the log says."""

TYPE_NAME = "classic"
GROUP_BYTES = 2_000
"""What a group takes apart from its members and its name."""


class ClassicGroup:
    __slots__ = (
        "generation",
        "group_id",
        "has_newcomer",
        "joining_count",
        "kept_bytes",
        "leader",
        "members",
        "pending",
        "protocol",
        "protocol_counts",
        "protocol_type",
        "state",
        "state_before",
        "state_timestamp_ms",
        "static_members",
        "unsynced",
    )

    def __init__(
        self, group_id: str, state_timestamp_ms: Millis = group_facts.NO_TIMESTAMP
    ) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.state_before = State.DEAD
        self.state_timestamp_ms = state_timestamp_ms
        self.protocol_type: str | None = None
        """None for a group that only keeps offsets."""
        self.generation = 0
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.pending: dict[str, None] = {}
        """Ids that were handed out and have not come back yet, in order."""
        self.unsynced: dict[str, None] = {}
        """Members that have not asked for their assignment of this generation, in order."""
        self.joining_count = 0
        self.protocol_counts: Counter[str] = Counter()
        """How many members know each protocol."""
        self.kept_bytes = GROUP_BYTES + len(group_id)
        """About what it takes in memory, its offsets apart."""
        self.has_newcomer = False
        """Somebody has come while a new group waits for more."""

    def copy(self) -> ClassicGroup:
        twin = ClassicGroup.__new__(ClassicGroup)
        for name in ClassicGroup.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.members = self.members.copy()
        twin.static_members = self.static_members.copy()
        twin.pending = self.pending.copy()
        twin.unsynced = self.unsynced.copy()
        twin.protocol_counts = self.protocol_counts.copy()
        return twin

    @property
    def has_everybody_joined(self) -> bool:
        return self.joining_count == len(self.members) and not self.pending

    @property
    def is_in_initial_join(self) -> bool:
        return self.state is State.PREPARING_REBALANCE and self.state_before is State.EMPTY

    @property
    def rebalance_timeout_ms(self) -> Millis:
        """As long as the slowest member may take."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: tuple[group_facts.Protocol, ...]) -> bool:
        """Whether somebody with these protocols could be a member: one must be known to all."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        everybody = len(self.members)
        return any(self.protocol_counts[known.name] == everybody for known in protocols)

    def chosen_protocol(self) -> str:
        """Each member votes for the one it likes best of those known to all; most votes win."""
        everybody = len(self.members)
        candidates = {name for name, count in self.protocol_counts.items() if count == everybody}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # What every kind of group is asked (`groups/group.py`)

    @property
    def type_name(self) -> str:
        return TYPE_NAME

    @property
    def state_name(self) -> str:
        return self.state

    @property
    def is_unused(self) -> bool:
        return self.state is State.EMPTY and not self.pending

    @property
    def offsets_unused_since_ms(self) -> Millis | None:
        """Those of a group that never had members are judged one by one."""
        has_had_members = self.protocol_type is not None
        if not has_had_members or self.state is not State.EMPTY:
            return None
        known = self.state_timestamp_ms != group_facts.NO_TIMESTAMP
        return self.state_timestamp_ms if known else None

    def topics_in_use(self) -> frozenset[str] | None:
        if self.protocol_type is None or self.state is State.EMPTY:
            return frozenset()
        return subscribed_topics(self) if self.state is State.STABLE else None

    def is_subscribed_to(self, topic: str) -> bool:
        return is_subscribed(self, topic)

    def deletion_error(self) -> Error:
        return Error.NONE if self.state is State.EMPTY else Error.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> Error:
        """What the members work on is known for consumers only."""
        is_known = self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return Error.NONE if is_known else self.deletion_error()

    def timers_of_deletion(self) -> tuple[Timer, ...]:
        """Whoever was handed an id here is not waited for any more."""
        return tuple(Timer(session_key(self.group_id, each), None) for each in self.pending)

    def heard_from(self, member_id: str, now: Now) -> tuple[Timer, ...]:
        member = self.members.get(member_id)
        if member is None:
            return ()
        key, at_ms = session_key(self.group_id, member_id), member.session_timeout_ms
        return (Timer(key, now.monotonic_ms + at_ms, ExpireSession(self.group_id, member_id)),)

    def commit_error(self, command: CommitOffsets | CommitTransactionalOffsets) -> Error:
        error = self._sender_error(command)
        is_plain = isinstance(command, CommitOffsets)
        if is_plain and error is Error.NONE and self.state is State.COMPLETING_REBALANCE:
            # The member has heard of the new generation, but what it commits may already be
            # somebody else's: it has to sync first.
            return Error.REBALANCE_IN_PROGRESS
        return error

    def _sender_error(self, command: CommitOffsets | CommitTransactionalOffsets) -> Error:
        if command.generation < 0 and self.state is State.EMPTY:
            return Error.NONE
        claims_membership = (
            command.generation >= 0
            or command.member_id != NO_MEMBER_ID
            or command.instance_id is not None
        )
        if claims_membership:
            return generation_error(
                self, command.member_id, command.instance_id, command.generation
            )
        # Older transactional producers do not say for which member they commit.
        if isinstance(command, CommitTransactionalOffsets) or self.state is State.EMPTY:
            return Error.NONE
        return Error.UNKNOWN_MEMBER_ID

    # Facts

    def apply(self, fact: object) -> None:
        _APPLIED_BY[type(fact)](self, fact)

    def _move(self, state: State, timestamp_ms: Millis) -> None:
        assert state in MOVES[self.state], f"{self.group_id}: {state} cannot follow {self.state}"
        self.state_before = self.state
        self.state = state
        self.state_timestamp_ms = timestamp_ms

    def _put(self, member: Member) -> None:
        """Add or replace, and keep the counts true."""
        self._forget(self.members.get(member.member_id))
        self.members[member.member_id] = member
        self.kept_bytes += member.kept_bytes
        self.joining_count += member.is_joining
        self.protocol_counts.update({known.name for known in member.protocols})
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _forget(self, member: Member | None) -> None:
        if member is None:
            return
        self.kept_bytes -= member.kept_bytes
        self.joining_count -= member.is_joining
        for name in {known.name for known in member.protocols}:
            self.protocol_counts[name] -= 1
            if not self.protocol_counts[name]:
                # A member may name others every time it comes.
                del self.protocol_counts[name]
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)

    def _stored(self, fact: group_facts.GroupStored) -> None:
        state = State.STABLE if fact.members else State.EMPTY
        if self.state is State.COMPLETING_REBALANCE:
            self._move(state, fact.state_timestamp_ms)
        else:
            # Nothing moves if the group was emptied or a static member replaced; replay sees only
            # what was stored, and nothing of the way from there to here.
            self.state = state
            self.state_timestamp_ms = fact.state_timestamp_ms
        self.protocol_type = fact.protocol_type
        self.generation = fact.generation
        self.protocol = fact.protocol
        self.leader = fact.leader
        known, self.members = self.members, {}
        self.kept_bytes -= sum(member.kept_bytes for member in known.values())
        self.static_members.clear()
        self.protocol_counts.clear()
        self.joining_count = 0
        for stored in fact.members:
            self._put(_as_stored(known.get(stored.member_id), stored, fact.protocol or ""))

    def _pending(self, fact: group_facts.MemberPending) -> None:
        self._forget_pending(fact.member_id)
        self.pending[fact.member_id] = None
        self.kept_bytes += MEMBER_BYTES + len(fact.member_id)

    def _forget_pending(self, member_id: str) -> None:
        if member_id in self.pending:
            del self.pending[member_id]
            self.kept_bytes -= MEMBER_BYTES + len(member_id)

    def _pending_removed(self, fact: group_facts.PendingMemberRemoved) -> None:
        self._forget_pending(fact.member_id)

    def _added(self, fact: group_facts.MemberAdded) -> None:
        assert fact.member_id not in self.members, f"{fact.member_id} is a member already"
        if not self.members:
            self.protocol_type = fact.protocol_type
        if self.is_in_initial_join:
            self.has_newcomer = True
        self._put(
            Member(
                fact.member_id,
                fact.instance_id,
                fact.client_id,
                fact.client_host,
                fact.session_timeout_ms,
                fact.rebalance_timeout_ms,
                fact.protocols,
                join_token=fact.token,
                is_new=True,
            )
        )
        self._forget_pending(fact.member_id)
        if self.leader is None:
            self.leader = fact.member_id

    def _rejoined(self, fact: group_facts.MemberRejoined) -> None:
        self._put(
            self.members[fact.member_id]._replace(
                session_timeout_ms=fact.session_timeout_ms,
                rebalance_timeout_ms=fact.rebalance_timeout_ms,
                protocols=fact.protocols,
                join_token=fact.token,
            )
        )

    def _replaced(self, fact: group_facts.StaticMemberReplaced) -> None:
        old = self.members.pop(fact.member_id_old)
        self._forget(old)
        self._put(
            Member(
                fact.member_id,
                fact.instance_id,
                fact.client_id,
                fact.client_host,
                fact.session_timeout_ms,
                fact.rebalance_timeout_ms,
                fact.protocols,
                old.assignment,
                join_token=fact.token,
            )
        )
        if self.leader == fact.member_id_old:
            self.leader = fact.member_id
        if fact.member_id_old in self.unsynced:
            del self.unsynced[fact.member_id_old]
            self.unsynced[fact.member_id] = None

    def _removed(self, fact: group_facts.MemberRemoved) -> None:
        self._forget(self.members.pop(fact.member_id))
        self.unsynced.pop(fact.member_id, None)
        if self.leader == fact.member_id:
            self.leader = next(iter(self.members), None)

    def _prepared(self, fact: group_facts.RebalancePrepared) -> None:
        if self.state is State.COMPLETING_REBALANCE:
            for member in self.members.values():
                self.kept_bytes -= len(member.assignment)
                self.members[member.member_id] = member._replace(
                    assignment=b"", sync_token=NO_TOKEN
                )
        self._move(State.PREPARING_REBALANCE, fact.timestamp_ms)
        self.unsynced.clear()
        self.has_newcomer = False

    def _extended(self, fact: group_facts.InitialJoinExtended) -> None:
        self.has_newcomer = False

    def _elected(self, fact: group_facts.LeaderElected) -> None:
        self.leader = fact.member_id

    def _generation_started(self, fact: group_facts.GenerationStarted) -> None:
        self.generation = fact.generation
        self.protocol = fact.protocol
        self.has_newcomer = False
        empty = not self.members
        self._move(State.EMPTY if empty else State.COMPLETING_REBALANCE, fact.timestamp_ms)
        for member in self.members.values():
            self.members[member.member_id] = member._replace(join_token=NO_TOKEN, is_new=False)
        self.joining_count = 0
        self.unsynced = dict.fromkeys(self.members)

    def _syncing(self, fact: group_facts.MemberSyncing) -> None:
        self.members[fact.member_id] = self.members[fact.member_id]._replace(sync_token=fact.token)
        self.unsynced.pop(fact.member_id, None)

    def _synced(self, fact: group_facts.MemberSynced) -> None:
        self.unsynced.pop(fact.member_id, None)

    def _assignment_received(self, fact: group_facts.AssignmentReceived) -> None:
        self.unsynced.pop(fact.leader, None)


def _as_stored(known: Member | None, stored: group_facts.StoredMember, protocol: str) -> Member:
    """A live member keeps the protocols that were not chosen, for later votes: only replay, which
    never knew them, takes the record's word for everything."""
    loaded = loaded_member(stored, protocol)
    if known is None or known.metadata(protocol) != stored.subscription:
        return loaded
    return loaded._replace(protocols=known.protocols)


_APPLIED_BY: dict[type, Callable[[ClassicGroup, Any], None]] = {
    group_facts.GroupStored: ClassicGroup._stored,
    group_facts.MemberPending: ClassicGroup._pending,
    group_facts.PendingMemberRemoved: ClassicGroup._pending_removed,
    group_facts.MemberAdded: ClassicGroup._added,
    group_facts.MemberRejoined: ClassicGroup._rejoined,
    group_facts.StaticMemberReplaced: ClassicGroup._replaced,
    group_facts.MemberRemoved: ClassicGroup._removed,
    group_facts.RebalancePrepared: ClassicGroup._prepared,
    group_facts.InitialJoinExtended: ClassicGroup._extended,
    group_facts.LeaderElected: ClassicGroup._elected,
    group_facts.GenerationStarted: ClassicGroup._generation_started,
    group_facts.MemberSyncing: ClassicGroup._syncing,
    group_facts.MemberSynced: ClassicGroup._synced,
    group_facts.AssignmentReceived: ClassicGroup._assignment_received,
}
