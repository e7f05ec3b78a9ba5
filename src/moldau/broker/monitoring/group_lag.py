"""How far groups are behind, in records and in seconds, for all partitions that they have read.

Where a partition ends this broker knows of those that it has a replica of. Of the others it asks
the leaders, many partitions in one request, now and then; only while somebody asks for metrics.
The age of the first unread record stands in its batch on disk: it is read once for each offset,
beside the loop. Where no replica is here it follows from when the end of the partition went past
that offset, as far back as it was asked for. All of it is bounded: what is beyond is not told.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from moldau.coordinators.group_coordinator import GroupCoordinator
from moldau.engine.side_thread import SideThread
from moldau.model.clock import Clock
from moldau.model.cluster import NO_LEADER, ClusterImage
from moldau.model.errors import ApiError
from moldau.model.file_regions import FileRegion
from moldau.model.names import BrokerId, Millis, Offset, TopicPartition
from moldau.net.peers import PeerCalls, PeerUnreachable
from moldau.records.batch import HEADER_BYTES, read_header
from moldau.replication.offset_lookup import LATEST_TIMESTAMP
from moldau.replication.replica import Replica
from moldau.replication.replica_loading import load
from moldau.replication.replicas import Replicas
from moldau.storage.storage_faults import StorageFault
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from moldau.groups.group_machine import GroupMachine

LOOK_MS = 10_000
ASKED_FOR_MS = 300_000
"""So long after the last scrape it goes on looking."""
READS_MAX = 500
"""Batches that one look reads."""
ASKED_MAX = 5_000
"""Partitions of other leaders that one look asks for."""
POINTS_MAX = 180
"""Ends of a partition that are remembered: half an hour."""
TIMEOUT_MS = 5_000
PLACES_PER_TURN = 200
LIST_OFFSETS_VERSION = 7
LANE = "group-lag"

Place = tuple[str, TopicPartition]
"""Group and partition."""


class Behind(NamedTuple):
    group: str
    place: TopicPartition
    offset: Offset
    lag: int | None
    """None where the end is not known; so for the next."""
    seconds: float | None


class GroupLag:
    def __init__(
        self,
        node_id: BrokerId,
        coordinator: GroupCoordinator,
        replicas: Replicas,
        clock: Clock,
        *,
        image: Callable[[], ClusterImage],
        peers: PeerCalls | None,
    ) -> None:
        """`peers` are the other brokers of a cluster."""
        self._node_id = node_id
        self._coordinator = coordinator
        self._replicas = replicas
        self._clock = clock
        self._image = image
        self._peers = peers
        self._thread = SideThread("group-lag")
        self._unread: dict[Place, tuple[Offset, Millis]] = {}
        """From which offset on a group has not read, and how old that is."""
        self._ends: dict[TopicPartition, deque[tuple[Millis, Offset]]] = {}
        """Of partitions without a replica here: when they ended where."""
        self._asked_ms: Millis | None = None

    # What is told

    def each(self) -> Iterator[Behind | None]:
        """Of every offset that groups here have committed. None is a place to rest at."""
        self._asked_ms = self._clock.monotonic_ms()
        now_ms, count = self._clock.wall_ms(), 0
        for machine in self._machines():
            for group, placed in list(machine.offsets.committed.items()):
                for place, stored in list(placed.items()):
                    yield self._behind(group, place, stored.value.offset, now_ms)
                    count += 1
                    if count % PLACES_PER_TURN == 0:
                        yield None
            yield None

    def _machines(self) -> list[GroupMachine]:
        return self._coordinator.machines()  # type: ignore[return-value]

    def _behind(self, group: str, place: TopicPartition, offset: Offset, now_ms: Millis) -> Behind:
        end = self._end(place)
        if end is None:
            return Behind(group, place, offset, None, None)
        lag = max(0, end - offset)
        if not lag:
            return Behind(group, place, offset, 0, 0.0)
        since_ms = self._unread_since(group, place, offset)
        seconds = None if since_ms is None else max(0, now_ms - since_ms) / 1000
        return Behind(group, place, offset, lag, seconds)

    def _end(self, place: TopicPartition) -> Offset | None:
        end = self._replicas.high_watermark(place)
        if end is None and (points := self._ends.get(place)):
            end = points[-1][1]
        return end

    def _unread_since(self, group: str, place: TopicPartition, offset: Offset) -> Millis | None:
        known = self._unread.get((group, place))
        if known is not None:
            # The group may have read on since: then it is a little less.
            return known[1]
        points = self._ends.get(place)
        return None if not points else passed_at(points, offset)

    # What is looked up

    async def look(self) -> None:
        """Called now and then."""
        asked_ms = self._asked_ms
        if asked_ms is None or self._clock.monotonic_ms() - asked_ms > ASKED_FOR_MS:
            self._unread.clear()
            self._ends.clear()
            return
        unread: dict[Place, tuple[Offset, Millis]] = {}
        elsewhere: dict[TopicPartition, None] = {}
        count = reads = 0
        for machine in self._machines():
            for group, placed in list(machine.offsets.committed.items()):
                for place, stored in list(placed.items()):
                    count += 1
                    if count % PLACES_PER_TURN == 0:
                        await asyncio.sleep(0)
                    offset, key = stored.value.offset, (group, place)
                    end = self._replicas.high_watermark(place)
                    if end is None:
                        elsewhere[place] = None
                    elif offset < end:
                        known = self._unread.get(key)
                        if known is None or known[0] != offset:
                            if reads >= READS_MAX:
                                continue
                            reads += 1
                            known = await self._read(place, offset)
                        if known is not None:
                            unread[key] = known
        self._unread = unread
        self._ends = {place: self._ends[place] for place in elsewhere if place in self._ends}
        await self._ask(list(elsewhere)[:ASKED_MAX])

    async def _read(self, place: TopicPartition, offset: Offset) -> tuple[Offset, Millis] | None:
        try:
            replica = self._replicas.find(place.topic, place.partition)
            region = await self._batch_at(replica, offset)
            if region is None:
                return None
            written_ms = await self._thread.run(lambda: _timestamp(region))
        except (ApiError, StorageFault):
            return None  # the replica has gone, or its disk has failed: others tell of that
        return None if written_ms < 0 else (offset, written_ms)

    async def _batch_at(self, replica: Replica, offset: Offset) -> FileRegion | None:
        log = await load(replica)
        start = max(offset, log.log_start_offset)
        return log.read(start, 1, replica.partition.high_watermark).region

    async def _ask(self, places: list[TopicPartition]) -> None:
        if self._peers is None:
            return
        by_leader: dict[BrokerId, dict[str, list[int]]] = {}
        topics = self._image().topics
        for place in places:
            topic = topics.get(place.topic)
            if topic is not None and place.partition < len(topic.partitions):
                leader = topic.partitions[place.partition].leader
                if leader not in (NO_LEADER, self._node_id):
                    asked = by_leader.setdefault(leader, {})
                    asked.setdefault(place.topic, []).append(place.partition)
        for leader, wanted in by_leader.items():
            await self._ask_leader(self._peers, leader, wanted)

    async def _ask_leader(
        self, peers: PeerCalls, leader: BrokerId, wanted: dict[str, list[int]]
    ) -> None:
        def row(number: int) -> ListOffsetsPartition:
            return ListOffsetsPartition(partition_index=number, timestamp=LATEST_TIMESTAMP)

        topics = [
            ListOffsetsTopic(name=name, partitions=list(map(row, numbers)))
            for name, numbers in wanted.items()
        ]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        try:
            response = await peers.call(
                leader, request, timeout_ms=TIMEOUT_MS, lane=LANE, version=LIST_OFFSETS_VERSION
            )
        except PeerUnreachable:
            return  # what was known stays; that the broker is away others tell
        now_ms = self._clock.wall_ms()
        for topic in response.topics:
            for told in topic.partitions:
                if not told.error_code and told.offset >= 0:
                    place = TopicPartition(topic.name, told.partition_index)
                    points = self._ends.setdefault(place, deque(maxlen=POINTS_MAX))
                    points.append((now_ms, told.offset))


def _timestamp(region: FileRegion) -> Millis:
    try:
        head = os.pread(region.file.fileno(), HEADER_BYTES, region.position)
    except OSError as error:
        raise StorageFault.of("cannot read", "a segment", error) from error
    if len(head) < HEADER_BYTES:
        return -1
    return read_header(head).base_timestamp


def passed_at(points: deque[tuple[Millis, Offset]], offset: Offset) -> Millis | None:
    """When the end of a partition went past the offset: between two looks as evenly as can be, and
    at the first of all that are known if it was before. None if it has not."""
    before: tuple[Millis, Offset] | None = None
    for at_ms, end in points:
        if end > offset:
            if before is None:
                return at_ms
            share = (offset - before[1]) / (end - before[1])
            return before[0] + int((at_ms - before[0]) * share)
        before = (at_ms, end)
    return None
