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
    ReadingBegun,
    Replica,
    ReplicasDeleted,
    TookOver,
    TopicsForgotten,
    UncleanDefaultChanged,
    UnreadableSeen,
)
from moldau.controller.controller_facts import (
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from moldau.controller.controller_state import ControllerState
from moldau.controller.election_cells import ElectionCells
from moldau.metadata import paths
from moldau.model.cluster import NO_STATE, ClusterImage, PartitionImage, TopicImage
from moldau.model.names import BrokerId, TopicPartition

UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ClusterState(ControllerState):
    __slots__ = (
        "deleting",
        "elections",
        "leftovers",
        "liveness",
        "moves_followed",
        "touched",
        "unclean_by_default",
        "unreadable",
    )
    has_many_brokers = True

    def __init__(
        self,
        image: ClusterImage,
        liveness: Liveness,
        producer_id_next: int = 0,
        *,
        unclean_by_default: bool = False,
        unreadable: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(image, producer_id_next)
        self.liveness = liveness
        self.unclean_by_default = unclean_by_default
        self.unreadable = unreadable
        """Topics that are in the tree but whose nodes cannot be read: nobody touches them."""
        self.deleting: dict[str, set[Replica]] = {}
        """Topics that are going, with the replicas that nobody has confirmed as gone."""
        self.elections = ElectionCells()
        self.leftovers: dict[Replica, int] = {}
        """Replicas of partitions that were moved away, until their broker has confirmed that they
        are gone, and the leader epoch of the move."""
        self.moves_followed: set[TopicPartition] = set()
        self.touched: set[str] = set()
        """Topics, and paths of nodes of tools, that this controller has changed since somebody
        began to read the tree: what was read of them may be from before or after the change."""

    def apply(self, fact: object) -> None:
        self.touched.update(_touched_by(fact))
        match fact:
            case ReadingBegun():
                self.touched = set()
            case LivenessChanged(liveness):
                self.liveness = liveness
                self.cluster.brokers = {b: live.node for b, live in liveness.brokers.items()}
            case DeletionsQueued(topics):
                for name in topics:
                    self.deleting[name] = set(replicas_of(self.cluster.topics[name]))
            case ReplicasDeleted(broker, places):
                for place in places:
                    self.deleting.get(place.topic, set()).discard((place, broker))
                    self.leftovers.pop((place, broker), None)
            case PartitionsChanged():
                self._move(fact)
                super().apply(fact)
            case MovesFollowed(places):
                self.moves_followed = set(places)
            case UnreadableSeen(topics):
                self.unreadable = topics
            case UncleanDefaultChanged(is_allowed):
                self.unclean_by_default = is_allowed
            case TookOver() | DeletionsDropped() | AdminNodeRemoved() | PreferredElected():
                pass
            case TopicsForgotten():
                pass  # the deletion of each from the state follows
            case TopicDeleted(name):
                super().apply(fact)
                self.deleting.pop(name, None)
                gone = [row for row in self.leftovers if row[0].topic == name]
                for row in gone:
                    del self.leftovers[row]
            case _:
                super().apply(fact)

    def _move(self, fact: PartitionsChanged) -> None:
        topic = self.cluster.topics.get(fact.topic)
        if topic is not None:
            for number in fact.changed:
                if number < len(topic.partitions):
                    self.elections.see(topic.partitions[number], fact.all_partitions[number])
        if not fact.is_reassigned or topic is None:
            return
        for number in fact.changed:
            place, after = TopicPartition(fact.topic, number), fact.all_partitions[number]
            for broker in after.replicas:
                self.leftovers.pop((place, broker), None)
            before = topic.partitions[number].replicas if number < len(topic.partitions) else ()
            for broker in before:
                if broker not in after.replicas:
                    self.leftovers[place, broker] = after.leader_epoch

    def allows_unclean(self, topic: str) -> bool:
        value = self.cluster.topic_configs.get(topic, {}).get(UNCLEAN_ELECTION)
        return self.unclean_by_default if value is None else is_true(value)

    @property
    def brokers_online(self) -> Collection[BrokerId]:
        return self.liveness.brokers.keys() - self.liveness.shutting_down


def _touched_by(fact: object) -> Iterable[str]:
    match fact:
        case TopicCreated() | TopicDeleted():
            return (fact.name,)
        case PartitionsAdded():
            return (fact.topic,)
        case DeletionsQueued(topics) | DeletionsDropped(topics):
            return topics
        case AdminNodeRemoved(path):
            return (path,)
        case MovesFollowed():
            return (paths.REASSIGN_PARTITIONS,)
    return ()


def is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def places_of(topic: TopicImage) -> Iterable[tuple[TopicPartition, PartitionImage]]:
    for number, partition in enumerate(topic.partitions):
        yield TopicPartition(topic.name, number), partition


def replicas_of(topic: TopicImage) -> Iterable[Replica]:
    return ((place, b) for place, partition in places_of(topic) for b in partition.replicas)


def has_state(partition: PartitionImage) -> bool:
    return partition.partition_epoch != NO_STATE
