"""What the controller of several brokers knows beside the cluster image: who lives, who is about to
stop, which topics are going, which replicas lost their disk.

Pure, changed by facts alone. All of it but the queue of deletions is volatile: a new controller
reads it from the ephemeral nodes or asks the brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from moldau.controller.cluster_facts import (
    AdminNodeRemoved,
    DeletionsDropped,
    DeletionsQueued,
    Liveness,
    LivenessChanged,
    MovesFollowed,
    PreferredElected,
    Replica,
    ReplicasDeleted,
    TookOver,
    UncleanDefaultChanged,
)
from moldau.controller.facts import TopicDeleted
from moldau.controller.loading import NO_STATE
from moldau.controller.state import ControllerState
from moldau.model.cluster import ClusterImage, PartitionImage, TopicImage
from moldau.model.names import BrokerId, TopicPartition

UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ClusterState(ControllerState):
    __slots__ = ("deleting", "liveness", "moves_followed", "unclean_by_default")
    has_many_brokers = True

    def __init__(
        self,
        image: ClusterImage,
        liveness: Liveness,
        producer_id_next: int = 0,
        *,
        unclean_by_default: bool = False,
    ) -> None:
        super().__init__(image, producer_id_next)
        self.liveness = liveness
        self.unclean_by_default = unclean_by_default
        self.deleting: dict[str, set[Replica]] = {}
        """Topics that are going, with the replicas that nobody has confirmed as gone."""
        self.moves_followed: set[TopicPartition] = set()

    def apply(self, fact: object) -> None:
        match fact:
            case LivenessChanged(liveness):
                self.liveness = liveness
                self.cluster.brokers = {b: live.node for b, live in liveness.brokers.items()}
            case DeletionsQueued(topics):
                for name in topics:
                    self.deleting[name] = set(replicas_of(self.cluster.topics[name]))
            case ReplicasDeleted(broker, places):
                for place in places:
                    self.deleting.get(place.topic, set()).discard((place, broker))
            case MovesFollowed(places):
                self.moves_followed = set(places)
            case UncleanDefaultChanged(is_allowed):
                self.unclean_by_default = is_allowed
            case TookOver() | DeletionsDropped() | AdminNodeRemoved() | PreferredElected():
                pass
            case TopicDeleted(name):
                super().apply(fact)
                self.deleting.pop(name, None)
            case _:
                super().apply(fact)

    def allows_unclean(self, topic: str) -> bool:
        value = self.cluster.topic_configs.get(topic, {}).get(UNCLEAN_ELECTION)
        return self.unclean_by_default if value is None else is_true(value)

    @property
    def brokers_online(self) -> Collection[BrokerId]:
        return self.liveness.brokers.keys() - self.liveness.shutting_down


def is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def places_of(topic: TopicImage) -> Iterable[tuple[TopicPartition, PartitionImage]]:
    for number, partition in enumerate(topic.partitions):
        yield TopicPartition(topic.name, number), partition


def replicas_of(topic: TopicImage) -> Iterable[Replica]:
    return ((place, b) for place, partition in places_of(topic) for b in partition.replicas)


def has_state(partition: PartitionImage) -> bool:
    return partition.partition_epoch != NO_STATE
