"""Who leads when brokers come, go and stop: the rules behind the four election strategies.

Pure, one partition at a time. A leader is chosen in the order of the replicas, from those that are
in sync and online; from any that is online only where unclean elections are allowed. Every change
here is told to brokers with a new leader epoch.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.controller.cluster_facts import Liveness
from moldau.controller.cluster_state import has_state
from moldau.model.cluster import NO_LEADER, PartitionImage
from moldau.model.names import BrokerId, TopicPartition


def settled(
    partition: PartitionImage, place: TopicPartition, liveness: Liveness, *, allows_unclean: bool
) -> PartitionImage:
    """The partition as it should be with these brokers; the same one if it is."""
    if not has_state(partition):
        return first_led(partition, place, liveness)
    alive = tuple(b for b in partition.isr if liveness.is_alive(b, place))
    if partition.leader != NO_LEADER and liveness.is_alive(partition.leader, place):
        return partition if alive == partition.isr else replace(partition, isr=alive)
    elected = offline_elected(partition, place, liveness, allows_unclean=allows_unclean)
    if elected is not None:
        return elected
    # Nobody may lead. If none of them lives, each still has every committed record.
    return replace(partition, leader=NO_LEADER, isr=alive or partition.isr)


def first_led(
    partition: PartitionImage, place: TopicPartition, liveness: Liveness
) -> PartitionImage:
    """A new partition: whoever lives is in sync, since there is nothing to catch up with."""
    online = tuple(b for b in partition.replicas if liveness.is_online(b, place))
    if not online:
        return partition
    return replace(partition, leader=online[0], isr=online)


def offline_elected(
    partition: PartitionImage, place: TopicPartition, liveness: Liveness, *, allows_unclean: bool
) -> PartitionImage | None:
    online = [b for b in partition.replicas if liveness.is_online(b, place)]
    in_sync = next((b for b in online if b in partition.isr), None)
    if in_sync is not None:
        return replace(
            partition, leader=in_sync, isr=tuple(b for b in partition.isr if b in online)
        )
    if online and allows_unclean:
        # What only the others have is given up, so none of them is in sync any more.
        return replace(partition, leader=online[0], isr=(online[0],))
    return None


def relieved(
    partition: PartitionImage, place: TopicPartition, broker: BrokerId, liveness: Liveness
) -> PartitionImage:
    """Without the broker, which is about to stop; the same one if nobody can take its place."""
    stopping = liveness.shutting_down | {broker}
    if partition.leader != broker:
        if broker not in partition.isr or len(partition.isr) == 1:
            return partition
        return replace(partition, isr=tuple(b for b in partition.isr if b != broker))
    leader = next(
        (
            b
            for b in partition.replicas
            if b in partition.isr and b not in stopping and liveness.is_alive(b, place)
        ),
        None,
    )
    if leader is None:
        return partition
    isr = tuple(b for b in partition.isr if b not in stopping)
    return replace(partition, leader=leader, isr=isr)


def may_return(partition: PartitionImage, place: TopicPartition, liveness: Liveness) -> bool:
    """Whether the preferred replica could lead and does not."""
    first = partition.replicas[0]
    return partition.leader != first and first in partition.isr and liveness.is_online(first, place)
