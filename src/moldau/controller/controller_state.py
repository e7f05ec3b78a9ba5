"""The cluster as the controller knows it, changed by facts alone.

Pure. `Draft` is a cluster image that can still be changed: the machine keeps one, and every commit
makes the next immutable image through one, so the two cannot disagree on what a fact means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from moldau.controller.controller_facts import (
    BrokerRegistered,
    ConfigKind,
    ConfigsChanged,
    FeaturesUpdated,
    PartitionsAdded,
    PartitionsChanged,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from moldau.model.cluster import BrokerNode, ClusterImage, TopicImage
from moldau.model.names import BrokerId, TopicId


class Draft:
    __slots__ = (
        "broker_configs",
        "brokers",
        "client_metrics",
        "cluster_id",
        "controller_id",
        "features",
        "features_epoch",
        "group_configs",
        "topic_configs",
        "topic_names",
        "topics",
    )

    def __init__(self, image: ClusterImage) -> None:
        self.cluster_id = image.cluster_id
        self.controller_id = image.controller_id
        self.brokers: dict[BrokerId, BrokerNode] = dict(image.brokers)
        self.topics: dict[str, TopicImage] = dict(image.topics)
        self.topic_names: dict[TopicId, str] = dict(image.topic_names)
        self.topic_configs: dict[str, Mapping[str, str]] = dict(image.topic_configs)
        self.broker_configs: dict[str, Mapping[str, str]] = dict(image.broker_configs)
        self.group_configs: dict[str, Mapping[str, str]] = dict(image.group_configs)
        self.client_metrics: dict[str, Mapping[str, str]] = dict(image.client_metrics)
        self.features: Mapping[str, int] = image.features
        self.features_epoch = image.features_epoch

    def image(self) -> ClusterImage:
        """Takes the mappings as they are: the draft must not be used after that."""
        return ClusterImage(
            self.cluster_id,
            self.controller_id,
            self.brokers,
            self.topics,
            self.topic_names,
            self.topic_configs,
            self.broker_configs,
            self.group_configs,
            self.client_metrics,
            self.features,
            self.features_epoch,
        )

    def apply(self, fact: object) -> None:
        match fact:
            case TopicCreated(name, topic_id, partitions, configs):
                self.topics[name] = TopicImage(name, topic_id, partitions)
                self.topic_names[topic_id] = name
                if configs:
                    self.topic_configs[name] = configs
            case PartitionsAdded(topic, topic_id, partitions) | PartitionsChanged(
                topic, topic_id, partitions
            ):
                self.topics[topic] = TopicImage(topic, topic_id, partitions)
            case TopicDeleted(name, topic_id):
                del self.topics[name]
                del self.topic_names[topic_id]
                self.topic_configs.pop(name, None)
            case ConfigsChanged(ConfigKind.TOPIC, name, overrides):
                self.topic_configs[name] = overrides
            case ConfigsChanged(ConfigKind.BROKER, name, overrides):
                self.broker_configs[name] = overrides
            case ConfigsChanged(ConfigKind.GROUP, name, overrides):
                _replace(self.group_configs, name, overrides)
            case ConfigsChanged(ConfigKind.CLIENT_METRICS, name, overrides):
                _replace(self.client_metrics, name, overrides)
            case FeaturesUpdated(levels, epoch):
                self.features, self.features_epoch = levels, epoch
            case BrokerRegistered(node):
                self.brokers[node.id] = node
            case ProducerIdsAllocated():
                pass
            case _:
                raise AssertionError(f"unknown fact {fact!r}")


def _replace(
    configs: dict[str, Mapping[str, str]], name: str, overrides: Mapping[str, str]
) -> None:
    """What has no settings left is not a thing any more: these exist by their settings alone."""
    if overrides:
        configs[name] = overrides
    else:
        configs.pop(name, None)


def image_after(image: ClusterImage, facts: Iterable[object]) -> ClusterImage:
    draft = Draft(image)
    for fact in facts:
        draft.apply(fact)
    return draft.image()


class ControllerState:
    """The draft, and what only the controller needs to know."""

    __slots__ = ("cluster", "collisions", "producer_id_next")
    has_many_brokers = False

    def __init__(self, image: ClusterImage, producer_id_next: int = 0) -> None:
        self.cluster = Draft(image)
        self.producer_id_next = producer_id_next
        self.collisions: dict[str, set[str]] = {}
        """Topics by their name in metrics, where '.' and '_' are the same."""
        for name in image.topics:
            self._note_name(name)

    def apply(self, fact: object) -> None:
        self.cluster.apply(fact)
        match fact:
            case TopicCreated(name):
                self._note_name(name)
            case TopicDeleted(name):
                self._forget_name(name)
            case ProducerIdsAllocated(_, ids):
                assert ids.start >= self.producer_id_next, f"{ids} was allocated before"
                self.producer_id_next = ids.stop

    @property
    def brokers_online(self) -> Collection[BrokerId]:
        """Those that may lead."""
        return self.cluster.brokers

    def colliding_with(self, name: str) -> set[str]:
        return self.collisions.get(name_in_metrics(name), set()) - {name}

    def _note_name(self, name: str) -> None:
        if "." in name or "_" in name:
            self.collisions.setdefault(name_in_metrics(name), set()).add(name)

    def _forget_name(self, name: str) -> None:
        names = self.collisions.get(name_in_metrics(name))
        if names is not None:
            names.discard(name)
            if not names:
                del self.collisions[name_in_metrics(name)]


def name_in_metrics(topic: str) -> str:
    return topic.replace(".", "_")
