"""What the group coordinator can be asked, as plain data.

Handlers make these from requests; timers make the last ones. The machine asks no clock and draws no
random numbers: `wall_ms` is the time of day, for what is stored, and `new_member_id` is an id that
nobody else has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.groups.facts import Protocol
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, Millis, Offset, TopicId, TopicPartition

NO_MEMBER_ID = ""
NO_GENERATION = -1
DEFAULT_RETENTION = -1


class JoinGroup(NamedTuple):
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
    wall_ms: Millis = 0


class SyncGroup(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = {}
    """By member id; only the leader sends any."""
    wall_ms: Millis = 0


class Heartbeat(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    wall_ms: Millis = 0


class Leaver(NamedTuple):
    member_id: str
    instance_id: str | None = None
    """With this alone an administrator removes a static member."""
    reason: str | None = None


class LeaveGroup(NamedTuple):
    group_id: str
    members: tuple[Leaver, ...]
    wall_ms: Millis = 0


class OffsetRow(NamedTuple):
    """One position to commit."""

    place: TopicPartition
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: TopicId = NO_TOPIC_ID


class CommitOffsets(NamedTuple):
    group_id: str
    offsets: tuple[OffsetRow, ...]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    retention_ms: Millis = DEFAULT_RETENTION
    unknown_group_error: Error = Error.ILLEGAL_GENERATION
    """What a member of a group that does not exist is told: clients differ in what they know."""
    wall_ms: Millis = 0


class CommitTransactionalOffsets(NamedTuple):
    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetRow, ...]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    wall_ms: Millis = 0


class EndTransaction(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


class TopicOffsets(NamedTuple):
    """Positions that are asked for."""

    topic: str
    partitions: tuple[int, ...]
    topic_id: TopicId = NO_TOPIC_ID


class FetchOffsets(NamedTuple):
    group_id: str
    topics: tuple[TopicOffsets, ...] | None
    """None asks for everything that the group has committed."""
    require_stable: bool = False


class DeleteOffsets(NamedTuple):
    group_id: str
    places: tuple[TopicPartition, ...]


class DescribeGroup(NamedTuple):
    group_id: str


class ListGroups(NamedTuple):
    states: frozenset[str] = frozenset()
    """In small letters; empty for all."""
    types: frozenset[str] = frozenset()


class DeleteGroup(NamedTuple):
    group_id: str


class DeletedTopic(NamedTuple):
    name: str
    id: TopicId


class ForgetTopics(NamedTuple):
    """The topics are gone: nobody needs positions in them."""

    topics: tuple[DeletedTopic, ...]


class ExpireOffsets(NamedTuple):
    """The periodic job: drop offsets past their retention and groups that have nothing left."""

    wall_ms: Millis


class Loaded(NamedTuple):
    """All facts of the past are applied: members have to be watched again."""

    wall_ms: Millis


class ExpireSession(NamedTuple):
    group_id: str
    member_id: str
    wall_ms: Millis


class CompleteJoin(NamedTuple):
    """The members that have not rejoined had their time."""

    group_id: str
    wall_ms: Millis


class CompleteInitialJoin(NamedTuple):
    """A new group has waited; it waits on if somebody has come meanwhile and time remains."""

    group_id: str
    delay_ms: Millis
    remaining_ms: Millis
    wall_ms: Millis


class ExpireSync(NamedTuple):
    group_id: str
    generation: int
    wall_ms: Millis
