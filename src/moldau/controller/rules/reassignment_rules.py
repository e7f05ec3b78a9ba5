"""Moving replicas to other brokers (KIP-455), with Kafka's error codes and sentences.

Pure. While a partition moves it has the old and the new replicas, and says which ones come and
which ones go. It is done when every new one is in sync: at once, if nothing has to be copied. Where
a move stands is written in the node of the topic, so that another controller can go on with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.changed_partitions import ChangedPartitions
from moldau.controller.rules.leader_elections import first_of
from moldau.controller.rules.replica_placement import Replicas
from moldau.controller.rules.topic_rules import check_replicas
from moldau.model.cluster import NO_LEADER, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId


class Move(NamedTuple):
    topic: str
    partition: int
    replicas: Replicas | None
    """None ends the move that is under way and brings the old replicas back."""


def reassign(
    state: ControllerState,
    partitions: ChangedPartitions,
    move: Move,
    allow_replication_factor_change: bool = True,
) -> None:
    name, number, target = move
    topic = partitions.topic(name)
    if topic is None:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = partitions.partition(topic, number)
    if partition is None:
        raise ApiError(
            Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}."
        )
    alive = state.cluster.brokers
    if target is None:
        after = cancelled(partition, f"{name}:{number}", alive)
    else:
        check_replicas(state, target, None)
        if not allow_replication_factor_change:
            _check_factor(partition, target)
        after = done_if_in_sync(moving(partition, target, alive), alive)
    partitions.put(topic, number, after)


def is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


def moving(
    partition: PartitionImage, target: Replicas, alive: Collection[BrokerId]
) -> PartitionImage:
    """With the old and the new replicas; a move that is under way is replaced.

    What that one was adding goes at once, unless nobody else is in sync: then the records are only
    there, and it goes when the new ones have them.
    """
    given_up = without(partition.adding, target)
    if given_up and without(partition.isr, given_up):
        partition = _left_by(partition, given_up, alive)
        given_up = ()
    old = without(partition.replicas, without(partition.adding, given_up))
    return replace(
        partition,
        replicas=tuple(dict.fromkeys((*target, *old))),
        adding=without(target, old),
        removing=without(old, target),
    )


def done_if_in_sync(partition: PartitionImage, alive: Collection[BrokerId]) -> PartitionImage:
    """The move is over when all that come are in sync, and somebody is who stays."""
    isr = without(partition.isr, partition.removing)
    if not is_moving(partition) or not isr or not set(partition.adding) <= set(isr):
        return partition
    return _settled(partition, partition.removing, alive)


def cancelled(partition: PartitionImage, name: str, alive: Collection[BrokerId]) -> PartitionImage:
    if not is_moving(partition):
        raise ApiError(Error.NO_REASSIGNMENT_IN_PROGRESS)
    if not without(partition.isr, partition.adding):
        raise ApiError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name} because it would require an "
            "unclean leader election.",
        )
    return _settled(partition, partition.adding, alive)


def _settled(
    partition: PartitionImage, gone: Replicas, alive: Collection[BrokerId]
) -> PartitionImage:
    return replace(_left_by(partition, gone, alive), adding=(), removing=())


def _left_by(
    partition: PartitionImage, gone: Replicas, alive: Collection[BrokerId]
) -> PartitionImage:
    replicas, isr = without(partition.replicas, gone), without(partition.isr, gone)
    leader = partition.leader
    if leader not in isr:
        chosen = first_of(replicas, isr, alive)
        leader = NO_LEADER if chosen is None else chosen
    is_new_epoch = leader != partition.leader or len(replicas) < len(partition.replicas)
    return replace(
        partition,
        leader=leader,
        # A replica that goes must not be able to act on what it knew: a new epoch fences it.
        leader_epoch=partition.leader_epoch + is_new_epoch,
        replicas=replicas,
        isr=isr,
        adding=without(partition.adding, gone),
    )


def _check_factor(partition: PartitionImage, target: Replicas) -> None:
    now = len(without(partition.replicas, partition.removing))
    if now != len(target):
        raise ApiError(
            Error.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {now} to {len(target)}",
        )


def without(brokers: Replicas, others: Replicas) -> Replicas:
    return tuple(broker for broker in brokers if broker not in others)
