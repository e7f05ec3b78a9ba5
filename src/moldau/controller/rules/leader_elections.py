"""Choosing a leader because somebody asks for it, with Kafka's error codes.

Pure. The preferred leader is the first replica; it may lead only if it lives and is in sync. An
unclean election takes any replica that lives and gives up what only the others had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import IntEnum

from moldau.controller.rules.changed_partitions import ChangedPartitions
from moldau.model.cluster import NO_LEADER, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicPartition

NOT_NEEDED = "Leader election not needed for topic partition."


class Election(IntEnum):
    """Numbered as in the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


def elect(
    partitions: ChangedPartitions,
    asked: TopicPartition,
    election: Election,
    alive: Collection[BrokerId],
) -> None:
    topic = partitions.topic(asked.topic)
    if topic is None:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {asked.topic}")
    partition = partitions.partition(topic, asked.partition)
    if partition is None:
        raise ApiError(
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            f"No such partition as {asked.topic}-{asked.partition}",
        )
    after = (
        preferred(partition, alive) if election is Election.PREFERRED else unclean(partition, alive)
    )
    partitions.put(topic, asked.partition, after)


def preferred(partition: PartitionImage, alive: Collection[BrokerId]) -> PartitionImage:
    first = partition.replicas[0]
    if partition.leader == first:
        raise ApiError(Error.ELECTION_NOT_NEEDED, NOT_NEEDED)
    if first not in partition.isr or first not in alive:
        raise ApiError(
            Error.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    return led_by(partition, first)


def unclean(partition: PartitionImage, alive: Collection[BrokerId]) -> PartitionImage:
    if partition.leader != NO_LEADER:
        raise ApiError(Error.ELECTION_NOT_NEEDED, NOT_NEEDED)
    in_sync = first_of(partition.replicas, partition.isr, alive)
    if in_sync is not None:
        return led_by(partition, in_sync)
    any_replica = first_of(partition.replicas, partition.replicas, alive)
    if any_replica is None:
        raise ApiError(
            Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    # Nobody else may count as in sync: the others have records that this one lacks.
    return replace(led_by(partition, any_replica), isr=(any_replica,))


def first_of(
    replicas: Iterable[BrokerId], allowed: Collection[BrokerId], alive: Collection[BrokerId]
) -> BrokerId | None:
    return next((each for each in replicas if each in allowed and each in alive), None)


def led_by(partition: PartitionImage, leader: BrokerId) -> PartitionImage:
    return replace(partition, leader=leader, leader_epoch=partition.leader_epoch + 1)
