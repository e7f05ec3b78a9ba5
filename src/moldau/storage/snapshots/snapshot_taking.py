"""Taking snapshots of a running broker: one at a time, while clients go on.

The moment itself is one step of the loop: every log says where it ends, the metadata store gives
what it holds. So a transaction that was decided before is decided in the snapshot, one that was
open is open and will be aborted, and no group's offset is ahead of the data. All else happens in a
thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import TypeVar

from moldau.model.errors import ApiError, Error
from moldau.model.names import Offset, TopicPartition
from moldau.net.connection_muting import done_beside
from moldau.storage.directories.log_directory import LogDirectory
from moldau.storage.directories.log_store import LogStore
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.snapshots import snapshot_making
from moldau.storage.snapshots.captured_logs import CapturedLog, capture
from moldau.storage.snapshots.linked_logs import FilesGone, has_grown, settle_log
from moldau.storage.snapshots.snapshot_files import (
    PARTIAL_SUFFIX,
    Manifest,
    check_name,
    data_of,
    names_in,
    read_manifest,
    remove_snapshot,
)
from moldau.storage.snapshots.snapshot_making import Moment
from moldau.storage.storage_faults import CorruptFile, StorageFault

log = logging.getLogger("moldau.snapshots")

T = TypeVar("T")
TRIES = 3
"""A log may let go of files just while they are linked; then another moment is taken."""
SNAPSHOTS_MAX = 1_000
LOGS_PER_TURN = 20
"""Whose files are completed before others have their turn on the loop."""


class Snapshots:
    def __init__(
        self,
        logs: LogStore,
        *,
        high_watermarks: Callable[[], Mapping[TopicPartition, Offset]],
        metadata: Callable[[], tuple[str, Callable[[], bytes]]] | None,
        settings: Callable[[], tuple[Mapping[str, str], bool]],
        node_id: int,
        software: str,
    ) -> None:
        """`metadata()` gives the file name of the metadata store and what makes its content out of
        what it holds now, None in a cluster; `settings()` what a fork needs, and whether the broker
        is secured."""
        self._logs = logs
        self._high_watermarks = high_watermarks
        self._metadata = metadata
        self._settings = settings
        self._node_id = node_id
        self._software = software
        self._is_busy = False

    @property
    def directories(self) -> tuple[str, ...]:
        return tuple(directory.path for directory in self._logs.directories)

    async def create(self, name: str) -> Manifest:
        """Raises ApiError."""
        await self.prepare(name)
        try:
            return await self._create(name)
        except StorageFault as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
        finally:
            self._is_busy = False

    async def prepare(self, name: str) -> None:
        """Whether there may be a snapshot of this name; no other one is made until `end`. Raises
        ApiError."""
        try:
            check_name(name)
        except ValueError as error:
            raise ApiError(Error.INVALID_REQUEST, str(error)) from None
        self._begin()
        is_fine = False
        try:
            names = await self._run_aside(lambda: names_in(self.directories[0]))
            if name in names:
                raise ApiError(Error.INVALID_REQUEST, f"there is a snapshot {name} already")
            if len(names) >= SNAPSHOTS_MAX:
                reason = f"there are {len(names)} snapshots, and {SNAPSHOTS_MAX} are the most"
                raise ApiError(Error.POLICY_VIOLATION, f"{reason}: delete some")
            is_fine = True
        except StorageFault as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
        finally:
            self._is_busy = is_fine

    # A part of a cluster's snapshot, between `prepare_part` and `end`

    async def prepare_part(self, name: str) -> None:
        """As `prepare`, and so that the moment itself is short. Raises ApiError."""
        await self.prepare(name)
        await self._complete_files()

    def take_part(self, name: str, uid: str, led: Mapping[TopicPartition, int]) -> Moment:
        """The moment of this broker: of the partitions that it leads. Raises StorageFault."""
        moment = self._moment(name, of=led)
        return moment._replace(uid=uid, led={str(place): epoch for place, epoch in led.items()})

    async def link_part(self, moment: Moment) -> None:
        """Raises StorageFault."""
        await self._link(moment)

    async def finish_part(self, moment: Moment) -> Manifest:
        """Raises StorageFault."""
        return await self._run_aside(lambda: snapshot_making.finish(moment))

    async def give_up_part(self, moment: Moment) -> None:
        await self._run_aside(lambda: snapshot_making.give_up(moment))

    def end(self) -> None:
        self._is_busy = False

    async def describe(self, told: Callable[[Manifest], T]) -> list[T]:
        """What is told of each: there may be a thousand, each with thousands of partitions, so not
        more than one is in memory at a time. Raises ApiError."""
        try:
            return await self._run_aside(lambda: self._read_all(told))
        except StorageFault as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault

    async def delete(self, name: str) -> None:
        """Raises ApiError."""
        self._begin()
        try:
            if name not in await self._run_aside(lambda: names_in(self.directories[0])):
                raise ApiError(Error.RESOURCE_NOT_FOUND, f"there is no snapshot {name}")
            await self._run_aside(lambda: remove_snapshot(self.directories, name))
            log.info("Deleted the snapshot %s", name)
        except StorageFault as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
        finally:
            self._is_busy = False

    async def _run_aside(self, work: Callable[[], T]) -> T:
        # Done though its client leaves: while a thread still deletes, no other work may begin.
        return await done_beside(None, work)

    def _begin(self) -> None:
        if self._is_busy:
            reason = "another snapshot is being made or deleted: try again when that is over"
            raise ApiError(Error.REQUEST_TIMED_OUT, reason)
        self._is_busy = True

    def _read_all(self, told: Callable[[Manifest], T]) -> list[T]:
        found = []
        for name in names_in(self.directories[0]):
            try:
                found.append(told(read_manifest(self.directories[0], name)))
            except CorruptFile as corrupt:
                log.error("the snapshot %s cannot be used: %s", name, corrupt)
        return found

    async def _create(self, name: str) -> Manifest:
        for tries_left in reversed(range(TRIES)):
            await self._complete_files()
            moment = self._moment(name)
            try:
                manifest = await self._make(moment)
            except FilesGone as gone:
                await self._run_aside(partial(snapshot_making.give_up, moment))
                if not tries_left:
                    raise
                log.info("The snapshot %s begins anew: %s", name, gone)
            except StorageFault:
                await self._run_aside(partial(snapshot_making.give_up, moment))
                raise
            else:
                log.info(
                    "Created the snapshot %s of %d partitions with %d bytes",
                    name,
                    len(manifest.partitions),
                    manifest.size_bytes,
                )
                return manifest
        raise AssertionError("a try returns or raises")

    async def _complete_files(self) -> None:
        """Of all logs in use, one after the other. The moment has to do it once more, but only for
        those that were written to since: it keeps everybody waiting."""
        logs = [each for directory in self._logs.directories for each in self._in_use(directory)]
        for number, each in enumerate(logs, 1):
            if each.fault is None and self._logs.get(each.topic_partition) is each:
                each.close_active()
                each.take_snapshot()
            if number % LOGS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _in_use(self, directory: LogDirectory) -> list[PartitionLog]:
        logs = self._logs.logs_in(directory).values()
        return [each for each in logs if isinstance(each, PartitionLog)]

    def _moment(self, name: str, of: Container[TopicPartition] | None = None) -> Moment:
        """One step of the loop: nothing else runs meanwhile. `of` some partitions, or of all."""
        high_watermarks = self._high_watermarks()
        for directory in self._logs.directories:
            if directory.fault is not None:
                raise directory.fault.to_keep()
        logs = {
            directory.path: [
                capture(each, high_watermarks.get(place, 0))
                for place, each in self._logs.logs_in(directory).items()
                if of is None or place in of
            ]
            for directory in self._logs.directories
        }
        settings, is_secured = self._settings()
        return Moment(
            name,
            self._logs.clock.wall_ms(),
            self._logs.cluster_id or "",
            self._node_id,
            self._software,
            self.directories,
            settings,
            is_secured,
            logs,
            None if self._metadata is None else self._metadata(),
        )

    async def _link(self, moment: Moment) -> None:
        await self._run_aside(lambda: snapshot_making.begin(moment))
        woken = self._woken_since(moment)
        await self._run_aside(lambda: _settle(moment, woken))

    async def _make(self, moment: Moment) -> Manifest:
        await self._link(moment)
        return await self._run_aside(lambda: snapshot_making.finish(moment))

    def _woken_since(self, moment: Moment) -> list[tuple[str, CapturedLog]]:
        """Logs that were at rest at the moment and may have been written to since: from now on
        they go on in another segment. Raises FilesGone if a log was cut back since the moment: the
        files may have been linked just before they were cut."""
        woken = []
        for directory, logs in moment.logs.items():
            for captured in logs:
                now = self._logs.get(captured.topic_partition)
                if not captured.was_at_rest:
                    if isinstance(now, PartitionLog) and now.truncations != captured.truncations:
                        raise FilesGone(captured.directory, captured.last.base_offset)
                elif isinstance(now, PartitionLog) and now.topic_id == captured.topic_id:
                    now.close_active()
                    woken.append((directory, captured))
                elif self._logs.is_waking(captured.topic_partition):
                    woken.append((directory, captured))
        return woken


def _settle(moment: Moment, woken: list[tuple[str, CapturedLog]]) -> None:
    for directory, captured in woken:
        settle_log(captured, data_of(directory, moment.name + PARTIAL_SUFFIX))
    for directory, logs in moment.logs.items():
        data = data_of(directory, moment.name + PARTIAL_SUFFIX)
        for captured in logs:
            # Woken, written to and deleted since: it is not among the store's logs any more.
            if captured.was_at_rest and has_grown(captured, data):
                settle_log(captured, data)
