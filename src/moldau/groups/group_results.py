"""What those who ask the group coordinator are told, as plain data.

A plain refusal is an ApiError. Joins and syncs carry their error in the result, because a refused
join still tells a member id.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, Offset, TopicId, TopicPartition


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    error: Error = Error.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """Only the leader is told."""


class SyncResult(NamedTuple):
    error: Error = Error.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class LeaveResult(NamedTuple):
    member_id: str
    instance_id: str | None
    error: Error = Error.NONE


class PartitionResult(NamedTuple):
    """One row of a commit or a deletion."""

    place: TopicPartition
    error: Error = Error.NONE


class FetchedOffset(NamedTuple):
    partition: int
    offset: Offset = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: Error = Error.NONE


class FetchedTopic(NamedTuple):
    topic: str
    offsets: tuple[FetchedOffset, ...]
    topic_id: TopicId = NO_TOPIC_ID


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str
