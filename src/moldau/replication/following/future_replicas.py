"""Replicas on their way to another log directory of this broker.

Each is copied in slices that take turns on the loop (only reading and flushing happen in a
thread), within replica.alter.log.dirs.io.max.bytes.per.second, and replaces the current log at a
moment when it has all of it. Nobody who reads or writes the replica notices.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from moldau.model.errors import ApiError
from moldau.model.file_regions import FileRegion
from moldau.model.names import TopicPartition
from moldau.replication.replica import Replica
from moldau.storage.directories.future_log import FutureLog, leftovers
from moldau.storage.directories.log_store import LogStore
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log_state.partition_metadata import read_topic_id
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.server.ReplicaAlterLogDirsThread")

ALTER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SLICE_BYTES = 1024 * 1024
LAST_SLICES = 4
"""What comes in during the last flush is copied in one go, if it is no more than this."""
PAUSE_SECONDS = 0.002
LOOK_AGAIN_SECONDS = 0.5
PREFERRED_MAX = 100_000


class FutureReplicas:
    def __init__(
        self,
        store: LogStore,
        current: Callable[[TopicPartition], Replica | None],
        rate: Callable[[], int | None],
    ) -> None:
        """`rate` is how many bytes a second may be copied, None for any number."""
        self._store = store
        self._current = current
        self._rate = rate
        self._futures: dict[TopicPartition, FutureLog] = {}
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        # Now, and not when they are taken up: by then there may be copies of this run.
        self._leftovers = leftovers(store)

    @property
    def futures(self) -> dict[TopicPartition, FutureLog]:
        return self._futures

    def prefer(self, place: TopicPartition, path: str) -> None:
        """A replica that is not here yet shall be made in that directory."""
        preferred = self._store.new_logs.preferred
        if len(preferred) < PREFERRED_MAX:
            preferred[place] = path

    def move(self, replica: Replica, loaded: PartitionLog, path: str) -> None:
        """To the log directory `path`, away from where it is or is going; `loaded` is its log.
        Raises StorageFault."""
        place = replica.partition.topic_partition
        future = self._futures.get(place)
        if future is not None and future.parent == path and future.source is loaded:
            return
        self.cancel(place)
        # Wherever it was going before the broker's start: this is newer.
        self._discard_leftovers(replica)
        if os.path.dirname(loaded.directory) == path:
            return
        future = self._futures[place] = FutureLog(self._store, loaded, path)
        log.info("Moving %s from %s to %s", place, loaded.directory, path)
        self._tasks[place] = asyncio.get_running_loop().create_task(self._run(place, future))

    def cancel(self, place: TopicPartition) -> None:
        task = self._tasks.pop(place, None)
        if task is not None:
            task.cancel()
        future = self._futures.pop(place, None)
        if future is not None:
            try:
                future.discard()
            except StorageFault as fault:
                log.error("an unfinished copy of %s is left behind: %s", place, fault)

    def look(self) -> None:
        """Take up what an earlier run of this broker left unfinished, from its beginning."""
        for place in list(self._leftovers):
            replica = self._current(place)
            if replica is None:
                continue
            if not isinstance(replica.log, PartitionLog):
                replica.log.wake(_woken)
            if not isinstance(replica_log := replica.log, PartitionLog):
                # The next look goes on.
                continue
            try:
                parent = self._discard_leftovers(replica)
                if parent is not None:
                    self.move(replica, replica_log, parent)
            except StorageFault as fault:
                log.error("%s stays in %s: %s", place, replica.log.directory, fault)

    def _discard_leftovers(self, replica: Replica) -> str | None:
        """The directory that this very replica was going to, if any."""
        place, parent = replica.partition.topic_partition, None
        for path in self._leftovers.pop(place, ()):
            if read_topic_id(path) == replica.log.topic_id:
                parent = os.path.dirname(path)
            self._store.departures.discard(place, path)
        return parent

    def stop(self) -> None:
        """Copies stay as they are, for the next run to see where replicas were going."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _run(self, place: TopicPartition, future: FutureLog) -> None:
        try:
            while not await self._step(place, future):
                await self._pause()
        except (StorageFault, ApiError) as fault:
            log.error("%s stays in %s: %s", place, future.source.directory, fault)
            self._tasks.pop(place, None)
            self.cancel(place)
        self._tasks.pop(place, None)

    async def _pause(self) -> None:
        """Looks at the rate again and again: one that is raised meanwhile holds at once."""
        now = asyncio.get_running_loop().time
        begun = now()
        while (left := begun + self._pause_seconds() - now()) > 0:
            await asyncio.sleep(min(left, LOOK_AGAIN_SECONDS))

    def _pause_seconds(self) -> float:
        rate = self._rate()
        return PAUSE_SECONDS if not rate else max(PAUSE_SECONDS, SLICE_BYTES / rate)

    async def _step(self, place: TopicPartition, future: FutureLog) -> bool:
        """One slice in turn with other moves; True at the end."""
        async with self._turn:
            replica = self._current(place)
            if replica is None or replica.log is not future.source:
                # The replica has left the broker, or was made anew.
                self._tasks.pop(place, None)
                self._leave(place, future)
                return True
            future.align()
            loop = asyncio.get_running_loop()
            region = _next_region(future)
            if region is not None:
                records = await loop.run_in_executor(None, _read, region)
                if future.source.fault is None:
                    future.append(records)
                return False
            work = future.log.begin_flush()
            if work is not None:
                fault = future.log.finish_flush(work, await loop.run_in_executor(None, work.run))
                if fault is not None:
                    raise fault
            return self._finish(replica, future)

    def _leave(self, place: TopicPartition, future: FutureLog) -> None:
        """A copy whose source is not served any more. If that is for a broken disk, the copy may be
        the best that is left: it stays for whoever looks at the disks."""
        parent = os.path.dirname(future.source.directory)
        if any(each.path == parent for each in self._store.online):
            self.cancel(place)
            return
        self._futures.pop(place, None)
        log.warning("an unfinished copy of %s is kept in %s", place, future.log.directory)

    def _finish(self, replica: Replica, future: FutureLog) -> bool:
        """Everything that is left, without letting anybody write in between."""
        future.align()
        for _ in range(LAST_SLICES):
            region = _next_region(future)
            if region is None:
                break
            future.append(_read(region))
        place = replica.partition.topic_partition
        if future.offset_lag or self._current(place) is not replica:
            return False
        moved = future.take_over()
        del self._futures[place]
        if replica.partition.is_leader:
            moved.assign_epoch(replica.partition.leader_epoch, moved.offset_end)
        replica.log = moved
        log.info("Moved %s to %s", place, moved.directory)
        return True


def _woken(outcome: PartitionLog | StorageFault) -> None:
    if isinstance(outcome, StorageFault):
        log.error("a log that is to be moved is not loaded: %s", outcome)


def _next_region(future: FutureLog) -> FileRegion | None:
    source = future.source
    if not future.offset_lag:
        return None
    return source.read(future.log.offset_end, SLICE_BYTES, source.offset_end)[0]


def _read(region: FileRegion) -> bytes:
    try:
        return os.pread(region.file.fileno(), region.size_bytes, region.position)
    except OSError as error:
        raise StorageFault.of("cannot read", "a segment to be moved", error) from error
