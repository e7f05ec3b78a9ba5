"""What can become true of a cluster of several brokers, beside what holds for one as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.model.cluster import BrokerNode
from moldau.model.names import BrokerId, TopicPartition

Replica = tuple[TopicPartition, BrokerId]


class LiveBroker(NamedTuple):
    node: BrokerNode
    epoch: int
    """The transaction that registered it: a broker that comes back has another."""


class Liveness(NamedTuple):
    """Which replicas can serve; replaced whole."""

    brokers: Mapping[BrokerId, LiveBroker] = {}
    shutting_down: frozenset[BrokerId] = frozenset()
    """Alive, and told to be relieved of leadership."""
    offline: frozenset[Replica] = frozenset()
    """Their broker lives, the disk they are on does not."""

    def is_alive(self, broker: BrokerId, place: TopicPartition) -> bool:
        """Also while the broker shuts down: it still holds the records."""
        return broker in self.brokers and (place, broker) not in self.offline

    def is_online(self, broker: BrokerId, place: TopicPartition) -> bool:
        return self.is_alive(broker, place) and broker not in self.shutting_down

    def seeing(self, brokers: Mapping[BrokerId, LiveBroker]) -> Liveness:
        """The same with these brokers: one that is gone or came back is not known for anything."""
        same = {b for b, live in brokers.items() if live.epoch == self.epoch_of(b)}
        return Liveness(
            brokers,
            self.shutting_down & same,
            frozenset(row for row in self.offline if row[1] in same),
        )

    def disks_seen(
        self,
        broker: BrokerId,
        offline: Iterable[TopicPartition],
        online: Iterable[TopicPartition],
    ) -> Liveness:
        """The same after the broker has told which of its replicas can serve."""
        back = {(place, broker) for place in online}
        gone = {(place, broker) for place in offline}
        return self._replace(offline=self.offline - back | gone)

    def epoch_of(self, broker: BrokerId) -> int | None:
        live = self.brokers.get(broker)
        return None if live is None else live.epoch


class LivenessChanged(NamedTuple):
    """Volatile: ephemeral nodes say who lives, brokers say the rest."""

    liveness: Liveness
    joined: tuple[BrokerId, ...] = ()
    gone: tuple[BrokerId, ...] = ()
    bounced: tuple[BrokerId, ...] = ()
    """Gone and back before anybody looked."""


class DeletionsQueued(NamedTuple):
    """Durable if a client asked this controller; volatile if the tree already says so."""

    topics: tuple[str, ...]


class DeletionsDropped(NamedTuple):
    """Nodes of deletions that will not be done are removed."""

    topics: tuple[str, ...]


class TopicsForgotten(NamedTuple):
    """Volatile: their nodes are gone though nobody asked for their deletion. Brokers stop serving
    them and keep their logs."""

    topics: tuple[str, ...]


class UnreadableSeen(NamedTuple):
    """Volatile: topics whose nodes hold something that cannot be read, these and no others."""

    topics: frozenset[str]


class ReadingBegun(NamedTuple):
    """Volatile: what changes from now on may or may not be in what is read."""


class ReplicasDeleted(NamedTuple):
    """Volatile: a broker has answered that these are gone from its disk."""

    broker: BrokerId
    places: tuple[TopicPartition, ...]


class TookOver(NamedTuple):
    """Volatile: this controller has begun its term and tells everybody everything."""


class MovesFollowed(NamedTuple):
    """Volatile: /admin/reassign_partitions asked for the moves of these partitions."""

    places: tuple[TopicPartition, ...]


class UncleanDefaultChanged(NamedTuple):
    """Volatile: what holds for topics that do not say it themselves."""

    is_allowed: bool


class AdminNodeRemoved(NamedTuple):
    """What a tool asked for through a node is done or refused."""

    path: str


class PreferredElected(NamedTuple):
    """Volatile: said to operators, the partitions tell the rest."""

    leaders: Mapping[TopicPartition, BrokerId]
