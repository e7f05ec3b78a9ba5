"""The controller as handlers see it where there are several brokers.

It has the methods of the one for a single broker. What only the office may decide is refused with
NOT_CONTROLLER elsewhere, and clients go to the controller; settings and producer ids are written
straight to the tree by any broker, as in Kafka's ZooKeeper mode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from moldau.config.broker import BrokerConfig
from moldau.config.changes import ConfigChange
from moldau.controller.configs import altered
from moldau.controller.facts import ConfigKind, ConfigsChanged, PartitionsAdded, TopicCreated
from moldau.controller.isr_changes import check_broker
from moldau.controller.machine import (
    PRODUCER_ID_LAST,
    PRODUCER_IDS_PER_BLOCK,
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
)
from moldau.controller.office import Office
from moldau.controller.state import ControllerState
from moldau.controller.topics import Draw, NewPartitions, NewTopic, TopicDefaults
from moldau.metadata import paths
from moldau.metadata.store import BadVersion, Create, MetadataStore, NodeExists, StoreError, Write
from moldau.model.cluster import ClusterImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicPartition

if TYPE_CHECKING:
    from moldau.controller.cluster_commands import AlterPartition, ControlledShutdown
    from moldau.controller.elections import Election
    from moldau.controller.features import FeatureUpdate
    from moldau.controller.reassignment import Move
    from moldau.model.cluster import PartitionImage

ATTEMPTS_MAX = 50
"""To write what other brokers write at the same time."""

Until = Callable[[Callable[[ClusterImage], bool]], Awaitable[bool]]
"""Waits until this broker's image is like that; False if it does not become so in time."""


