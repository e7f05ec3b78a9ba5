"""The cluster as one broker knows it: immutable, replaced whole when anything changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.model.names import BrokerId, TopicId

NO_LEADER: BrokerId = -1
NO_STATE = -1
"""Stands for the version of a partition's state where there is none yet."""


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BrokerNode(NamedTuple):
    id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionImage:
    leader: BrokerId
    leader_epoch: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    partition_epoch: int = 0
    adding: tuple[BrokerId, ...] = ()
    """Replicas that a reassignment brings; `replicas` has them too."""
    removing: tuple[BrokerId, ...] = ()
    """Replicas that go when all the new ones are in sync; until then `replicas` has them."""
    offline: tuple[BrokerId, ...] = ()
    """Replicas whose broker is gone or whose disk is broken, as far as the controller says so."""


class TopicImage(NamedTuple):
    name: str
    id: TopicId
    partitions: tuple[PartitionImage, ...]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class ClusterImage:
    cluster_id: str
    controller_id: BrokerId
    brokers: Mapping[BrokerId, BrokerNode] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[TopicId, str] = field(default_factory=dict)
    """Topic id to name, for requests that name topics by id."""
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Overrides only: what a topic does not override it takes from the broker."""
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic broker settings by broker id as text; "<default>" is for the whole cluster."""
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Overrides by group id; a group that has none is not in it."""
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Subscriptions to the metrics of clients, by name."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Levels of features that were changed; the others are at their highest."""
    features_epoch: int = 0
    """Counts the changes of features, so that clients know the newer of two answers."""
