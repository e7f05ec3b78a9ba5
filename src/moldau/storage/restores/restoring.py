"""Restoring topics: begun, filled batch by batch, and ended: then they are topics, all at once.

Nobody but the restore sees them before. One restore at a time: another one that begins ends it,
and one that nobody goes on with is given up after a while. A crash leaves directories that the next
start removes; were they renamed already but their topics not yet made, they are logs of no topic,
which nobody is served.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from moldau.model.cluster import INTERNAL_TOPICS
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, Offset, TopicId, TopicPartition
from moldau.records.batch import Buffer
from moldau.storage.directories.log_store import NOTHING_ONLINE, LogStore
from moldau.storage.log_settings import LogSettings
from moldau.storage.restores.staged_log import Place, StagedLog
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("moldau.restores")

T = TypeVar("T")
IDLE_S = 3600
PARTITIONS_MAX = 10_000
"""In one restore: what the controller creates in one change."""


class WantedTopic(NamedTuple):
    name: str
    topic_id: TopicId
    configs: Mapping[str, str]
    log_starts: tuple[Offset, ...]


class ReadyTopic(NamedTuple):
    name: str
    topic_id: TopicId
    configs: Mapping[str, str]
    leader_epochs: tuple[int, ...]
    """What each partition begins with."""


Create = Callable[[Sequence[ReadyTopic], bool], Awaitable[None]]
"""All of the topics or none; with True it only says whether that could be done. Raises ApiError."""


class Restores:
    def __init__(
        self,
        logs: LogStore,
        *,
        create: Create,
        settings_of: Callable[[Mapping[str, str]], LogSettings],
        pass_producer_ids: Callable[[int], Awaitable[None]],
        draw_topic_id: Callable[[], TopicId],
    ) -> None:
        """`pass_producer_ids(last)` sees to it that nobody is given an id up to that one."""
        self._logs = logs
        self._create = create
        self._settings_of = settings_of
        self._pass_producer_ids = pass_producer_ids
        self._draw_topic_id = draw_topic_id
        self._turn = asyncio.Lock()
        self._id = ""
        self._topics: Sequence[WantedTopic] = ()
        self._staged: dict[TopicPartition, StagedLog] = {}
        self._appends = 0
        self._ending: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    async def begin(self, topics: Sequence[WantedTopic]) -> str:
        """The id of the restore. Raises ApiError."""
        topics = [
            topic._replace(topic_id=self._draw_topic_id())
            if topic.topic_id == NO_TOPIC_ID
            else topic
            for topic in topics
        ]
        count = sum(len(topic.log_starts) for topic in topics)
        if not count or count > PARTITIONS_MAX:
            reason = f"a restore is of 1 to {PARTITIONS_MAX} partitions, not of {count}"
            raise ApiError(Error.INVALID_REQUEST, reason)
        _check(topics)
        async with self._turn:
            await self._settled()
            await self._create([_ready(topic, ()) for topic in topics], True)
            self._give_up("another one begins")
            try:
                await self._stage(topics)
            except StorageFault as fault:
                self._give_up(str(fault))
                raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
            self._id = os.urandom(8).hex()
            self._topics = tuple(topics)
            self._look_later()
            log.info("Restore %s of %d partitions begins", self._id, count)
            return self._id

    def append(self, restore_id: str, place: TopicPartition, records: Buffer) -> Offset:
        """Where the partition ends now. Raises ApiError."""
        self._check(restore_id)
        staged = self._staged.get(place)
        if staged is None:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"{place} is not being restored")
        self._appends += 1
        try:
            return staged.append(records)
        except StorageFault as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault

    async def end(self, restore_id: str, is_wanted: bool, producer_id_last: int) -> None:
        """Make topics of what was appended, or nothing. Raises ApiError; then it is nothing."""
        async with self._turn:
            await self._settled()
            self._check(restore_id)
            if not is_wanted:
                self._give_up("it is not wanted any more")
                return
            # Nothing may be appended from here on.
            self._id = ""
            # Whoever asked may go away meanwhile: it is ended all the same, or taken back.
            self._ending = asyncio.create_task(self._end(producer_id_last))
            await asyncio.shield(self._ending)

    async def _end(self, producer_id_last: int) -> None:
        staged, topics = list(self._staged.values()), self._topics
        is_done = False
        try:
            await self._close(staged)
            await self._pass_producer_ids(producer_id_last)
            await self._place(staged)
            await self._create([_ready(topic, self._epochs_of(topic)) for topic in topics], False)
            is_done = True
        except StorageFault as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
        finally:
            if not is_done:
                self._take_back()
        self._staged = {}
        log.info("Restored %d topics with %d partitions", len(topics), len(staged))

    async def _settled(self) -> None:
        """Until the one before is over, whose asker has gone."""
        if self._ending is not None and not self._ending.done():
            await asyncio.wait([self._ending])

    def _check(self, restore_id: str) -> None:
        if not self._id or restore_id != self._id:
            reason = f"there is no restore {restore_id}: it is over, or another one has begun"
            raise ApiError(Error.RESOURCE_NOT_FOUND, reason)

    async def _stage(self, topics: Sequence[WantedTopic]) -> None:
        parents = [each.path for each in self._logs.online]
        if not parents:
            raise StorageFault("cannot restore into", "any directory", reason=NOTHING_ONLINE)
        number = 0
        for topic in topics:
            settings = self._settings_of(topic.configs)
            for partition, start in enumerate(topic.log_starts):
                place_of = TopicPartition(topic.name, partition)
                parent = parents[number % len(parents)]
                number += 1
                place = Place(place_of, topic.topic_id, parent, settings, start)
                loaded = await _aside(partial(place.make, self._logs))
                self._staged[place_of] = StagedLog(self._logs, place, loaded)

    async def _close(self, staged: Sequence[StagedLog]) -> None:
        for each in staged:
            work = each.log.begin_close()
            if work is not None:
                fault = each.log.finish_flush(work, await _aside(work.run))
                if fault is not None:
                    raise fault
            elif each.log.fault is not None:
                raise each.log.fault.to_keep()
            each.leave()

    async def _place(self, staged: Sequence[StagedLog]) -> None:
        for each in staged:
            place = each.place.topic_partition
            if self._logs.get(place) is not None:
                # Of no topic: that there is none was just asked.
                self._logs.set_aside(place, "a restored topic takes its place")
            each.restate()
            self._logs.put(each.opened(await _aside(each.step_into)))

    def _epochs_of(self, topic: WantedTopic) -> tuple[int, ...]:
        return tuple(
            self._staged[TopicPartition(topic.name, partition)].epoch_next
            for partition in range(len(topic.log_starts))
        )

    def _take_back(self) -> None:
        for place, staged in self._staged.items():
            placed = self._logs.get(place)
            if placed is not None and placed.directory == staged.place.path and staged.is_placed:
                try:
                    self._logs.delete(place)
                except StorageFault as fault:
                    log.error("%s is left of a restore that failed: %s", place, fault)
            else:
                staged.discard()
        self._staged = {}

    def _give_up(self, reason: str) -> None:
        if self._id:
            log.info("Restore %s is given up: %s", self._id, reason)
        self._id = ""
        for staged in self._staged.values():
            staged.discard()
        self._staged = {}

    def _look_later(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        known = self._id, self._appends
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(IDLE_S, lambda: self._look(known))

    def _look(self, known: tuple[str, int]) -> None:
        if not self._id:
            return
        if known == (self._id, self._appends):
            self._give_up(f"nobody has gone on with it for {IDLE_S} s")
        else:
            self._look_later()


def _check(topics: Sequence[WantedTopic]) -> None:
    if any(start < 0 for topic in topics for start in topic.log_starts):
        raise ApiError(Error.INVALID_REQUEST, "no partition starts before offset 0")
    if len({topic.topic_id for topic in topics}) < len(topics):
        raise ApiError(Error.INVALID_REQUEST, "two topics cannot have the same id")
    for topic in topics:
        if topic.name in INTERNAL_TOPICS:
            reason = f"{topic.name} is the broker's own: groups are restored by their offsets"
            raise ApiError(Error.INVALID_TOPIC_EXCEPTION, reason)


def _ready(topic: WantedTopic, leader_epochs: tuple[int, ...]) -> ReadyTopic:
    epochs = leader_epochs or (0,) * len(topic.log_starts)
    return ReadyTopic(topic.name, topic.topic_id, topic.configs, epochs)


async def _aside(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
