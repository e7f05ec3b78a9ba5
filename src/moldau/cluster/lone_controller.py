"""The controller of a broker that stands alone: changes the cluster, publishes the image.

The image is replaced after every commit and before the reply leaves, so whoever was told that a
topic exists finds its logs. If the store fails, the controller starts again from what the store
holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from moldau.cluster import broker_registration
from moldau.cluster.controller_port import Quorum
from moldau.cluster.tree import controller_node, tree_layout
from moldau.cluster.tree.metadata_journal import ControllerEpoch, MetadataJournal
from moldau.cluster.tree.state_change_log import StateChangeLog
from moldau.cluster.tree.tree_loading import load
from moldau.config.broker_config import BrokerConfig
from moldau.config.config_changes import ConfigChange
from moldau.controller.controller_facts import (
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from moldau.controller.controller_machine import (
    AllocateProducerIds,
    AlterConfigs,
    AlterPartitionReassignments,
    ChangeMirrors,
    ControllerMachine,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    RegisterBroker,
    UpdateFeatures,
)
from moldau.controller.controller_state import ControllerState, image_after
from moldau.controller.rules.replica_placement import Start
from moldau.controller.rules.topic_rules import Draw, NewPartitions, NewTopic, TopicDefaults
from moldau.engine.engine import Engine
from moldau.engine.machine import Command
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import MetadataStore, NodeExists, StoreError
from moldau.model.clock import Clock
from moldau.model.cluster import BrokerNode, ClusterImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicId, TopicPartition, uuid_text

if TYPE_CHECKING:
    from moldau.controller.rules.feature_rules import FeatureUpdate
    from moldau.controller.rules.leader_elections import Election
    from moldau.controller.rules.mirror_rules import MirrorChange
    from moldau.controller.rules.reassignment_rules import Move

ImageListener = Callable[[ClusterImage, ClusterImage], None]
"""Called with the image before and after."""
RandomBytes = Callable[[int], bytes]
"""`os.urandom`, or a seeded one in tests."""

R = TypeVar("R")


class LoneController:
    def __init__(
        self,
        store: MetadataStore,
        node_id: int,
        *,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        timers: Timers,
        random_bytes: RandomBytes,
    ) -> None:
        self.image = ClusterImage("", node_id)
        self._store = store
        self._node_id = node_id
        self._config = config
        self._clock = clock
        self._timers = timers
        self._random_bytes = random_bytes
        self._listeners: list[ImageListener] = []
        self._engine: Engine | None = None
        self._term: ControllerEpoch | None = None
        self._restart = asyncio.Lock()
        """Whoever comes second waits and finds it done."""
        self._is_closed = False

    async def load(self) -> ClusterImage:
        """Become the controller and read the tree: the image without this broker, which may need
        the cluster's id and its topics before it can say where it listens."""
        await tree_layout.lay_out(self._store)
        cluster_id = await tree_layout.cluster_id_of(
            self._store, lambda: uuid_text(self._draw_id())
        )
        now_ms = self._clock.wall_ms()
        self._term = term = await controller_node.register_controller(
            self._store, self._node_id, now_ms
        )
        loaded = await load(self._store, cluster_id, self._node_id)
        if loaded.unreadable:
            # Nobody else writes this tree: something is broken, and their logs must stay.
            name = min(loaded.unreadable)
            raise StoreError(paths.topic_path(name), "what is kept of the topic cannot be read")
        state = ControllerState(loaded.image, loaded.producer_id_next)
        told = StateChangeLog(term.broker, term.epoch, state.cluster.topics)
        self._engine = Engine(
            "controller",
            ControllerMachine(state),
            MetadataJournal(self._store, term, state_changes=told),
            clock=self._clock,
            timers=self._timers,
            on_committed=self._publish,
        )
        self._replace_image(loaded.image)
        return self.image

    async def register(self, node: BrokerNode) -> None:
        """Let clients find this broker: from now on it is part of the image."""
        await broker_registration.register(self._store, node, self._clock.wall_ms())
        await self._submit(RegisterBroker(node))

    def on_image(self, listener: ImageListener) -> None:
        self._listeners.append(listener)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicCreated | ApiError]:
        config = self._config()
        defaults = TopicDefaults(config.num_partitions, config.default_replication_factor)
        draws = tuple(self._draw() for _ in topics)
        command = CreateTopics(tuple(topics), draws, defaults, validate_only)
        return await self._submit(command)

    async def create_restored(
        self, topics: Mapping[TopicId, NewTopic], *, validate_only: bool = False
    ) -> None:
        """Topics whose logs are there already, under these ids: all or none. Raises ApiError."""
        config = self._config()
        defaults = TopicDefaults(config.num_partitions, config.default_replication_factor)
        for topic_id in topics:
            if topic_id in self.image.topic_names:
                name = self.image.topic_names[topic_id]
                text = f"The topic id {uuid_text(topic_id)} is that of {name}."
                raise ApiError(Error.TOPIC_ALREADY_EXISTS, text)
        command = CreateTopics(
            tuple(topics.values()),
            tuple(self._draw()._replace(topic_id=topic_id) for topic_id in topics),
            defaults,
            validate_only,
            all_or_none=True,
        )
        for row in await self._submit(command):
            if isinstance(row, ApiError):
                raise row

    def draw_topic_id(self) -> TopicId:
        return self._draw_id()

    async def create_missing(self, topics: Sequence[NewTopic]) -> list[ApiError]:
        """Topics that somebody asked for by name; the refusals."""
        return [row for row in await self.create_topics(topics) if isinstance(row, ApiError)]

    async def delete_topics(self, names: Sequence[str]) -> Sequence[TopicDeleted | ApiError | None]:
        command = DeleteTopics(tuple(names), self._config().delete_topic_enable)
        return await self._submit(command)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[PartitionsAdded | ApiError]:
        command = CreatePartitions(tuple(topics), validate_only)
        return await self._submit(command)

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> list[ConfigsChanged | ApiError]:
        command = AlterConfigs(tuple(changes), validate_only, self._config())
        return await self._submit(command)

    async def alter_partition_reassignments(
        self, moves: Sequence[Move], *, allow_replication_factor_change: bool = True
    ) -> list[ApiError | None]:
        command = AlterPartitionReassignments(tuple(moves), allow_replication_factor_change)
        return await self._submit(command)

    def topics_with_moves(self) -> Mapping[str, TopicImage]:
        return self.image.topics

    async def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> list[ApiError | None]:
        command = ElectLeaders(election, tuple(partitions))
        return await self._submit(command)

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        """Raises the refusal: features change together or not at all."""
        await self._submit(UpdateFeatures(tuple(updates), validate_only))

    async def change_mirrors(self, changes: Sequence[MirrorChange]) -> None:
        """Raises ApiError; then none has changed."""
        await self._submit(ChangeMirrors(tuple(changes)))

    async def quorum(self) -> Quorum:
        assert self._term is not None
        try:
            transaction = await self._store.transaction()
        except StoreError as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
        return Quorum(self._term.broker, self._term.epoch, transaction + 1)

    async def allocate_producer_ids(self) -> range:
        """A block of ids that nobody was given before, and nobody will be given again."""
        return await self._submit(AllocateProducerIds(self._node_id))

    async def pass_producer_ids(self, last: int) -> None:
        """From now on all blocks are behind this id."""
        await self._submit(AllocateProducerIds(self._node_id, last))

    async def close(self) -> None:
        """Answer whoever waits and end the term; the store is the caller's to close."""
        self._is_closed = True
        if self._engine is not None:
            self._engine.stop(Error.NOT_CONTROLLER, "The controller is shutting down.")
            await controller_node.resign(self._store, self._node_id)

    async def _submit(self, command: Command[R]) -> R:
        if self._engine is None or not self._engine.is_running:
            async with self._restart:
                await self._start_again()
        assert self._engine is not None
        return await self._engine.submit(command)

    async def _start_again(self) -> None:
        """After a fault of the store: what was not committed is forgotten, the rest is read."""
        if self._engine is not None and self._engine.is_running:
            return
        if self._is_closed:
            raise ApiError(Error.NOT_CONTROLLER, "The controller is shutting down.")
        try:
            await controller_node.resign(self._store, self._node_id)
            await self.load()
        except NodeExists as taken:
            text = "Another broker is the controller."
            raise ApiError(Error.NOT_CONTROLLER, text) from taken
        except StoreError as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault

    def _publish(self, facts: Sequence[object]) -> None:
        self._replace_image(image_after(self.image, facts))

    def _replace_image(self, image: ClusterImage) -> None:
        before, self.image = self.image, image
        for listener in self._listeners:
            listener(before, image)

    def _draw(self) -> Draw:
        start = int.from_bytes(self._random_bytes(2)), int.from_bytes(self._random_bytes(2))
        return Draw(self._draw_id(), Start(*start))

    def _draw_id(self) -> TopicId:
        return draw_topic_id(self._random_bytes)


def draw_topic_id(random_bytes: RandomBytes) -> TopicId:
    """Random, in the form of a version 4 UUID; never one that tools would take for a flag."""
    while True:
        drawn = bytearray(random_bytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if not uuid_text(bytes(drawn)).startswith("-"):
            assert drawn != NO_TOPIC_ID
            return bytes(drawn)
