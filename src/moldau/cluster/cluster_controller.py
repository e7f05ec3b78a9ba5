"""The controller as handlers see it where there are several brokers.

It has the methods of the one for a single broker. What only the active controller may decide is
refused with NOT_CONTROLLER elsewhere, and clients go to the controller; settings and producer ids
are written straight to the tree by any broker, as in Kafka's ZooKeeper mode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from moldau.cluster.controller_election import ControllerElection
from moldau.cluster.controller_port import Quorum
from moldau.config.broker_config import BrokerConfig
from moldau.config.config_changes import DEFAULT_BROKER, ConfigChange, ResourceType
from moldau.controller.controller_facts import (
    ConfigKind,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from moldau.controller.controller_machine import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
)
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.config_rules import altered
from moldau.controller.rules.feature_rules import FeatureUpdate, changes_nothing
from moldau.controller.rules.isr_rules import check_broker
from moldau.controller.rules.producer_ids import next_block
from moldau.controller.rules.topic_rules import Draw, NewPartitions, NewTopic, TopicDefaults
from moldau.metadata import paths
from moldau.metadata.store import (
    BadVersion,
    Create,
    MetadataStore,
    NodeExists,
    NoNode,
    StoreError,
    StoreUnavailable,
    Write,
)
from moldau.metadata.unreadable_nodes import readable
from moldau.model.cluster import ClusterImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicPartition

if TYPE_CHECKING:
    from moldau.controller.cluster_commands import AlterPartition, ControlledShutdown
    from moldau.controller.rules.leader_elections import Election
    from moldau.controller.rules.reassignment_rules import Move
    from moldau.model.cluster import PartitionImage

ATTEMPTS_MAX = 50
"""To write what other brokers write at the same time."""

KINDS = {
    ResourceType.TOPIC: ConfigKind.TOPIC,
    ResourceType.BROKER: ConfigKind.BROKER,
    ResourceType.GROUP: ConfigKind.GROUP,
    ResourceType.CLIENT_METRICS: ConfigKind.CLIENT_METRICS,
}
CONFIG_FIELDS = {
    ConfigKind.TOPIC: "topic_configs",
    ConfigKind.BROKER: "broker_configs",
    ConfigKind.GROUP: "group_configs",
    ConfigKind.CLIENT_METRICS: "client_metrics",
}
"""Where the cluster image has them."""

Until = Callable[[Callable[[ClusterImage], bool]], Awaitable[bool]]
"""Waits until this broker's image is like that; False if it does not become so in time."""


T = TypeVar("T")


class Patiently(Protocol):
    async def __call__(self, ask: Callable[[], Awaitable[T]]) -> T: ...


