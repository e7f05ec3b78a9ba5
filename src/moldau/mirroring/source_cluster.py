"""The cluster that is mirrored, over Kafka's protocol: its topics, its records as stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.admin_results import ConfigResource, ConfigSource, OffsetSpec
from moldau.client.shared.client_errors import (
    KafkaError,
)
from moldau.config.topic_config import MIRROR_SOURCE
from moldau.mirroring.mirror_faults import MirrorFault
from moldau.mirroring.partition_mirror import Fetched, PartitionMirror
from moldau.mirroring.raw_fetch import fetch_from
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.transactions import InitProducerIdRequest

NOT_COPIED = frozenset(
    {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
)
"""Settings that speak of a cluster's own brokers."""


class SourceTopic(NamedTuple):
    name: str
    topic_id: bytes
    leader_epochs: tuple[int, ...]
    configs: Mapping[str, str]
    repeats: str = ""
    """What it mirrors itself."""


class SourceCluster:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.admin = AdminCore({**settings, "enable.metrics.push": "false"})
        self.cluster_id = ""

    async def __aenter__(self) -> Self:
        try:
            self.cluster_id = (await self.admin.describe_cluster()).cluster_id or ""
            if not self.cluster_id:
                raise MirrorFault("the source has no cluster id")
        finally:
            if not self.cluster_id:
                await self.admin.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.admin.close()

    async def producer_id(self) -> int:
        """One that it has just given."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await self.admin._from_any(request)
        producer_id: int = answer.producer_id
        return producer_id

    async def names(self) -> list[str]:
        cluster = self.admin.cluster
        await self.admin._try(None, cluster.refresh_all)
        return sorted(
            name
            for name, topic in cluster.topics.items()
            if cluster.topic(name) is not None and not topic.is_internal
        )

    async def topics(self, names: Iterable[str]) -> dict[str, SourceTopic]:
        """Of those that were there when the names were read."""
        wanted = list(names)
        configs = await own_settings(self.admin, wanted)
        found = {}
        for name in wanted:
            topic = self.admin.cluster.topic(name)
            own = configs.get(name)
            if topic is None or own is None or not topic.partitions:
                continue
            if topic.topic_id == NO_TOPIC_ID:
                raise MirrorFault(f"the source gives topic {name} no id, as Kafka before 2.8")
            epochs = tuple(
                topic.partitions[number].leader_epoch for number in sorted(topic.partitions)
            )
            repeats = own.pop(MIRROR_SOURCE, "")
            found[name] = SourceTopic(name, topic.topic_id, epochs, own, repeats)
        return found

    async def offsets(self, place: TopicPartition) -> tuple[int, int]:
        """Where its log starts and ends. Raises KafkaError."""
        found = []
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            outcome = (await self.admin.list_offsets({place: spec}))[place]
            if isinstance(outcome, KafkaError):
                raise outcome
            found.append(outcome.offset)
        return found[0], found[1]

    def leader(self, place: TopicPartition) -> int:
        """-1 while there is none."""
        found = self.admin.cluster.leader(*place)
        return -1 if found is None else found[0]

    async def look_again(self, topics: Iterable[str]) -> None:
        await self.admin.cluster.refresh(list(topics), allow_auto_create=False)

    async def fetch(
        self, node: int, wanted: Sequence[PartitionMirror]
    ) -> dict[TopicPartition, Fetched]:
        """Raises KafkaError, MirrorFault."""
        return await fetch_from(self.admin, node, wanted)


async def own_settings(admin: AdminCore, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """What was set for each topic itself, of those that are there; what it repeats is among it."""
    resources = [ConfigResource.topic(name) for name in topics]
    found = {}
    for resource, entries in (await admin.describe_configs(resources)).items():
        if isinstance(entries, KafkaError):
            continue
        found[resource.name] = {
            entry.name: entry.value
            for entry in entries.values()
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
            and entry.value is not None
            and entry.name not in NOT_COPIED
        }
    return found
