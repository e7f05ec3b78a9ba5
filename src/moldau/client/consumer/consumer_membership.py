"""A consumer's place in its group: what to ask the coordinator, and what its answers mean.

Pure: `consumer_coordinator.py` sends the requests, hands in the answers and the time, and does what
the verdict says. A member that was reset has no generation, and whatever it owned is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from moldau.client.consumer.consumer_records import ConsumerGroupMetadata
from moldau.model.errors import Error
from moldau.model.names import Millis
from moldau.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1


class MemberState(Enum):
    """UNJOINED: no member. REBALANCING: join is sent, no share yet. STABLE: has its share."""

    UNJOINED = "unjoined"
    REBALANCING = "rebalancing"
    STABLE = "stable"


MOVES: dict[MemberState, tuple[MemberState, ...]] = {
    MemberState.UNJOINED: (MemberState.REBALANCING,),
    MemberState.REBALANCING: (MemberState.STABLE, MemberState.UNJOINED),
    MemberState.STABLE: (MemberState.REBALANCING, MemberState.UNJOINED),
}


class Verdict(Enum):
    """What an answer of the coordinator asks for."""

    FINE = "go on"
    AGAIN = "ask again at once"
    WAIT = "ask again after a pause"
    REDISCOVER = "look the coordinator up again"
    REJOIN = "join again"
    FAIL = "tell the user"


class Identity(NamedTuple):
    """Who asked: an answer to an earlier self changes nothing."""

    generation_id: int
    member_id: str


@dataclass(frozen=True, slots=True)
class GroupSettings:
    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int


_LOST_COORDINATOR = {Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR}


class Membership:
    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.state = MemberState.UNJOINED
        self.generation_id = NO_GENERATION
        self.member_id = ""
        self.protocol_name = ""
        self.is_leader = False
        self.rejoin_reason: str | None = "initial join"
        self._awaits_join = False
        self._heartbeat_at: Millis = 0
        self._poll_end: Millis = 0

    @property
    def identity(self) -> Identity:
        return Identity(self.generation_id, self.member_id)

    @property
    def has_generation(self) -> bool:
        return self.generation_id != NO_GENERATION and self.member_id != ""

    @property
    def needs_rejoin(self) -> bool:
        return self.rejoin_reason is not None

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        settings = self.settings
        return ConsumerGroupMetadata(
            settings.group_id, self.generation_id, self.member_id, settings.group_instance_id
        )

    def request_rejoin(self, reason: str) -> None:
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def reset(self, reason: str, *, keep_member_id: bool = False) -> None:
        """The coordinator no longer knows this member, or it left: start from the beginning."""
        if self.state is not MemberState.UNJOINED:
            self._move(MemberState.UNJOINED)
        self.generation_id = NO_GENERATION
        self.is_leader = False
        if not keep_member_id:
            self.member_id = ""
        self.rejoin_reason = reason

    def _move(self, state: MemberState) -> None:
        assert state in MOVES[self.state], f"{self.state} to {state}"
        self.state = state

    # What to send.

    def join_request(self, subscriptions: Sequence[tuple[str, bytes]]) -> JoinGroupRequest:
        """`subscriptions`: name of an assignor and what its leader should know, best first."""
        settings = self.settings
        if self.state is not MemberState.REBALANCING:
            self._move(MemberState.REBALANCING)
        self._awaits_join = True
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in subscriptions
            ],
            reason=(self.rejoin_reason or "")[:255],
        )

    def sync_request(self, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        settings = self.settings
        return SyncGroupRequest(
            group_id=settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=share)
                for member, share in assignments.items()
            ],
        )

    def heartbeat_request(self, now: Millis) -> HeartbeatRequest:
        settings = self.settings
        self._heartbeat_at = now + settings.heartbeat_interval_ms
        return HeartbeatRequest(
            group_id=settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
        )

    def heartbeat_failed(self, retry_at: Millis) -> None:
        """No answer: the next one is due then."""
        self._heartbeat_at = retry_at

    def leave_request(self, reason: str) -> LeaveGroupRequest | None:
        """None for those who have nothing to leave: static members come back as who they were."""
        if self.settings.group_instance_id is not None or not self.member_id:
            return None
        member = MemberIdentity(member_id=self.member_id, reason=reason[:255])
        return LeaveGroupRequest(
            group_id=self.settings.group_id, member_id=self.member_id, members=[member]
        )

    # What the answers mean.

    def joined(self, response: JoinGroupResponse, now: Millis) -> Verdict:
        match response.error_code:
            case Error.NONE:
                self.generation_id = response.generation_id
                self.member_id = response.member_id
                self.protocol_name = response.protocol_name or ""
                self.is_leader = response.leader == response.member_id
                self._awaits_join = False
                # A reason that comes up from here on is one for the next round.
                self.rejoin_reason = None
                self._heard(now)
                return Verdict.FINE
            case Error.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                self.rejoin_reason = f"need to re-join with the given member-id: {self.member_id}"
                return Verdict.AGAIN
            case Error.UNKNOWN_MEMBER_ID:
                self.reset("encountered UNKNOWN_MEMBER_ID from JOIN_GROUP response")
                return Verdict.AGAIN
            case Error.ILLEGAL_GENERATION:
                self.reset("encountered ILLEGAL_GENERATION from JOIN_GROUP response")
                return Verdict.AGAIN
            case Error.COORDINATOR_LOAD_IN_PROGRESS | Error.REBALANCE_IN_PROGRESS:
                return Verdict.WAIT
        return self._other(response.error_code)

    def synced(self, error_code: int, asked_by: Identity) -> Verdict:
        if asked_by != self.identity or self.state is not MemberState.REBALANCING:
            # The heartbeat has found out in the meantime that the group moved on.
            self.request_rejoin("the group went on while the share was on its way")
            return Verdict.REJOIN
        match error_code:
            case Error.NONE:
                self._move(MemberState.STABLE)
                return Verdict.FINE
            case Error.REBALANCE_IN_PROGRESS:
                self.request_rejoin("rebalance failed as the group began another one")
                return Verdict.REJOIN
            case Error.UNKNOWN_MEMBER_ID | Error.ILLEGAL_GENERATION:
                name = Error(error_code).name
                self.reset(
                    f"encountered {name} from SYNC_GROUP response",
                    keep_member_id=error_code == Error.ILLEGAL_GENERATION,
                )
                return Verdict.REJOIN
        self.request_rejoin("rebalance failed on the way")
        verdict = self._other(error_code)
        return Verdict.REJOIN if verdict is Verdict.WAIT else verdict

    def heartbeat_answered(self, error_code: int, asked_by: Identity, now: Millis) -> Verdict:
        if asked_by != self.identity:
            return Verdict.FINE
        match error_code:
            case Error.NONE:
                self._heard(now)
                return Verdict.FINE
            case Error.REBALANCE_IN_PROGRESS:
                # Still a member: the coordinator waits for it to join again.
                self._heard(now)
                if self.state is MemberState.STABLE:
                    self.request_rejoin("group is already rebalancing")
                    return Verdict.REJOIN
                return Verdict.FINE
            case Error.UNKNOWN_MEMBER_ID | Error.ILLEGAL_GENERATION:
                name = Error(error_code).name
                self.reset(
                    f"encountered {name} from HEARTBEAT response",
                    keep_member_id=error_code == Error.ILLEGAL_GENERATION,
                )
                return Verdict.REJOIN
        verdict = self._other(error_code)
        return Verdict.FINE if verdict is Verdict.WAIT else verdict

    def commit_answered(self, error_code: int, asked_by: Identity) -> Verdict:
        """REJOIN here means that the commit failed for good: the partitions have new owners."""
        match error_code:
            case Error.NONE:
                return Verdict.FINE
            case Error.UNKNOWN_MEMBER_ID | Error.ILLEGAL_GENERATION:
                if asked_by == self.identity and self.has_generation:
                    name = Error(error_code).name
                    self.reset(
                        f"encountered {name} from OFFSET_COMMIT response",
                        keep_member_id=error_code == Error.ILLEGAL_GENERATION,
                    )
                return Verdict.REJOIN
            case Error.REBALANCE_IN_PROGRESS:
                self.request_rejoin("offset commit failed since group is already rebalancing")
                return Verdict.FAIL
            case Error.UNKNOWN_TOPIC_OR_PARTITION | Error.UNSTABLE_OFFSET_COMMIT:
                return Verdict.WAIT
            case Error.REQUEST_TIMED_OUT:
                return Verdict.REDISCOVER
        return self._other(error_code)

    def _other(self, error_code: int) -> Verdict:
        if error_code in _LOST_COORDINATOR:
            return Verdict.REDISCOVER
        if error_code == Error.COORDINATOR_LOAD_IN_PROGRESS:
            return Verdict.WAIT
        return Verdict.FAIL

    # The clock.

    def polled(self, now: Millis) -> None:
        self._poll_end = now + self.settings.max_poll_interval_ms

    def is_poll_overdue(self, now: Millis) -> bool:
        return self.state is not MemberState.UNJOINED and now >= self._poll_end

    def is_heartbeat_due(self, now: Millis) -> bool:
        return self.beats and now >= self._heartbeat_at

    @property
    def beats(self) -> bool:
        """From the answer to the join on; before it the coordinator does not expect any."""
        if self.state is MemberState.REBALANCING and self._awaits_join:
            return False
        return self.state is not MemberState.UNJOINED and self.has_generation

    def wake_at(self) -> Millis:
        """When to look again for something due."""
        return min(self._heartbeat_at, self._poll_end)

    def _heard(self, now: Millis) -> None:
        self._heartbeat_at = max(self._heartbeat_at, now + self.settings.heartbeat_interval_ms)
