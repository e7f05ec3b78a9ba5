"""What the group coordinator can be asked, as plain data.

Handlers make these from requests; timers make the last ones. A command that somebody waits for
names what it is answered by. The machine asks no clock and draws no
random numbers: the engine tells it the time, and `new_member_id` is an id that nobody else has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.engine.machine import Command
from moldau.groups.group_facts import Protocol
from moldau.groups.group_results import (
    DescribedGroup,
    FetchedTopic,
    JoinResult,
    LeaveResult,
    ListedGroup,
    PartitionResult,
    SyncResult,
)
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, Millis, Offset, TopicId, TopicPartition

NO_MEMBER_ID = ""
NO_GENERATION = -1
DEFAULT_RETENTION = -1


@dataclass(frozen=True, slots=True)
class JoinGroup(Command[JoinResult]):
    grows = True
    group_id: str
    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reason: str | None = None
    member_id_required: bool = True
    """The client knows that it has to come back with the id that it is given (KIP-394)."""
    knows_skip_assignment: bool = True
    """The client knows that a leader may be told to leave the assignment as it is (KIP-814)."""


@dataclass(frozen=True, slots=True)
class SyncGroup(Command[SyncResult]):
    grows = True
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    """By member id; only the leader sends any."""


class RefuseAssignment(NamedTuple):
    """The leader's assignment could not be stored."""

    group_id: str
    member_id: str
    error: Error


@dataclass(frozen=True, slots=True)
class Heartbeat(Command[None]):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


class Leaver(NamedTuple):
    member_id: str
    instance_id: str | None = None
    """With this alone an administrator removes a static member."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup(Command[tuple[LeaveResult, ...]]):
    group_id: str
    members: tuple[Leaver, ...]


class OffsetRow(NamedTuple):
    """One position to commit."""

    place: TopicPartition
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class CommitOffsets(Command[tuple[PartitionResult, ...]]):
    grows = True
    group_id: str
    offsets: tuple[OffsetRow, ...]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    retention_ms: Millis = DEFAULT_RETENTION
    unknown_group_error: Error = Error.ILLEGAL_GENERATION
    """What a member of a group that does not exist is told: clients differ in what they know."""


@dataclass(frozen=True, slots=True)
class CommitTransactionalOffsets(Command[tuple[PartitionResult, ...]]):
    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetRow, ...]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class EndTransaction(Command[None]):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


class TopicOffsets(NamedTuple):
    """Positions that are asked for."""

    topic: str
    partitions: tuple[int, ...]
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class FetchOffsets(Command[tuple[FetchedTopic, ...]]):
    group_id: str
    topics: tuple[TopicOffsets, ...] | None
    """None asks for everything that the group has committed."""
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOffsets(Command[tuple[PartitionResult, ...]]):
    group_id: str
    places: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class DescribeGroup(Command[DescribedGroup]):
    group_id: str


@dataclass(frozen=True, slots=True)
class ListGroups(Command[tuple[ListedGroup, ...]]):
    states: frozenset[str] = frozenset()
    """In small letters; empty for all."""
    types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DeleteGroup(Command[bool]):
    """Whether it is gone: one with very many offsets loses some of them each time it is asked."""

    group_id: str


class DeletedTopic(NamedTuple):
    name: str
    id: TopicId


@dataclass(frozen=True, slots=True)
class ForgetTopics(Command[None]):
    """The topics are gone: nobody needs positions in them."""

    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True)
class ExpireOffsets(Command[None]):
    """The periodic job: drop offsets past their retention and groups that have nothing left."""


class Loaded(NamedTuple):
    """All facts of the past are applied: members have to be watched again."""


class ExpireSession(NamedTuple):
    group_id: str
    member_id: str


class CompleteJoin(NamedTuple):
    """The members that have not rejoined had their time."""

    group_id: str


class CompleteInitialJoin(NamedTuple):
    """A new group has waited; it waits on if somebody has come meanwhile and time remains."""

    group_id: str
    delay_ms: Millis
    remaining_ms: Millis


class ExpireSync(NamedTuple):
    group_id: str
    generation: int
