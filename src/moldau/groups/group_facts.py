"""What happened to groups and their offsets.

The durable ones come first: each is written as Kafka's own records, and replaying them rebuilds all
that outlives a restart. The volatile ones tell who waits, who has to come back and which step of a
rebalance a group is in; a restart forgets them, and members find out by their next request.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from moldau.engine.machine import Token
from moldau.model.names import NO_TOPIC_ID, Millis, Offset, TopicId, TopicPartition

NO_TIMESTAMP = -1
"""For the time of a group's state that was never stored, and for offsets without a time limit."""
LAST_TIMESTAMP = 2**63 - 1
"""The records know no later one: what is to be kept for longer is kept for ever."""


class Protocol(NamedTuple):
    """A way of sharing the work that a member knows, and what it wants to tell the leader."""

    name: str
    metadata: bytes


class StoredMember(NamedTuple):
    """A member as the log keeps it: of its protocols only the one that was chosen."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Millis
    session_timeout_ms: Millis
    subscription: bytes
    assignment: bytes


class CommittedOffset(NamedTuple):
    offset: Offset
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: Millis
    expire_timestamp_ms: Millis = NO_TIMESTAMP
    topic_id: TopicId = NO_TOPIC_ID


PlacedOffset = tuple[TopicPartition, CommittedOffset]


class GroupStored(NamedTuple):
    """The group is exactly this: empty, or stable with every member's assignment."""

    group_id: str
    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: Millis
    members: tuple[StoredMember, ...] = ()


class GroupDeleted(NamedTuple):
    group_id: str
    generation: int = 0


class OffsetsCommitted(NamedTuple):
    group_id: str
    offsets: tuple[PlacedOffset, ...]


class TransactionalOffsetsCommitted(NamedTuple):
    """They count when the producer's transaction is committed."""

    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[PlacedOffset, ...]


class TransactionEnded(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


class OffsetsRemoved(NamedTuple):
    group_id: str
    places: tuple[TopicPartition, ...]


class MemberPending(NamedTuple):
    """A member was told its id and has to come back with it."""

    group_id: str
    member_id: str


class PendingMemberRemoved(NamedTuple):
    group_id: str
    member_id: str


class MemberAdded(NamedTuple):
    """A new member, waiting for the others."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocol_type: str
    protocols: tuple[Protocol, ...]
    token: Token


class MemberRejoined(NamedTuple):
    """A known member, perhaps with other protocols, waiting for the others."""

    group_id: str
    member_id: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocols: tuple[Protocol, ...]
    token: Token


class StaticMemberReplaced(NamedTuple):
    """The instance is back under a new member id and keeps its predecessor's place (KIP-345)."""

    group_id: str
    instance_id: str
    member_id_old: str
    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocols: tuple[Protocol, ...]
    token: Token
    """Zero if it need not wait."""


class Removal(Enum):
    """Why a member is gone."""

    EXPIRED = "its session ended"
    LEFT = "it left"
    NOT_REJOINED = "it did not rejoin in time"
    NOT_SYNCED = "it did not sync in time"
    NO_ROOM = "the group is full"


class MemberRemoved(NamedTuple):
    group_id: str
    member_id: str
    why: Removal
    client_reason: str | None = None


class RebalancePrepared(NamedTuple):
    """Everybody has to join again; syncs that waited were refused."""

    group_id: str
    generation: int
    reason: str
    timestamp_ms: Millis


class InitialJoinExtended(NamedTuple):
    group_id: str


class LeaderElected(NamedTuple):
    group_id: str
    member_id: str
    member_id_old: str


class GenerationStarted(NamedTuple):
    """Joins that waited are answered, and the leader's assignment is awaited. With nobody left the
    group is empty instead."""

    group_id: str
    generation: int
    protocol: str | None
    timestamp_ms: Millis
    member_count: int


class MemberSyncing(NamedTuple):
    """A follower, waiting for the leader's assignment."""

    group_id: str
    member_id: str
    token: Token


class MemberSynced(NamedTuple):
    """A late member has fetched its assignment."""

    group_id: str
    member_id: str


class AssignmentReceived(NamedTuple):
    group_id: str
    generation: int
    leader: str


Durable = (
    GroupStored
    | GroupDeleted
    | OffsetsCommitted
    | TransactionalOffsetsCommitted
    | TransactionEnded
    | OffsetsRemoved
)
