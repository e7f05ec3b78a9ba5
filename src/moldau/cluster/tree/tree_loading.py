"""The cluster as the znode tree tells it, read in a few bulk reads.

A new controller starts from this. Ten thousand partitions are common, most of them in the same
state, so equal states are decoded and kept once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from moldau.metadata import paths
from moldau.metadata.store import MetadataStore, Node
from moldau.metadata.unreadable_nodes import readable
from moldau.model.cluster import (
    NO_LEADER,
    NO_STATE,
    BrokerNode,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from moldau.model.names import BrokerId

UNREADABLE_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}
"""Of a topic whose settings cannot be read: nothing of it is given up until they can."""


class LoadedCluster(NamedTuple):
    image: ClusterImage
    producer_id_next: int
    broker_epochs: Mapping[BrokerId, int] = {}
    unreadable: frozenset[str] = frozenset()
    """Topics whose nodes, or those of their partitions, hold something that cannot be read."""


async def load(
    store: MetadataStore, cluster_id: str, controller_id: BrokerId, *, hands_out_ids: bool = True
) -> LoadedCluster:
    """A controller that hands out producer ids itself has to know which are gone."""
    topics, unreadable = await _topics(store)
    feature = await store.get(paths.FEATURE)
    brokers, broker_epochs = await load_brokers(store)
    image = ClusterImage(
        cluster_id,
        controller_id,
        brokers=brokers,
        topics={topic.name: topic for topic in topics},
        topic_names={topic.id: topic.name for topic in topics},
        topic_configs=await load_configs(store, paths.TOPIC_CONFIGS),
        broker_configs=await load_configs(store, paths.BROKER_CONFIGS, keep_empty=True),
        group_configs=await load_configs(store, paths.GROUP_CONFIGS),
        client_metrics=await load_configs(store, paths.CLIENT_METRICS),
        features=readable(paths.FEATURE, feature.data, paths.decode_feature) or {},
        features_epoch=feature.version,
    )
    block = None
    if hands_out_ids:
        # Not passed over if it cannot be read: no id may be given out twice.
        block = paths.decode_producer_id_block((await store.get(paths.PRODUCER_ID_BLOCK)).data)
    next_id = 0 if block is None else block.last + 1
    return LoadedCluster(image, next_id, broker_epochs, unreadable)


async def load_brokers(
    store: MetadataStore, before: Mapping[BrokerId, tuple[BrokerNode, int]] | None = None
) -> tuple[dict[BrokerId, BrokerNode], dict[BrokerId, int]]:
    """Those that are registered, and their epochs. A registration that cannot be read counts only
    if it is still the one that was known `before`."""
    names = await store.children(paths.BROKER_IDS)
    ids = [
        broker
        for name in names
        if (broker := readable(f"{paths.BROKER_IDS}/{name}", name.encode(), int)) is not None
    ]
    nodes = await store.get_many([paths.broker_path(broker) for broker in ids])
    brokers: dict[BrokerId, BrokerNode] = {}
    epochs: dict[BrokerId, int] = {}
    for broker, node in zip(ids, nodes, strict=True):
        if node is None:
            continue
        decode = partial(paths.decode_broker, broker)
        found = readable(paths.broker_path(broker), node.data, decode)
        if found is None:
            known, epoch = (before or {}).get(broker, (None, None))
            found = known if epoch == node.created_by else None
        if found is not None:
            brokers[broker], epochs[broker] = found, node.created_by
    return brokers, epochs


async def _topics(store: MetadataStore) -> tuple[list[TopicImage], frozenset[str]]:
    """Those that can be read, and the names of the others."""
    names = await store.children(paths.TOPICS)
    nodes = await store.get_many([paths.topic_path(name) for name in names])
    there = [(n, node.data) for n, node in zip(names, nodes, strict=True) if node and node.data]
    decoded = [(n, readable(paths.topic_path(n), d, paths.decode_topic)) for n, d in there]
    topics = [(name, topic) for name, topic in decoded if topic is not None]
    unreadable = {name for name, topic in decoded if topic is None}
    images = await _images(store, topics)
    unreadable.update(name for (name, _), image in zip(topics, images, strict=True) if not image)
    return [image for image in images if image is not None], frozenset(unreadable)


async def _images(
    store: MetadataStore, topics: Sequence[tuple[str, paths.TopicNode]]
) -> list[TopicImage | None]:
    """None for a topic with a partition whose state cannot be read: nobody knows who has all of
    its records."""
    state_paths = [
        paths.partition_state_path(name, number)
        for name, topic in topics
        for number in range(len(topic.replicas))
    ]
    # The states lie in the order of the partitions: each topic takes its own.
    states = iter(zip(state_paths, await store.get_many(state_paths), strict=True))
    decoded = _Partitions()
    images: list[TopicImage | None] = []
    for name, topic in topics:
        partitions = [
            decoded.partition(
                replicas,
                topic.adding.get(number, ()),
                topic.removing.get(number, ()),
                *next(states),
            )
            for number, replicas in enumerate(topic.replicas)
        ]
        led = tuple(partition for partition in partitions if partition is not None)
        is_whole = len(led) == len(partitions)
        images.append(TopicImage(name, topic.topic_id, led) if is_whole else None)
    return images


class _Partitions:
    """Equal partitions once."""

    def __init__(self) -> None:
        self._made: dict[object, PartitionImage] = {}

    def partition(
        self,
        replicas: tuple[BrokerId, ...],
        adding: tuple[BrokerId, ...],
        removing: tuple[BrokerId, ...],
        path: str,
        state: Node | None,
    ) -> PartitionImage | None:
        if state is None:
            # Assigned, but no controller has chosen its leader yet.
            return PartitionImage(NO_LEADER, -1, replicas, (), NO_STATE)
        key = (replicas, adding, removing, state.data, state.version)
        made = self._made.get(key)
        if made is None:
            decoded = readable(path, state.data, paths.decode_partition_state)
            if decoded is None:
                return None
            made = self._made[key] = PartitionImage(
                decoded.leader,
                decoded.leader_epoch,
                replicas,
                decoded.isr,
                state.version,
                adding,
                removing,
            )
        return made


async def load_configs(
    store: MetadataStore, directory: str, *, keep_empty: bool = False
) -> dict[str, Mapping[str, str]]:
    names = await store.children(directory)
    nodes = await store.get_many([f"{directory}/{name}" for name in names])
    configs: dict[str, Mapping[str, str]] = {}
    for part, node in zip(names, nodes, strict=True):
        path = f"{directory}/{part}"
        name = readable(path, part.encode(), lambda text: paths.name_of_entity(text.decode()))
        if node is None or name is None:
            continue
        config: Mapping[str, str] | None = readable(path, node.data, paths.decode_config)
        if config is None and directory == paths.TOPIC_CONFIGS:
            config = UNREADABLE_SETTINGS
        if config or keep_empty:
            configs[name] = config or {}
    return configs