class ClusterController:
    def __init__(
        self,
        store: MetadataStore,
        node_id: BrokerId,
        election: ControllerElection,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
        until: Until,
        draw: Callable[[], Draw],
        forward: Callable[[Sequence[NewTopic]], Awaitable[None]],
        patiently: Patiently,
    ) -> None:
        """`forward` asks the controller, wherever it is, to create topics; `patiently` asks the
        store again while it cannot answer, up to a limit."""
        self._store = store
        self._node_id = node_id
        self._election = election
        self._config = config
        self._image = image
        self._until = until
        self._draw = draw
        self._forward = forward
        self._patiently = patiently

    # For the active controller alone

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicCreated | ApiError]:
        held = self._election.require_active()
        config = self._config()
        defaults = TopicDefaults(config.num_partitions, config.default_replication_factor)
        draws = tuple(self._draw() for _ in topics)
        command = CreateTopics(tuple(topics), draws, defaults, validate_only)
        rows = await held.submit(command)
        made = {} if validate_only else {r.id: r.name for r in rows if not isinstance(r, ApiError)}
        # Told to clients when this broker itself knows: they ask for the topic right away.
        await self._until(lambda image: made.keys() <= image.topic_names.keys())
        return rows

    async def create_missing(self, topics: Sequence[NewTopic]) -> list[ApiError]:
        """Topics that somebody asked for by name; the refusals. Raises one if all are refused by
        another controller."""
        if self._election.active is not None:
            return [row for row in await self.create_topics(topics) if isinstance(row, ApiError)]
        await self._forward(topics)
        names = {topic.name for topic in topics}
        await self._until(lambda image: names <= image.topics.keys())
        return []

    async def delete_topics(self, names: Sequence[str]) -> Sequence[TopicDeleted | ApiError | None]:
        held = self._election.require_active()
        command = DeleteTopics(tuple(names), self._config().delete_topic_enable)
        rows = await held.submit(command)
        going = {name for name, row in zip(names, rows, strict=True) if row is None}
        if not await self._until(lambda image: going.isdisjoint(image.topics)):
            return [ApiError(Error.REQUEST_TIMED_OUT) if row is None else row for row in rows]
        return rows

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[PartitionsAdded | ApiError]:
        command = CreatePartitions(tuple(topics), validate_only)
        return await self._election.require_active().submit(command)

    async def alter_partition_reassignments(
        self, moves: Sequence[Move], *, allow_replication_factor_change: bool = True
    ) -> list[ApiError | None]:
        command = AlterPartitionReassignments(tuple(moves), allow_replication_factor_change)
        return await self._election.require_active().submit(command)

    def topics_with_moves(self) -> Mapping[str, TopicImage]:
        return self._election.require_active().state.cluster.topics

    async def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> list[ApiError | None]:
        command = ElectLeaders(election, tuple(partitions))
        return await self._election.require_active().submit(command)

    async def alter_partition(self, command: AlterPartition) -> list[PartitionImage | ApiError]:
        return await self._election.require_active().submit(command)

    async def controlled_shutdown(self, command: ControlledShutdown) -> list[TopicPartition]:
        """Partitions that the broker still leads."""
        return await self._election.require_active().submit(command)

    def check_broker(self, broker: BrokerId, broker_epoch: int) -> None:
        check_broker(self._election.require_active().state, broker, broker_epoch)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._election.require_active().state.cluster.topic_names.get(topic_id)

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        self._election.require_active()
        if not all(changes_nothing(update) for update in updates):
            raise ApiError(
                Error.FEATURE_UPDATE_FAILED,
                "A cluster on ZooKeeper has no features whose level could be changed.",
            )

    async def quorum(self) -> Quorum:
        raise ApiError(Error.UNSUPPORTED_VERSION, "The metadata is kept in ZooKeeper.")

    # For everybody

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> list[ConfigsChanged | ApiError]:
        rows: list[ConfigsChanged | ApiError] = []
        is_away = False
        for change in changes:
            try:
                if is_away:
                    # Everybody has waited once: a request with many changes must not go on so.
                    raise StoreUnavailable(paths.CONFIG_CHANGES, "the store does not answer")
                # What cannot be is refused without asking the tree.
                altered(ControllerState(self._image()), change, self._config())
                apply = partial(self._alter, change, validate_only=validate_only)
                rows.append(await self._patiently(apply))
            except ApiError as refusal:
                rows.append(refusal.kept())
            except StoreError as fault:
                is_away = isinstance(fault, StoreUnavailable)
                rows.append(ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)))
        return rows

    async def _alter(self, change: ConfigChange, *, validate_only: bool) -> ConfigsChanged:
        """On top of what the tree says now: this broker may not have heard yet of a change that
        another one has made. May be repeated when the outcome is unknown."""
        kind = KINDS[change.resource_type]
        name = change.resource_name or DEFAULT_BROKER
        entity = kind.entity(name)
        path = paths.config_path(entity)
        notice = Create(
            paths.CONFIG_CHANGE_PREFIX, paths.encode_config_change(entity), sequential=True
        )
        for _ in range(ATTEMPTS_MAX):
            node = await self._store.exists(path)
            now = {} if node is None else readable(path, node.data, paths.decode_config)
            fact = altered(self._state_with(kind, name, now), change, self._config())
            if validate_only:
                return fact
            data = paths.encode_config(fact.overrides)
            write = Create(path, data) if node is None else Write(path, data, node.version)
            try:
                await self._store.multi([write, notice])
            except (BadVersion, NodeExists, NoNode):
                continue
            return fact
        text = "The settings were changed by others at the same time, again and again: try again."
        raise ApiError(Error.INVALID_REQUEST, text)

    def _state_with(
        self, kind: ConfigKind, name: str, settings: Mapping[str, str] | None
    ) -> ControllerState:
        """Of this broker's image, but with these settings of one thing; None leaves those known."""
        image, field = self._image(), CONFIG_FIELDS[kind]
        if settings is not None:
            changed: dict[str, Any] = {field: {**getattr(image, field), name: settings}}
            image = replace(image, **changed)
        return ControllerState(image)

    async def allocate_producer_ids(self, broker: BrokerId | None = None) -> range:
        """A block of ids that nobody was given before, and nobody will be given again."""
        broker = self._node_id if broker is None else broker
        for _ in range(ATTEMPTS_MAX):
            try:
                node = await self._store.get(paths.PRODUCER_ID_BLOCK)
                last = paths.decode_producer_id_block(node.data)
                first = 0 if last is None else last.last + 1
                ids = next_block(first)
                block = paths.ProducerIdBlock(broker, ids.start, ids.stop - 1)
                data = paths.encode_producer_id_block(block)
                await self._store.set_if_version(paths.PRODUCER_ID_BLOCK, data, node.version)
            except BadVersion:
                continue
            except StoreError as fault:
                raise ApiError(Error.COORDINATOR_LOAD_IN_PROGRESS, str(fault)) from fault
            return ids
        raise ApiError(Error.COORDINATOR_LOAD_IN_PROGRESS, "Other brokers take producer ids too.")
