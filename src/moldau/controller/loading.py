"""The cluster as the znode tree tells it, read in a few bulk reads.

A new controller starts from this. Ten thousand partitions are common, most of them in the same
state, so equal states are decoded and kept once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.metadata import paths
from moldau.metadata.store import MetadataStore, Node
from moldau.model.cluster import NO_LEADER, BrokerNode, ClusterImage, PartitionImage, TopicImage
from moldau.model.names import BrokerId

NO_STATE = -1
"""Stands for the version of a partition's state where there is none yet."""


class LoadedCluster(NamedTuple):
    image: ClusterImage
    producer_id_next: int
    broker_epochs: Mapping[BrokerId, int] = {}


async def load(store: MetadataStore, cluster_id: str, controller_id: BrokerId) -> LoadedCluster:
    topics = await _topics(store)
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
        features=paths.decode_feature(feature.data),
        features_epoch=feature.version,
    )
    block = paths.decode_producer_id_block((await store.get(paths.PRODUCER_ID_BLOCK)).data)
    return LoadedCluster(image, 0 if block is None else block.last + 1, broker_epochs)


async def load_brokers(
    store: MetadataStore,
) -> tuple[dict[BrokerId, BrokerNode], dict[BrokerId, int]]:
    """Those that are registered, and their epochs."""
    ids = [int(name) for name in await store.children(paths.BROKER_IDS)]
    nodes = await store.get_many([paths.broker_path(broker) for broker in ids])
    found = {b: node for b, node in zip(ids, nodes, strict=True) if node is not None}
    brokers = {b: paths.decode_broker(b, node.data) for b, node in found.items()}
    return brokers, {b: node.created_by for b, node in found.items()}


async def _topics(store: MetadataStore) -> list[TopicImage]:
    names = await store.children(paths.TOPICS)
    nodes = await store.get_many([paths.topic_path(name) for name in names])
    topics = [
        (name, paths.decode_topic(node.data))
        for name, node in zip(names, nodes, strict=True)
        if node is not None and node.data
    ]
    state_paths = [
        paths.partition_state_path(name, number)
        for name, topic in topics
        for number in range(len(topic.replicas))
    ]
    states = iter(await store.get_many(state_paths))
    decoded = _Partitions()
    return [
        TopicImage(
            name,
            topic.topic_id,
            # The states lie in the order of the partitions: each topic takes its own.
            tuple(
                decoded.partition(
                    replicas,
                    topic.adding.get(number, ()),
                    topic.removing.get(number, ()),
                    next(states),
                )
                for number, replicas in enumerate(topic.replicas)
            ),
        )
        for name, topic in topics
    ]


class _Partitions:
    """Equal partitions once."""

    def __init__(self) -> None:
        self._made: dict[object, PartitionImage] = {}

    def partition(
        self,
        replicas: tuple[BrokerId, ...],
        adding: tuple[BrokerId, ...],
        removing: tuple[BrokerId, ...],
        state: Node | None,
    ) -> PartitionImage:
        if state is None:
            # Assigned, but no controller has chosen its leader yet.
            return PartitionImage(NO_LEADER, -1, replicas, (), NO_STATE)
        key = (replicas, adding, removing, state.data, state.version)
        made = self._made.get(key)
        if made is None:
            decoded = paths.decode_partition_state(state.data)
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
    decoded = _decoded_configs(zip(names, nodes, strict=True))
    return {name: config for name, config in decoded if config or keep_empty}


def _decoded_configs(
    rows: Iterable[tuple[str, Node | None]],
) -> Iterable[tuple[str, dict[str, str]]]:
    return (
        (paths.name_of_entity(part), paths.decode_config(node.data))
        for part, node in rows
        if node is not None
    )
