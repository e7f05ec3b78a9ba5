"""What state-change.log says of partitions and replicas, in Kafka's sentences. Pure.

A partition that goes offline is told at INFO: Kafka tells it at TRACE, though it is the line that
an operator looks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from moldau.controller.cluster_facts import LivenessChanged
from moldau.controller.controller_facts import (
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from moldau.model.cluster import PartitionImage, TopicImage
from moldau.model.names import BrokerId

NO_LEADER = -1
Before = Callable[[str], Sequence[PartitionImage]]


class StateChange(NamedTuple):
    is_detail: bool
    """Of single replicas, and of what is deleted."""
    kind: str
    """The sentence before its values are put in: lines of one kind are limited together."""
    values: tuple[object, ...]


def state_changes(
    facts: Iterable[object], before: Before, *, with_details: bool
) -> Iterator[StateChange]:
    """`before` has the partitions of a topic as they were; none if it was not there."""
    for fact in facts:
        match fact:
            case TopicCreated(name, _, partitions):
                changes = _appeared(name, 0, partitions)
            case PartitionsAdded(topic, _, _, count_before):
                changes = _appeared(topic, count_before, fact.added)
            case PartitionsChanged(topic, _, after, changed):
                old = before(topic)
                rows = ((f"{topic}-{n}", old[n], after[n]) for n in changed if n < len(old))
                changes = (each for row in rows for each in _moved(*row))
            case TopicDeleted(name):
                changes = _disappeared(name, before(name))
            case _:
                continue
        yield from (each for each in changes if with_details or not each.is_detail)


def liveness_changes(
    fact: LivenessChanged, topics: Mapping[str, TopicImage]
) -> Iterator[StateChange]:
    """Details: what becomes of the replicas of brokers that come and go."""
    for brokers, old, new in (
        ((*fact.gone, *fact.bounced), "OnlineReplica", "OfflineReplica"),
        ((*fact.bounced, *fact.joined), "OfflineReplica", "OnlineReplica"),
    ):
        for topic in topics.values():
            for number, partition in enumerate(topic.partitions):
                for broker in partition.replicas:
                    if broker in brokers:
                        yield _replica(broker, f"{topic.name}-{number}", old, new)


def _appeared(topic: str, first: int, added: Sequence[PartitionImage]) -> Iterator[StateChange]:
    for number, partition in enumerate(added, first):
        place = f"{topic}-{number}"
        yield StateChange(
            False,
            "Changed partition %s state from NonExistentPartition to NewPartition with assigned "
            "replicas %s",
            (place, ",".join(map(str, partition.replicas))),
        )
        for broker in partition.replicas:
            yield _replica(broker, place, "NonExistentReplica", "NewReplica")
        yield _online(place, "NewPartition", partition)
        for broker in partition.replicas:
            yield _replica(broker, place, "NewReplica", "OnlineReplica")


def _moved(place: str, old: PartitionImage, new: PartitionImage) -> Iterator[StateChange]:
    for broker in new.replicas:
        if broker not in old.replicas:
            yield _replica(broker, place, "NonExistentReplica", "NewReplica")
    was_online = old.leader != NO_LEADER
    state = "OnlinePartition" if was_online else "OfflinePartition"
    if new.leader == NO_LEADER:
        if was_online:
            kind = "Changed partition %s state from %s to OfflinePartition"
            yield StateChange(False, kind, (place, state))
    elif new.leader != old.leader or not was_online:
        yield _online(place, state, new)
    elif new.leader_epoch != old.leader_epoch and (gone := set(old.isr) - set(new.isr)):
        kind = (
            "Partition %s state changed to %s after removing replica %s from the ISR as part of "
            "transition to OfflineReplica"
        )
        yield StateChange(False, kind, (place, _described(new), _ids(sorted(gone))))
    for broker in old.replicas:
        if broker not in new.replicas:
            yield from _deleted(broker, place)


def _disappeared(topic: str, partitions: Sequence[PartitionImage]) -> Iterator[StateChange]:
    for number, partition in enumerate(partitions):
        place = f"{topic}-{number}"
        for broker in partition.replicas:
            yield from _deleted(broker, place)
        kind = "Changed partition %s state from %s to %s"
        yield StateChange(True, kind, (place, "OnlinePartition", "OfflinePartition"))
        yield StateChange(True, kind, (place, "OfflinePartition", "NonExistentPartition"))


def _deleted(broker: BrokerId, place: str) -> Iterator[StateChange]:
    steps = (
        "OnlineReplica",
        "OfflineReplica",
        "ReplicaDeletionStarted",
        "ReplicaDeletionSuccessful",
        "NonExistentReplica",
    )
    for old, new in pairwise(steps):
        yield _replica(broker, place, old, new)


def _online(place: str, state: str, partition: PartitionImage) -> StateChange:
    kind = "Changed partition %s from %s to OnlinePartition with state %s"
    return StateChange(False, kind, (place, state, _described(partition)))


def _replica(broker: BrokerId, place: str, old: str, new: str) -> StateChange:
    kind = "Changed state of replica %d for partition %s from %s to %s"
    return StateChange(True, kind, (broker, place, old, new))


def _described(partition: PartitionImage) -> str:
    return (
        f"LeaderAndIsr(leader={partition.leader}, leaderEpoch={partition.leader_epoch}, "
        f"isr=List({_ids(partition.isr)}), leaderRecoveryState=RECOVERED, "
        f"partitionEpoch={partition.partition_epoch})"
    )


def _ids(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(map(str, brokers))
