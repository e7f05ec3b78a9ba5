"""One pass of the scrubber over the closed segments of all logs.

Files are read in a thread of its own, one segment at a time; what the loop has changed meanwhile is
not judged. Each damage is one line in the log. Files that can be made anew from others are, and
damaged batches are fetched from another replica in sync; the new files are put in place on the
loop, where nobody else can be doing the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import TypeVar

from moldau.broker.segment_scrubber import ScrubberParts
from moldau.model.errors import ApiError
from moldau.model.names import BrokerId
from moldau.replication.replica import Replica
from moldau.replication.replica_loading import loaded
from moldau.replication.segment_repair import mend
from moldau.storage.log.log_at_rest import AnyLog, RestingLog
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.segment import Segment
from moldau.storage.log_files import EPOCHS_FILE, SNAPSHOT_SUFFIX
from moldau.storage.scrubbing.scrub_repair import (
    CannotRepair,
    Plan,
    begin_mending,
    in_groups,
    plan_repair,
)
from moldau.storage.scrubbing.scrub_swap import rewrite_snapshot, swap_mended, to_compact_again
from moldau.storage.scrubbing.segment_scrubbing import (
    ClosedSegment,
    Damage,
    Scrubbed,
    scrub_segment,
    scrub_snapshots,
)
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogScrubber")

ATTEMPTS_MAX = 3
"""At one log that changes while it is looked at."""
CLEANER_SECONDS_MAX = 60
PAUSE_SECONDS_MIN = 0.02
"""Shorter waits are put off, so that small batches are not read one by one."""
T = TypeVar("T")


class Stopped(Exception):
    """The broker stops, or the scrubber was turned off."""


class Changed(Exception):
    """The log is not what it was when the look at it began."""


class ScrubberPass:
    def __init__(self, parts: ScrubberParts, stopping: Event) -> None:
        self._parts = parts
        self._stopping = stopping
        self._thread = ThreadPoolExecutor(1, "kafka-log-scrubber")
        self._free_s = 0.0
        self._files = self._bytes = self._damages = self._repaired = 0

    async def run(self) -> None:
        started_ms = self._parts.clock.monotonic_ms()
        try:
            for partition_log in list(self._parts.logs.logs.values()):
                await self._scrub_log(partition_log)
        except Stopped:
            return
        finally:
            self._thread.shutdown(wait=False)
        found = "none damaged"
        if self._damages:
            found = f"{self._damages} damaged, {self._repaired} of them repaired"
        log.log(
            logging.WARNING if self._damages > self._repaired else logging.INFO,
            "Scrubbed %d files, %d bytes in %d s: %s.",
            self._files,
            self._bytes,
            (self._parts.clock.monotonic_ms() - started_ms) // 1000,
            found,
        )

    # In the thread

    def _in_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._parts.loop.run_in_executor(self._thread, work)

    def _paced(self, count: int) -> None:
        rate = self._parts.config().log_scrubber_bytes_per_second
        if not rate:
            raise Stopped
        now_s = self._parts.clock.monotonic_ms() / 1000
        self._free_s = max(self._free_s, now_s) + count / rate
        if self._free_s - now_s > PAUSE_SECONDS_MIN:
            self._stopping.wait(self._free_s - now_s)
        self._unless_stopped(count)

    def _unless_stopped(self, count: int) -> None:
        if self._stopping.is_set():
            raise Stopped

    # One log

    async def _scrub_log(self, found: AnyLog) -> None:
        for _ in range(ATTEMPTS_MAX):
            if found.fault is not None or (isinstance(found, RestingLog) and found.is_short):
                return
            try:
                partition_log = await loaded(found)
                damages = await self._damages_of(partition_log)
                for damage in damages:
                    log.error("%s", damage)
                self._repaired += await self._repair(partition_log, damages) if damages else 0
                self._damages += len(damages)
                return
            except Changed:
                continue
            except (StorageFault, OSError) as fault:
                log.error("%s cannot be scrubbed: %s", found.topic_partition, fault)
                return

    async def _damages_of(self, partition_log: PartitionLog) -> list[Damage]:
        damages: list[Damage] = []
        truncations = partition_log.truncations
        closed = partition_log.segments.as_list()[:-1]
        for segment in closed:
            what = closed_segment(partition_log, segment)
            found = await self._in_thread(partial(self._scrub, what))
            # Retention and compaction take segments away, truncation makes them grow again.
            if partition_log.truncations != truncations:
                raise Changed
            if segment in partition_log.segments.as_list()[:-1]:
                damages += self._count(found)
        if closed:
            partition, directory = partition_log.topic_partition, partition_log.directory
            found = await self._in_thread(lambda: list(scrub_snapshots(partition, directory)))
            damages += self._count(found)
        return damages

    def _scrub(self, segment: ClosedSegment) -> list[Scrubbed]:
        try:
            return list(scrub_segment(segment, self._paced))
        except FileNotFoundError:
            return []

    def _count(self, found: Sequence[Scrubbed]) -> list[Damage]:
        self._files += len(found)
        self._bytes += sum(each.size_bytes for each in found)
        return [damage for each in found for damage in each.damages]

    # Repair

    async def _repair(self, partition_log: PartitionLog, damages: Sequence[Damage]) -> int:
        """How many of the damages are no more."""
        place = partition_log.topic_partition
        try:
            await self._repair_segments(partition_log, damages)
            snapshots = [each for each in damages if each.path.endswith(SNAPSHOT_SUFFIX)]
            for damage in snapshots:
                rewrite = partial(
                    rewrite_snapshot, str(place), partition_log.directory, damage.offset
                )
                await self._in_thread(rewrite)
                log.info("Repaired %s from the snapshot before it.", damage.path)
        except CannotRepair as reason:
            log.error("%s is not repaired: %s", place, reason)
            return 0
        epochs = [each for each in damages if each.path.endswith(EPOCHS_FILE)]
        if epochs:
            log.error(
                "%s is not repaired while the broker runs: stop it, then use log-scrub --repair",
                epochs[0].path,
            )
        return len(damages) - len(epochs)

    async def _repair_segments(
        self, partition_log: PartitionLog, damages: Sequence[Damage]
    ) -> None:
        truncations = partition_log.truncations
        closed = partition_log.segments.as_list()[:-1]
        plans = plan_repair(
            [closed_segment(partition_log, segment) for segment in closed],
            damages,
            may_have_gaps=may_have_gaps(partition_log),
            cleaned_end=partition_log.cleaned_end,
        )
        sources = self._sources(partition_log, plans)
        for group in in_groups(plans):
            bases = {plan.segment.base_offset for plan in group}
            old = [segment for segment in closed if segment.base_offset in bases]
            await self._repair_group(partition_log, group, sources, old, truncations, damages)

    async def _repair_group(
        self,
        partition_log: PartitionLog,
        group: Sequence[Plan],
        sources: Sequence[BrokerId],
        old: Sequence[Segment],
        truncations: int,
        damages: Sequence[Damage],
    ) -> None:
        place = partition_log.topic_partition
        begin = partial(
            begin_mending,
            group,
            may_have_gaps=may_have_gaps(partition_log),
            index_interval_bytes=partition_log.settings.index_interval_bytes,
            has_read=self._unless_stopped,
        )
        source, mendings = await mend(place, begin, sources, self._parts.peers, self._in_thread)
        try:
            await self._until_cleaner_is_elsewhere(partition_log)
            there = partition_log.segments.as_list()[:-1]
            if (
                partition_log.truncations != truncations
                or partition_log.fault is not None
                or self._parts.logs.get(place) is not partition_log
                or any(segment not in there for segment in old)
            ):
                raise Changed
            self._put_in_place(partition_log, old, damages)
            if group[0].is_whole:
                cleaned_end = partition_log.cleaned_end
                partition_log.cleaned_end = to_compact_again(old[0].base_offset, cleaned_end)
        except (Changed, CannotRepair, Stopped, StorageFault):
            for mending in mendings:
                mending.abandon()
            raise
        whence = "from its log" if source is None else f"from broker {source}"
        for plan in group:
            log.info("Repaired %s %s.", plan.segment.name, whence)

    def _put_in_place(
        self, partition_log: PartitionLog, old: Sequence[Segment], damages: Sequence[Damage]
    ) -> None:
        """Those that were damaged last: a crash in between leaves something to be found."""
        damaged = {damage.path for damage in damages}

        def is_damaged(segment: Segment) -> bool:
            return bool(damaged & closed_segment(partition_log, segment).paths)

        for segment in sorted(old, key=is_damaged):
            swap_mended(partition_log, segment)
        self._parts.cleaner.mended(partition_log.topic_partition)

    def _sources(self, partition_log: PartitionLog, plans: Sequence[Plan]) -> list[BrokerId]:
        """Other replicas in sync, the leader first."""
        if not any(plan.cuts for plan in plans):
            return []
        try:
            replica = self._parts.replicas.find(*partition_log.topic_partition)
        except ApiError as refusal:
            raise CannotRepair(refusal.message) from refusal
        partition = replica.partition
        if (plans[-1].segment.next_base or 0) > partition.high_watermark:
            raise CannotRepair("what is damaged is not committed yet")
        return sources_of(replica)

    async def _until_cleaner_is_elsewhere(self, partition_log: PartitionLog) -> None:
        """Both name their files alike."""
        for _ in range(CLEANER_SECONDS_MAX):
            if not self._parts.cleaner.is_at(partition_log.topic_partition):
                return
            await asyncio.sleep(1)
            self._unless_stopped(0)
        raise CannotRepair("the cleaner is at work on it")


def may_have_gaps(partition_log: PartitionLog) -> bool:
    return partition_log.cleaned_end > 0 or "compact" in partition_log.settings.cleanup_policy


def closed_segment(partition_log: PartitionLog, segment: Segment) -> ClosedSegment:
    return ClosedSegment(
        partition_log.topic_partition,
        partition_log.directory,
        segment.base_offset,
        segment.offset_end,
        may_have_gaps(partition_log),
    )


def sources_of(replica: Replica) -> list[BrokerId]:
    partition = replica.partition
    others = sorted(partition.isr - {partition.node_id})
    return sorted(others, key=lambda broker: broker != partition.leader)
