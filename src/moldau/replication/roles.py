"""What a controller wants of the replicas on one broker, in words that need no wire protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from moldau.model.cluster import PartitionImage
from moldau.model.names import TopicId, TopicPartition
from moldau.replication.replica import Replica
from moldau.replication.throttle import Throttle

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
