"""Topics of this broker that repeat those of another cluster: made, followed, ended, begun anew.

Where a mirror stands is its log, and what it repeats stands in its settings: nothing else is kept,
so after any crash whoever mirrors asks here and goes on. Promoting and cutting take two steps with
a setting that says so in between: cut off in the middle, they are simply asked for again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from moldau.config.mirror_source import MirrorSource, MirrorState
from moldau.config.topic_config import MIRROR_SOURCE
from moldau.controller.rules.mirror_rules import LEADER_EPOCH_LAST, MirrorChange
from moldau.controller.rules.topic_rules import NewTopic
from moldau.model.clock import Clock
from moldau.model.cluster import INTERNAL_TOPICS, ClusterImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, Offset, TopicId
from moldau.records.batch import Buffer
from moldau.replication.following.mirrored_batches import abort_open, append_mirrored, cut
from moldau.replication.replica import Replica
from moldau.replication.replica_loading import load
from moldau.replication.replicas import Replicas

EPOCHS_APART = 1 << 16
"""A promoted topic goes on in an epoch that its original does not come to by itself: were they the
same, records of two clusters could not be told apart. The original would have to change its leader
65,536 times after the mirror has left it."""
PRODUCER_IDS_APART = 1 << 39
"""So far apart are the producer ids of a cluster and of the one it mirrors."""
PRODUCER_ID_LAST = (1 << 63) - 1


class WantedMirror(NamedTuple):
    name: str
    topic_id: TopicId
    """Zero, or taken here: another one is drawn."""
    source: MirrorSource
    configs: Mapping[str, str]
    leader_epochs: tuple[int, ...]


class MirrorController(Protocol):
    async def create_restored(
        self, topics: Mapping[TopicId, NewTopic], *, validate_only: bool = False
    ) -> None: ...

    async def change_mirrors(self, changes: Sequence[MirrorChange]) -> None: ...

    async def pass_producer_ids(self, last: int) -> None: ...

    def draw_topic_id(self) -> TopicId: ...


class Mirrors:
    def __init__(
        self,
        replicas: Replicas,
        controller: MirrorController,
        *,
        image: Callable[[], ClusterImage],
        clock: Clock,
        producer_id_next: Callable[[], Awaitable[int]],
        pass_by: Callable[[int], None],
    ) -> None:
        """`producer_id_next()` is an id that nobody had before; `pass_by(last)` has this broker
        give none up to that one."""
        self._replicas = replicas
        self._controller = controller
        self._image = image
        self._clock = clock
        self._producer_id_next = producer_id_next
        self._pass_by = pass_by

    # Beginning

    async def begin(self, topics: Sequence[WantedMirror]) -> None:
        """Make them, all or none. Raises ApiError."""
        wanted = {}
        for topic in topics:
            if topic.name in INTERNAL_TOPICS:
                reason = f"{topic.name} is the broker's own, and never a mirror"
                raise ApiError(Error.INVALID_TOPIC_EXCEPTION, reason)
            topic_id = topic.topic_id
            if topic_id == NO_TOPIC_ID or topic_id in self._image().topic_names:
                topic_id = self._controller.draw_topic_id()
            wanted[topic_id] = NewTopic(
                topic.name,
                len(topic.leader_epochs),
                1,
                configs=topic.configs,
                leader_epochs=topic.leader_epochs,
                mirror_source=topic.source.text,
            )
        await self._controller.create_restored(wanted)

    async def keep_producers_apart(self, source_id: int) -> None:
        """From now on ids are given here that the source does not come to, and the source gives
        none that were given here since."""
        own = await self._producer_id_next()
        if abs(own - source_id) >= PRODUCER_IDS_APART:
            return
        block = 2 * PRODUCER_IDS_APART
        first = (max(own, source_id) // block + 1) * block
        if first > PRODUCER_ID_LAST - block:
            raise ApiError(Error.INVALID_REQUEST, "there are no producer ids left to keep apart")
        await self._controller.pass_producer_ids(first - 1)
        self._pass_by(first - 1)

    # Following

    async def append(
        self,
        topic_id: TopicId,
        partition: int,
        source: str,
        offset: Offset,
        log_start: Offset,
        records: Buffer,
    ) -> Offset:
        """Raises ApiError."""
        replica = self._replicas.find(self._replicas.name_of(topic_id), partition)
        await load(replica)
        return append_mirrored(replica, source, offset, log_start, records)

    async def raise_epochs(
        self, topic_id: TopicId, source: str, leader_epochs: Mapping[int, int]
    ) -> None:
        """Raises ApiError."""
        topic = self._topic(self._replicas.name_of(topic_id))
        change = MirrorChange(topic.name, topic.id, source, source, leader_epochs)
        await self._controller.change_mirrors([change])

    # Ending, and the way back

    async def promote(self, name: str) -> int:
        """Make the mirror a topic of its own; how many transactions that were open are aborted.
        Raises ApiError; then it may be asked for again."""
        topic, source = self._topic(name), self._source(name)
        if source is None:
            raise ApiError(Error.INVALID_REQUEST, f"topic '{name}' is no mirror")
        if source.state is MirrorState.CUTTING:
            reason = f"topic '{name}' is being made a mirror: ask for that again first"
            raise ApiError(Error.INVALID_REQUEST, reason)
        replicas = await self._loaded(topic)
        ending = source._replace(state=MirrorState.PROMOTING).text
        if source.state is MirrorState.MIRRORED:
            await self._change(topic, source.text, ending, _epochs_apart(replicas))
            replicas = await self._loaded(topic)
        now_ms = self._clock.wall_ms()
        aborted = sum(abort_open(replica, ending, now_ms) for replica in replicas)
        await self._change(topic, ending, "", {})
        for replica in replicas:
            replica.log.assign_epoch(replica.partition.leader_epoch, replica.log.offset_end)
        return aborted

    async def demote(self, name: str, source: MirrorSource, ends: Sequence[Offset]) -> None:
        """Make a mirror of a topic: what is behind these offsets goes. Raises ApiError; then it may
        be asked for again."""
        topic, found = self._topic(name), self._source(name)
        if name in INTERNAL_TOPICS or len(ends) != len(topic.partitions):
            reason = f"topic '{name}' has {len(topic.partitions)} partitions to be cut"
            raise ApiError(Error.INVALID_REQUEST, reason)
        cutting = source._replace(state=MirrorState.CUTTING).text
        if found is None:
            await self._change(topic, "", cutting, {})
        elif found.text != cutting:
            raise ApiError(Error.INVALID_REQUEST, f"topic '{name}' repeats {found.text} already")
        for replica, end in zip(await self._loaded(topic), ends, strict=True):
            cut(replica, cutting, end)
        await self._change(topic, cutting, source.original.text, {})

    async def _change(
        self, topic: TopicImage, before: str, after: str, epochs: Mapping[int, int]
    ) -> None:
        change = MirrorChange(topic.name, topic.id, before, after, epochs)
        await self._controller.change_mirrors([change])

    async def _loaded(self, topic: TopicImage) -> list[Replica]:
        found = [self._replicas.find(topic.name, n) for n in range(len(topic.partitions))]
        for replica in found:
            await load(replica)
        return found

    def _topic(self, name: str) -> TopicImage:
        topic = self._image().topics.get(name)
        if topic is None:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
        return topic

    def _source(self, name: str) -> MirrorSource | None:
        return source_of(self._image(), name)


def source_of(image: ClusterImage, topic: str) -> MirrorSource | None:
    text = image.topic_configs.get(topic, {}).get(MIRROR_SOURCE, "")
    return MirrorSource.parse(text) if text else None


def _epochs_apart(replicas: Sequence[Replica]) -> dict[int, int]:
    epochs = {}
    for number, replica in enumerate(replicas):
        newest = max(replica.partition.leader_epoch, replica.log.latest_epoch, 0)
        after = (newest // EPOCHS_APART + 1) * EPOCHS_APART
        if after > LEADER_EPOCH_LAST:
            raise ApiError(Error.INVALID_REQUEST, f"there is no leader epoch after {newest}")
        epochs[number] = after
    return epochs