class ClusterController:
    def __init__(
        self,
        store: MetadataStore,
        node_id: BrokerId,
        office: Office,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
        until: Until,
        draw: Callable[[], Draw],
        forward: Callable[[Sequence[NewTopic]], Awaitable[None]],
    ) -> None:
        """`forward` asks the controller, wherever it is, to create topics."""
        self._store = store
        self._node_id = node_id
        self._office = office
        self._config = config
        self._image = image
        self._until = until
        self._draw = draw
        self._forward = forward

    # For the office alone

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicCreated | ApiError]:
        held = self._office.held()
        config = self._config()
        defaults = TopicDefaults(config.num_partitions, config.default_replication_factor)
        draws = tuple(self._draw() for _ in topics)
        command = CreateTopics(tuple(topics), draws, defaults, validate_only)
        rows = cast("list[TopicCreated | ApiError]", await held.submit(command))
        made = {} if validate_only else {r.id: r.name for r in rows if not isinstance(r, ApiError)}
        # Told to clients when this broker itself knows: they ask for the topic right away.
        await self._until(lambda image: made.keys() <= image.topic_names.keys())
        return rows

    async def create_missing(self, topics: Sequence[NewTopic]) -> None:
        """Topics that somebody asked for by name."""
        if self._office.incumbency is not None:
            await self.create_topics(topics)
        else:
            await self._forward(topics)
            names = {topic.name for topic in topics}
            await self._until(lambda image: names <= image.topics.keys())

    async def delete_topics(self, names: Sequence[str]) -> list[ApiError | None]:
        held = self._office.held()
        command = DeleteTopics(tuple(names), self._config().delete_topic_enable)
        rows = cast("list[ApiError | None]", await held.submit(command))
        going = {name for name, row in zip(names, rows, strict=True) if row is None}
        if not await self._until(lambda image: going.isdisjoint(image.topics)):
            return [ApiError(Error.REQUEST_TIMED_OUT) if row is None else row for row in rows]
        return rows

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[PartitionsAdded | ApiError]:
        command = CreatePartitions(tuple(topics), validate_only)
        rows = await self._office.held().submit(command)
        return cast("list[PartitionsAdded | ApiError]", rows)

    async def alter_partition_reassignments(
        self, moves: Sequence[Move], *, allow_replication_factor_change: bool = True
    ) -> list[ApiError | None]:
        command = AlterPartitionReassignments(tuple(moves), allow_replication_factor_change)
        return cast("list[ApiError | None]", await self._office.held().submit(command))

    def topics_with_moves(self) -> Mapping[str, TopicImage]:
        return self._office.held().state.cluster.topics

    async def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> list[ApiError | None]:
        command = ElectLeaders(election, tuple(partitions))
        return cast("list[ApiError | None]", await self._office.held().submit(command))

    async def alter_partition(self, command: AlterPartition) -> list[PartitionImage | ApiError]:
        rows = await self._office.held().submit(command)
        return cast("list[PartitionImage | ApiError]", rows)

    async def controlled_shutdown(self, command: ControlledShutdown) -> list[TopicPartition]:
        """Partitions that the broker still leads."""
        return cast("list[TopicPartition]", await self._office.held().submit(command))

    def check_broker(self, broker: BrokerId, broker_epoch: int) -> None:
        check_broker(self._office.held().state, broker, broker_epoch)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._office.held().state.cluster.topic_names.get(topic_id)

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        self._office.held()
        raise ApiError(
            Error.FEATURE_UPDATE_FAILED,
            "A cluster on ZooKeeper has no features whose level could be changed.",
        )

    async def quorum(self) -> tuple[int, int, int]:
        raise ApiError(Error.UNSUPPORTED_VERSION, "The metadata is kept in ZooKeeper.")

    # For everybody

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> list[ConfigsChanged | ApiError]:
        state = ControllerState(self._image())
        rows: list[ConfigsChanged | ApiError] = []
        for change in changes:
            try:
                fact = altered(state, change, self._config())
                if not validate_only:
                    await self._write(fact)
                rows.append(fact)
            except ApiError as refusal:
                rows.append(refusal)
            except StoreError as fault:
                rows.append(ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)))
        return rows

    async def _write(self, fact: ConfigsChanged) -> None:
        kind, name, overrides, _ = fact
        is_plain = kind in (ConfigKind.TOPIC, ConfigKind.BROKER)
        entity = f"{kind.value}/{name if is_plain else paths.entity_name(name)}"
        path, data = f"/config/{entity}", paths.encode_config(overrides)
        node = await self._store.exists(path)
        change = Create(path, data) if node is None else Write(path, data, node.version)
        notice = Create(
            paths.CONFIG_CHANGE_PREFIX, paths.encode_config_change(entity), sequential=True
        )
        try:
            await self._store.multi([change, notice])
        except (BadVersion, NodeExists) as race:
            text = "The settings were changed by another request at the same time: try again."
            raise ApiError(Error.INVALID_REQUEST, text) from race

    async def allocate_producer_ids(self, broker: BrokerId | None = None) -> range:
        """A block of ids that nobody was given before, and nobody will be given again."""
        broker = self._node_id if broker is None else broker
        for _ in range(ATTEMPTS_MAX):
            try:
                node = await self._store.get(paths.PRODUCER_ID_BLOCK)
                last = paths.decode_producer_id_block(node.data)
                first = 0 if last is None else last.last + 1
                if first + PRODUCER_IDS_PER_BLOCK > PRODUCER_ID_LAST:
                    raise ApiError(Error.UNKNOWN_SERVER_ERROR, "There are no producer ids left.")
                ids = range(first, first + PRODUCER_IDS_PER_BLOCK)
                block = paths.ProducerIdBlock(broker, ids.start, ids.stop - 1)
                data = paths.encode_producer_id_block(block)
                await self._store.set_if_version(paths.PRODUCER_ID_BLOCK, data, node.version)
            except BadVersion:
                continue
            except StoreError as fault:
                raise ApiError(Error.COORDINATOR_LOAD_IN_PROGRESS, str(fault)) from fault
            return ids
        raise ApiError(Error.COORDINATOR_LOAD_IN_PROGRESS, "Other brokers take producer ids too.")
