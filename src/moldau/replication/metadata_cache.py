"""The cluster as the controller tells it: UpdateMetadata requests become one image after another.

Pure. The controller sends all live brokers every time, but of topics only what changed. Settings
do not come this way; whoever reads them puts them in with `with_configs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from moldau.model.cluster import (
    NO_LEADER,
    BrokerNode,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from moldau.model.names import NO_TOPIC_ID, BrokerId, TopicId
from moldau.wire.messages.replication import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

LEADER_DURING_DELETE: BrokerId = -2
"""In the place of a leader: the partition is being deleted."""
FULL = 2
"""The type of a request that names all topics."""
SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
NOBODYS = PartitionImage(NO_LEADER, -1, (), ())
"""Stands for a partition of which nothing was told yet."""

Partitions = dict[int, PartitionImage | None]
"""Changes by number; None is a deletion."""


class ClusterView:
    def __init__(self, node_id: BrokerId, cluster_id: str) -> None:
        self.node_id = node_id
        self.image = ClusterImage(cluster_id, NO_LEADER)
        self.controller_epoch = 0
        """Of the newest controller that was heard: requests of an older one are refused."""

    def is_stale(self, controller_epoch: int) -> bool:
        return controller_epoch < self.controller_epoch

    def heard(self, controller_epoch: int) -> None:
        assert controller_epoch >= self.controller_epoch
        self.controller_epoch = controller_epoch

    def update_metadata(self, request: UpdateMetadataRequest) -> ClusterImage:
        self.heard(request.controller_epoch)
        old = self.image
        topics, topic_names = dict(old.topics), dict(old.topic_names)
        if request.type == FULL:
            # What is told now is all there is; topics may have gone while nobody could tell us.
            topics, topic_names = {}, {}
        for name, (topic_id, changes) in _changes(request).items():
            _change_topic(topics, topic_names, name, topic_id, changes)
        brokers = {broker.id: _node(broker) for broker in request.live_brokers}
        self.image = replace(
            old,
            controller_id=request.controller_id,
            brokers=old.brokers if brokers == old.brokers else brokers,
            topics=old.topics if topics == old.topics else topics,
            topic_names=topic_names,
        )
        return self.image

    def with_configs(self, **settings: Mapping[str, Any] | int) -> ClusterImage:
        """`topic_configs`, `broker_configs`, `group_configs`, `client_metrics`, `features` or
        `features_epoch` of the image, replaced."""
        self.image = replace(self.image, **settings)  # type: ignore[arg-type]
        return self.image


def _changes(request: UpdateMetadataRequest) -> dict[str, tuple[TopicId, Partitions]]:
    changes: dict[str, tuple[TopicId, Partitions]] = {}
    for row in request.ungrouped_partition_states:
        _, partitions = changes.setdefault(row.topic_name, (NO_TOPIC_ID, {}))
        partitions[row.partition_index] = _partition(row)
    for topic in request.topic_states:
        _, partitions = changes.setdefault(topic.topic_name, (topic.topic_id, {}))
        partitions.update(_partitions(topic.partition_states))
    return changes


def _partitions(rows: Iterable[UpdateMetadataPartitionState]) -> Partitions:
    return {row.partition_index: _partition(row) for row in rows}


def _partition(row: UpdateMetadataPartitionState) -> PartitionImage | None:
    if row.leader == LEADER_DURING_DELETE:
        return None
    return PartitionImage(
        row.leader,
        row.leader_epoch,
        tuple(row.replicas),
        tuple(row.isr),
        row.zk_version,
        offline=tuple(row.offline_replicas),
    )


def _change_topic(
    topics: dict[str, TopicImage],
    topic_names: dict[TopicId, str],
    name: str,
    topic_id: TopicId,
    changes: Partitions,
) -> None:
    old = topics.get(name)
    if old is not None and topic_id not in (old.id, NO_TOPIC_ID):
        # Deleted and made anew: nothing of the earlier topic is true any more.
        topic_names.pop(old.id, None)
        old = None
    known: Partitions = {} if old is None else dict(enumerate(old.partitions))
    known.update(changes)
    kept = {number: image for number, image in known.items() if image is not None}
    if not kept:
        topics.pop(name, None)
        topic_names.pop(topic_id if old is None else old.id, None)
        return
    count = max(kept) + 1
    partitions = tuple(kept.get(number, NOBODYS) for number in range(count))
    if topic_id == NO_TOPIC_ID and old is not None:
        topic_id = old.id
    topics[name] = TopicImage(name, topic_id, partitions)
    if topic_id != NO_TOPIC_ID:
        topic_names[topic_id] = name


def _node(broker: UpdateMetadataBroker) -> BrokerNode:
    endpoints = tuple(
        Endpoint(
            endpoint.listener or SECURITY_PROTOCOLS.get(endpoint.security_protocol, ""),
            endpoint.host,
            endpoint.port,
            SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT"),
        )
        for endpoint in broker.endpoints
    )
    return BrokerNode(broker.id, endpoints, broker.rack or None)
