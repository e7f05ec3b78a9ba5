"""The way back: topics of the old source become mirrors of those that were promoted.

Up to where both agree they stay as they are; what is behind it was never mirrored, or is the
promotion's own, and goes. Leader epochs say where that is, and the last batch before it proves it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.own.mirrors_admin import MirroredInfo
from moldau.client.shared.client_errors import error_for
from moldau.config.mirror_source import MirrorSource
from moldau.mirroring.batch_proof import is_same, last_batches
from moldau.mirroring.mirror import Mirror
from moldau.mirroring.mirror_faults import MirrorFault
from moldau.mirroring.source_cluster import SourceTopic
from moldau.model.names import TopicPartition
from moldau.wire.messages.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

EpochEnd = Callable[[int], Awaitable[tuple[int, int]]]
"""The largest epoch up to this one, and where it ends; (-1, -1) if there is none."""


class Cut(NamedTuple):
    topic: str
    """In the target, which becomes a mirror."""
    source: MirrorSource
    offset_ends: tuple[int, ...]
    lost: int
    """Records behind them, as the offsets count them."""


async def agreed_end(last_epoch: int, offset_end: int, here: EpochEnd, there: EpochEnd) -> int:
    """Up to where a log that ends so is the other's too."""
    epoch, end = last_epoch, offset_end
    while epoch >= 0:
        epoch_there, end_there = await there(epoch)
        if epoch_there == epoch:
            return min(end, end_there)
        if epoch_there < 0:
            return 0
        epoch_here, end_here = await here(epoch_there)
        if epoch_here == epoch_there:
            return min(end_here, end_there)
        epoch, end = epoch_here, min(end, end_here)
    return 0


async def planned(mirror: Mirror) -> list[Cut]:
    """`mirror` goes in the new direction: its target is the old source. Raises MirrorFault,
    KafkaError."""
    source, target, file = mirror.source, mirror.target, mirror.file
    names = [name for name in await source.names() if file.wants(name)]
    topics = await source.topics(names)
    infos = await target.describe_mirrors([file.target_name(name) for name in topics])
    await target._try(None, target.cluster.refresh_all)
    cuts = []
    for name, topic in topics.items():
        info = infos.get(file.target_name(name))
        if info is None:
            # It was made after the change-over: the mirror makes it when it runs.
            continue
        found = MirrorSource.parse(info.source)
        wanted = MirrorSource(source.cluster_id, topic.topic_id, name)
        if found is not None and found == wanted:
            continue
        if topic.repeats:
            raise MirrorFault(f"topic {name} is not promoted yet: promote it first")
        if found is not None and found.original != wanted:
            raise MirrorFault(f"topic {info.name} repeats {info.source}")
        cuts.append(await _cut(mirror, topic, info, wanted))
    return cuts


async def _cut(mirror: Mirror, topic: SourceTopic, info: MirroredInfo, wanted: MirrorSource) -> Cut:
    if len(info.partitions) > len(topic.leader_epochs):
        raise MirrorFault(
            f"topic {info.name} has {len(info.partitions)} partitions, and"
            f" {len(topic.leader_epochs)} at the cluster that it is to repeat"
        )
    ends, lost = [], 0
    for number, place in enumerate(info.partitions):
        here = TopicPartition(info.name, number)
        there = TopicPartition(topic.name, number)
        end = await agreed_end(
            place.last_epoch,
            place.offset_end,
            _epoch_end(mirror.target, here),
            _epoch_end(mirror.source.admin, there),
        )
        await _prove(mirror, topic, info, number, end)
        ends.append(end)
        lost += place.offset_end - max(end, min(place.log_start, place.offset_end))
    return Cut(info.name, wanted, tuple(ends), lost)


def _epoch_end(admin: AdminCore, place: TopicPartition) -> EpochEnd:
    async def ask(epoch: int) -> tuple[int, int]:
        leader = admin.cluster.leader(*place)
        if leader is None:
            raise admin._no_leader(place)
        row = OffsetForLeaderPartition(partition=place.partition, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=place.topic, partitions=[row])]
        )
        answer = await admin.network.call(leader[0], request)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise error_for(found.error_code)
        return found.leader_epoch, found.end_offset

    return ask


async def _prove(
    mirror: Mirror, topic: SourceTopic, info: MirroredInfo, number: int, end: int
) -> None:
    """The last batch before the cut is the same in both; where one has deleted it, its epoch has to
    do."""
    there, here = TopicPartition(topic.name, number), TopicPartition(info.name, number)
    admin, ids = mirror.source.admin, {topic.name: topic.topic_id}
    at_source = await last_batches(admin, ids, {there: end})
    at_target = await last_batches(mirror.target, {info.name: info.topic_id}, {here: end})
    if not is_same(at_source.get(there, b""), at_target.get(here, b"")):
        raise MirrorFault(
            f"partition {number} of topic {info.name} has other records before offset {end} than"
            f" {topic.name} at the other cluster: these are not mirrors of each other"
        )
