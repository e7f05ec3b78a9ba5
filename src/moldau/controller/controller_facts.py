"""What can become true of the cluster, in the past tense. The journal writes facts to the tree, the
state and the image are what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from moldau.metadata import paths
from moldau.model.cluster import BrokerNode, PartitionImage
from moldau.model.names import BrokerId, TopicId


class TopicCreated(NamedTuple):
    name: str
    id: TopicId
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str]
    """Overrides only."""

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


class PartitionsAdded(NamedTuple):
    topic: str
    id: TopicId
    all_partitions: tuple[PartitionImage, ...]
    """The old ones too: the node of the topic names them all."""
    count_before: int

    @property
    def added(self) -> tuple[PartitionImage, ...]:
        return self.all_partitions[self.count_before :]


class PartitionsChanged(NamedTuple):
    """Partitions of one topic have another leader, other replicas, or both."""

    topic: str
    id: TopicId
    all_partitions: tuple[PartitionImage, ...]
    changed: tuple[int, ...]
    is_reassigned: bool
    """Replicas came, went or changed places, which stands in the node of the topic."""


class TopicDeleted(NamedTuple):
    name: str
    id: TopicId
    partition_count: int
    was_queued: bool = False
    """A node under /admin/delete_topics asked for it, and goes with the topic."""
    without_state: frozenset[int] = frozenset()
    """Partitions for which no controller has ever chosen a leader."""


class ConfigKind(Enum):
    TOPIC = "topics"
    BROKER = "brokers"
    GROUP = "groups"
    CLIENT_METRICS = "client-metrics"

    @property
    def is_plain(self) -> bool:
        """Whether names stand in the tree as they are; those that clients choose freely do not."""
        return self in (ConfigKind.TOPIC, ConfigKind.BROKER)

    def entity(self, name: str) -> str:
        """As the tree names the thing, and notes about its changes."""
        return f"{self.value}/{name if self.is_plain else paths.entity_name(name)}"


class ConfigsChanged(NamedTuple):
    kind: ConfigKind
    name: str
    """A topic, a broker id as text, "<default>" for all brokers, a group, a subscription."""
    overrides: Mapping[str, str]
    """All that hold from now on."""
    is_first: bool = False
    """Nothing is set for this name, so the tree has no node for it yet."""

    def __repr__(self) -> str:
        """For logs: values may be passwords."""
        return f"ConfigsChanged({self.kind.value} {self.name!r} now sets {sorted(self.overrides)})"


class BrokerRegistered(NamedTuple):
    """Volatile: the broker's ephemeral node says it, for as long as the broker lives."""

    node: BrokerNode


class ProducerIdsAllocated(NamedTuple):
    broker: BrokerId
    ids: range


class FeaturesUpdated(NamedTuple):
    levels: Mapping[str, int]
    """All that differ from the highest."""
    epoch: int


Fact = (
    TopicCreated
    | PartitionsAdded
    | PartitionsChanged
    | TopicDeleted
    | ConfigsChanged
    | BrokerRegistered
    | ProducerIdsAllocated
    | FeaturesUpdated
)
