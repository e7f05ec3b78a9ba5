"""What a controller wants of the replicas on one broker, in words that need no wire protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from moldau.replication.following.replication_throttle import Throttle
from moldau.replication.replica import Replica
from moldau.storage.log.log_at_rest import AnyLog

EPOCH_OF_DELETION = -2
"""Stands in for a leader epoch where a topic is deleted: it wins over any other."""
NO_EPOCH = -1


class Role(NamedTuple):
    """What the controller wants of one replica on this broker."""

    topic_partition: TopicPartition
    topic_id: TopicId
    state: PartitionImage
    is_new: bool = False
    """The partition was just made: nobody has any records of it."""


class Stop(NamedTuple):
    topic_partition: TopicPartition
    leader_epoch: int
    deletes: bool


class Followers(Protocol):
    """Whoever fetches for the replicas that follow."""

    def follow(self, replica: Replica) -> None: ...

    def unfollow(self, places: Iterable[TopicPartition]) -> None: ...

    def slow_down(self, throttle: Throttle) -> None:
        """From now on go by this."""


def role_refusal(
    role: Role, node_id: BrokerId, existing: AnyLog | None, replica: Replica | None
) -> Error:
    """Why the role cannot be taken, with the log and the replica that are there; or NONE."""
    if node_id not in role.state.replicas:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    # A log that nobody uses yet is set aside if it is another topic's.
    topic_id = NO_TOPIC_ID if existing is None or replica is None else existing.topic_id
    if NO_TOPIC_ID not in (topic_id, role.topic_id) and topic_id != role.topic_id:
        return Error.INCONSISTENT_TOPIC_ID
    if replica is not None and role.state.leader_epoch < replica.partition.leader_epoch:
        return Error.STALE_CONTROLLER_EPOCH
    return Error.NONE


def is_stale(stop: Stop, replica: Replica | None) -> bool:
    known_epoch = NO_EPOCH if replica is None else replica.partition.leader_epoch
    has_epoch = stop.leader_epoch not in (EPOCH_OF_DELETION, NO_EPOCH)
    return has_epoch and stop.leader_epoch <= known_epoch
