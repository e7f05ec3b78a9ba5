"""What a client knows of the cluster: brokers, topics, leaders, coordinators.

Knowledge is asked for topic by topic and grows old: `refresh` asks again for all topics that
somebody was interested in. A leader's epoch never goes back: an answer of a broker that lags
behind does not undo what is known (KIP-320). Nothing here is awaited while state is half changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from moldau.client.network.network_client import Network, Node, coordinator_node
from moldau.client.shared.client_errors import KafkaError, KafkaTimeoutError, code_of, error_for
from moldau.model.errors import RETRIABLE, Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

log = logging.getLogger("moldau.client")

TOPICS_MAX = 100_000
"""Topics remembered; beyond it the oldest are forgotten and asked for again when needed."""


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class PartitionInfo(NamedTuple):
    """One partition as the metadata tells it; `leader` is -1 while there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool
    error: Error
    partitions: dict[int, PartitionInfo]


class Cluster:
    def __init__(self, network: Network, *, metadata_max_age_ms: int) -> None:
        self.network = network
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.version = 0
        """Another number whenever something was learned."""
        self._max_age_s = metadata_max_age_ms / 1000
        self._topics: dict[str, TopicMetadata] = {}
        self._names: dict[bytes, str] = {}
        self._interest: dict[str, None] = {}
        self._refreshed_at: float | None = None
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}

    @property
    def brokers(self) -> list[Node]:
        return sorted(self.network.nodes.values())

    @property
    def topics(self) -> dict[str, TopicMetadata]:
        """Everything known by name, errors included; not to be changed."""
        return self._topics

    @property
    def is_old(self) -> bool:
        """Whether metadata.max.age.ms has passed since the last refresh."""
        now = asyncio.get_running_loop().time()
        return self._refreshed_at is None or now - self._refreshed_at >= self._max_age_s

    def topic(self, name: str) -> TopicMetadata | None:
        """The topic if it exists as far as is known."""
        found = self._topics.get(name)
        return (
            found if found is not None and found.error in (0, Error.LEADER_NOT_AVAILABLE) else None
        )

    def topic_error(self, name: str) -> Error:
        """What the metadata said about the topic, NONE if nothing is wrong or known."""
        found = self._topics.get(name)
        return Error.NONE if found is None else found.error

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> bytes:
        found = self._topics.get(name)
        return NO_TOPIC_ID if found is None else found.topic_id

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        found = self._topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def leader(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Node id and epoch of the partition's leader, None while unknown."""
        found = self.partition(topic, partition)
        return None if found is None or found.leader < 0 else (found.leader, found.leader_epoch)

    def add_interest(self, topics: Iterable[str]) -> None:
        """Have `refresh()` ask for these topics too."""
        for name in topics:
            self._interest[name] = None

    def drop_interest(self, topics: Iterable[str]) -> None:
        for name in topics:
            self._interest.pop(name, None)
            self._forget(name)

    def leader_moved(
        self, topic: str, partition: int, leader: int, leader_epoch: int, nodes: Iterable[Any] = ()
    ) -> bool:
        """A refusal named the new leader (KIP-951); whether that was news.

        `nodes` are the `node_endpoints` of the same response."""
        endpoints = [Node(row.node_id, row.host, row.port, row.rack) for row in nodes]
        if endpoints:
            self.network.set_nodes(endpoints, is_all=False)
        found = self.partition(topic, partition)
        if found is None or leader < 0 or leader_epoch <= found.leader_epoch:
            return False
        self.version += 1
        moved = found._replace(leader=leader, leader_epoch=leader_epoch)
        self._topics[topic].partitions[partition] = moved
        return True

    async def refresh(
        self,
        topics: Collection[str] | None = None,
        *,
        allow_auto_create: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Ask again about these topics, or about all of interest; they are of interest from now on.

        Errors of single topics are remembered, not raised: see `topic_error`."""
        if topics is not None:
            self.add_interest(topics)
        names = list(self._interest) if topics is None else list(topics)
        await self._ask(names, allow_auto_create, timeout_ms)

    async def refresh_all(self, *, timeout_ms: int | None = None) -> None:
        """Ask about every topic of the cluster."""
        await self._ask(None, False, timeout_ms)

    async def refresh_brokers(self, *, timeout_ms: int | None = None) -> None:
        await self._ask([], False, timeout_ms)

    async def partitions_for(
        self, topic: str, timeout_ms: int, *, allow_auto_create: bool = True
    ) -> list[PartitionInfo]:
        """The topic's partitions, asked for and waited for if unknown.

        KafkaTimeoutError if the topic does not appear in time."""
        failures = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while (known := self.topic(topic)) is None or not known.partitions:
                    if failures:
                        await self.network.pause(failures)
                    failures += 1
                    await self.refresh([topic], allow_auto_create=allow_auto_create)
                    error = self.topic_error(topic)
                    if error not in RETRIABLE and error is not Error.NONE:
                        raise error_for(error, f"{topic}: {error.sentence}")
        except TimeoutError:
            raise KafkaTimeoutError(
                f"Topic {topic} not present in metadata after {timeout_ms} ms."
            ) from None
        return [known.partitions[index] for index in sorted(known.partitions)]

    async def coordinator(
        self, key: str, kind: CoordinatorKind, *, timeout_ms: int | None = None
    ) -> int:
        """The node id to call for a group or a transactional id; remembered until forgotten.

        A group's coordinator has a connection of its own, see `coordinator_node`."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        settings = self.network.settings
        limit_ms = settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        failures = 0
        last: KafkaError | None = None
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        return await self._find_coordinator(key, kind)
                    except KafkaError as error:
                        if not error.retriable:
                            raise
                        last = error
                    failures += 1
                    await self.network.pause(failures)
        except TimeoutError:
            reason = "" if last is None else f": {last.message}"
            raise KafkaTimeoutError(
                f"No coordinator for {key} found within {limit_ms} ms{reason}"
            ) from None

    def forget_coordinator(self, key: str, kind: CoordinatorKind) -> None:
        """It moved or died: look it up again on the next call."""
        self._coordinators.pop((kind, key), None)

    async def _find_coordinator(self, key: str, kind: CoordinatorKind) -> int:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        response = await self.network.call_any(request)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise error_for(found.error_code, found.error_message)
        self.network.set_nodes([Node(found.node_id, found.host, found.port)], is_all=False)
        is_group = kind is CoordinatorKind.GROUP
        node_id: int = coordinator_node(found.node_id) if is_group else found.node_id
        self._coordinators[(kind, key)] = node_id
        return node_id

    async def _ask(
        self, names: list[str] | None, allow_auto_create: bool, timeout_ms: int | None
    ) -> None:
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=allow_auto_create,
        )
        # Before version 4 a request cannot forbid to create topics, and before 1 an empty list
        # means all of them.
        response = await self.network.call_any(request, timeout_ms=timeout_ms, version_min=4)
        self._learn(response, is_all=names is None)

    def _learn(self, response: MetadataResponse, *, is_all: bool) -> None:
        if response.error_code:
            raise error_for(response.error_code)
        self.version += 1
        if response.cluster_id != self.cluster_id:
            log.info("[clientId=%s] Cluster ID: %s", self.network.client_id, response.cluster_id)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.network.set_nodes(
            Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers
        )
        self._refreshed_at = asyncio.get_running_loop().time()
        if is_all:
            gone = self._topics.keys() - {row.name for row in response.topics}
            for name in gone:
                self._forget(name)
        for row in response.topics:
            self._learn_topic(row)

    def _learn_topic(self, row: MetadataResponseTopic) -> None:
        name = row.name or ""
        known = self._topics.get(name)
        is_same = known is not None and known.topic_id == row.topic_id
        partitions = {}
        for part in row.partitions:
            info = PartitionInfo(
                name,
                part.partition_index,
                part.leader_id,
                part.leader_epoch,
                tuple(part.replica_nodes),
                tuple(part.isr_nodes),
                tuple(part.offline_replicas),
            )
            if is_same and known is not None:
                older = known.partitions.get(part.partition_index)
                if older is not None and older.leader_epoch > info.leader_epoch >= 0:
                    info = older
            partitions[part.partition_index] = info
        self._forget(name)
        self._topics[name] = TopicMetadata(
            name, row.topic_id, row.is_internal, code_of(row.error_code), partitions
        )
        if row.topic_id != NO_TOPIC_ID:
            self._names[row.topic_id] = name
        if len(self._topics) > TOPICS_MAX:
            self._forget(next(iter(self._topics)))

    def _forget(self, name: str) -> None:
        known = self._topics.pop(name, None)
        if known is not None:
            self._names.pop(known.topic_id, None)

    def group_by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
        """Partitions by the node that leads them, and those without a known leader."""
        led: dict[int, list[TopicPartition]] = {}
        unknown = []
        for tp in partitions:
            found = self.leader(tp.topic, tp.partition)
            if found is None:
                unknown.append(tp)
            else:
                led.setdefault(found[0], []).append(tp)
        return led, unknown
