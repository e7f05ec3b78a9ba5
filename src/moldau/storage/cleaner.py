"""Compaction as a background job: which log is next, and what becomes of each round.

The cleaner itself lives on the loop. It hands a round to a thread step by step (map the keys, then
each group of segments) and puts every finished group in place before the next step, so disk space
is needed for one group only. A log that was truncated, deleted or found faulty in the meantime
makes its round stop at the next read; what was swapped in until then stays and is right. A log
with a damaged segment is left alone from then on.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from threading import Event
from typing import NamedTuple

from moldau.model.clock import Clock
from moldau.model.names import Offset, TopicPartition
from moldau.storage.checkpoints import CLEANER_FILE
from moldau.storage.cleaner_pace import Pace
from moldau.storage.cleaner_swap import discard_cleaned, swap_in
from moldau.storage.compaction import Compaction, Limits, MapTooSmall, Round
from moldau.storage.compaction_files import DamagedSegment
from moldau.storage.compaction_filter import LastRecord
from moldau.storage.compaction_plan import Dirt, Lags, SourceSegment, measure_dirt
from moldau.storage.faults import CorruptFile, StorageFault
from moldau.storage.files import LOG_SUFFIX
from moldau.storage.log import PartitionLog
from moldau.storage.log_store import LogStore
from moldau.storage.segment import Segment
from moldau.storage.threads import Threads, Work

log = logging.getLogger("kafka.log.LogCleaner")


class CleanerSettings(NamedTuple):
    """The `log.cleaner.*` settings; memory is shared by all threads."""

    threads: int
    map_bytes: int
    map_load_factor: float
    buffer_bytes: int
    bytes_per_second: float


class _Stopped(Exception):
    """The round is not wanted any more."""


class _Job:
    """One round of one log, with what must still be so when its results are put in place."""

    def __init__(
        self, number: int, partition_log: PartitionLog, segments: list[Segment], pace: Pace
    ) -> None:
        self.number = number
        self.log = partition_log
        self.segments = {segment.base_offset: segment for segment in segments}
        self.pace = pace
        self.compaction: Compaction | None = None
        self.refusal: str | None = None
        self.groups_done = 0
        self._truncations = partition_log.truncations
        self._stop = Event()

    @property
    def is_wanted(self) -> bool:
        return (
            not self._stop.is_set()
            and self.log.truncations == self._truncations
            and self.log.fault is None
        )

    def stop(self) -> None:
        self._stop.set()

    def took(self, size_bytes: int) -> None:
        """In the thread, for everything read or written."""
        if not self.is_wanted:
            raise _Stopped
        delay_ms = self.pace.delay_ms(size_bytes)
        if delay_ms > 0:
            self._stop.wait(delay_ms / 1000)

    def work(self, step: Callable[[], None]) -> Work:
        def run() -> StorageFault | None:
            try:
                step()
            except _Stopped:
                pass
            except (DamagedSegment, MapTooSmall) as refusal:
                self.refusal = str(refusal)
            except StorageFault as fault:
                return fault.to_keep()
            except OSError as error:
                return StorageFault.of("cannot compact", self.log.directory, error)
            return None

        return run


class Cleaner:
    def __init__(
        self,
        logs: LogStore,
        *,
        high_watermark: Callable[[TopicPartition], Offset | None],
        settings: Callable[[], CleanerSettings],
        clock: Clock,
        new_thread: Callable[[], Threads],
    ) -> None:
        """`high_watermark` is None for a partition that is not to be touched; `new_thread` makes
        one for each of log.cleaner.threads."""
        self._logs = logs
        self._high_watermark = high_watermark
        self._settings = settings
        self._clock = clock
        self._new_thread = new_thread
        self._threads: list[Threads] = []
        self._jobs: dict[int, _Job] = {}
        self._uncleanable: dict[TopicPartition, PartitionLog] = {}
        self._is_stopped = False
        self._written: dict[str, dict[TopicPartition, Offset]] = {}
        """Log directory to what its checkpoint says."""
        for directory in logs.online:
            self._written[directory.path] = directory.cleaned_ends()
            for partition, offset in self._written[directory.path].items():
                partition_log = logs.get(partition)
                if partition_log is not None:
                    partition_log.cleaned_end = offset

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs)

    @property
    def uncleanable(self) -> list[TopicPartition]:
        """Partitions that are not compacted because of damage."""
        return [tp for tp, each in self._uncleanable.items() if self._logs.get(tp) is each]

    def look(self) -> None:
        """Give every idle thread the dirtiest log that is due, if any."""
        settings = self._settings()
        if not self._is_stopped:
            self._write_checkpoints()
        for number in range(settings.threads):
            if self._is_stopped:
                return
            if number in self._jobs:
                continue
            found = self._dirtiest()
            if found is None:
                return
            self._begin(number, *found, settings)

    def stop(self) -> None:
        """Break off what is under way and wait for the threads."""
        self._is_stopped = True
        for job in self._jobs.values():
            job.stop()
        for thread in self._threads:
            thread.stop()
        for job in list(self._jobs.values()):
            self._discard(job)

    # -- choosing ----------------------------------------------------------------------------

    def _dirtiest(self) -> tuple[PartitionLog, Dirt] | None:
        now_ms = self._clock.wall_ms()
        busy = {job.log.topic_partition for job in self._jobs.values()}
        best: tuple[PartitionLog, Dirt] | None = None
        for partition, partition_log in self._logs.logs.items():
            if (
                len(partition_log.segments) < 2
                or "compact" not in partition_log.settings.cleanup_policy
                or partition_log.fault is not None
                or partition in busy
                or self._uncleanable.get(partition) is partition_log
            ):
                continue
            dirt = self._dirt(partition_log, now_ms)
            if dirt is not None and (best is None or dirt.ratio > best[1].ratio):
                best = partition_log, dirt
        return best

    def _dirt(self, partition_log: PartitionLog, now_ms: int) -> Dirt | None:
        """None if the log need not or must not be compacted now."""
        high_watermark = self._high_watermark(partition_log.topic_partition)
        if high_watermark is None:
            return None
        settings = partition_log.settings
        lags = Lags(
            settings.min_compaction_lag_ms,
            settings.max_compaction_lag_ms,
            settings.min_cleanable_dirty_ratio,
        )
        try:
            dirt = measure_dirt(
                partition_log.segments.as_list(),
                cleaned_end=partition_log.cleaned_end,
                log_start_offset=partition_log.log_start_offset,
                last_stable_offset=partition_log.last_stable_offset(high_watermark),
                lags=lags,
                now_ms=now_ms,
            )
        except StorageFault as fault:
            log.error("%s cannot be looked at: %s", partition_log.topic_partition, fault)
            return None
        is_due = dirt.is_due(lags) and dirt.first_uncleanable > dirt.first_dirty
        return dirt if is_due else None

    # -- a round -----------------------------------------------------------------------------

    def _begin(
        self, number: int, partition_log: PartitionLog, dirt: Dirt, settings: CleanerSettings
    ) -> None:
        self._thread(number)
        segments = [
            segment
            for segment in partition_log.segments.as_list()
            if segment.offset_end <= dirt.first_uncleanable
        ]
        pace = Pace(self._clock, settings.bytes_per_second / max(1, settings.threads))
        job = _Job(number, partition_log, segments, pace)
        limits = Limits(
            settings.map_bytes // max(1, settings.threads),
            settings.map_load_factor,
            settings.buffer_bytes // max(1, settings.threads) // 2,
        )
        try:
            what = _round_of(partition_log, segments, dirt, self._clock.wall_ms())
        except (CorruptFile, StorageFault) as fault:
            self._give_up(partition_log, str(fault))
            return
        job.compaction = Compaction(what, limits, job.took)
        self._jobs[number] = job
        log.info(
            "Cleaner %d: Beginning cleaning of log %s, offsets [%d, %d), %.0f %% dirty.",
            number,
            partition_log.topic_partition,
            dirt.first_dirty,
            dirt.first_uncleanable,
            100 * dirt.ratio,
        )
        self._run(job, job.compaction.map_keys)

    def _run(self, job: _Job, step: Callable[[], None]) -> None:
        def done(fault: StorageFault | None) -> None:
            if not self._is_stopped:
                self._stepped(job, fault)

        self._thread(job.number).run(job.work(step), done)

    def _thread(self, number: int) -> Threads:
        while len(self._threads) <= number:
            self._threads.append(self._new_thread())
        return self._threads[number]

    def _stepped(self, job: _Job, fault: StorageFault | None) -> None:
        """A step is over: put its group in place and take the next."""
        compaction = job.compaction
        assert compaction is not None
        partition = job.log.topic_partition
        if not job.is_wanted or self._logs.get(partition) is not job.log:
            self._end(job)
            log.info("Cleaner %d: Stopped cleaning of log %s.", job.number, partition)
            self.look()
            return
        try:
            if fault is not None:
                raise fault
            if job.refusal is not None:
                self._end(job)
                self._give_up(job.log, job.refusal)
                self.look()
                return
            if job.groups_done:
                self._swap(job)
        except StorageFault as failed:
            # Not tried again before the next regular look: a full disk will still be full.
            self._end(job)
            # Retention may take a segment that was still to be read.
            level = logging.INFO if failed.errno == errno.ENOENT else logging.ERROR
            log.log(
                level, "Cleaner %d: cleaning of log %s failed: %s", job.number, partition, failed
            )
            return
        if job.groups_done < len(compaction.groups):
            group = compaction.groups[job.groups_done]
            job.groups_done += 1
            self._run(job, lambda: compaction.write(group))
        else:
            self._finish(job, compaction)

    def _swap(self, job: _Job) -> None:
        """Unless retention has taken a part of the group."""
        assert job.compaction is not None
        group = job.compaction.groups[job.groups_done - 1]
        old = [job.segments[source.base_offset] for source in group]
        there = job.log.segments.from_offset(old[0].base_offset)[: len(old)]
        if there == old:
            swap_in(job.log, old)
        else:
            discard_cleaned(job.log.directory, old[0].base_offset)

    def _finish(self, job: _Job, compaction: Compaction) -> None:
        job.log.cleaned_end = compaction.offset_end
        self._end(job)
        counts = compaction.counts
        log.info(
            "Cleaner %d: Log %s cleaned up to offset %d: %d of %d records and %d of %d bytes stay.",
            job.number,
            job.log.topic_partition,
            compaction.offset_end,
            counts.records_written,
            counts.records_read,
            counts.bytes_written,
            counts.bytes_read,
        )
        self.look()

    def _give_up(self, partition_log: PartitionLog, reason: str) -> None:
        partition = partition_log.topic_partition
        self._uncleanable[partition] = partition_log
        log.error("Log %s is not compacted from now on: %s", partition, reason)

    def _end(self, job: _Job) -> None:
        del self._jobs[job.number]
        self._discard(job)

    def _discard(self, job: _Job) -> None:
        """Let go of the memory and of a group that was written and not swapped in."""
        assert job.compaction is not None
        job.compaction.close()
        if job.groups_done and self._logs.get(job.log.topic_partition) is job.log:
            group = job.compaction.groups[job.groups_done - 1]
            discard_cleaned(job.log.directory, group[0].base_offset)

    def _write_checkpoints(self) -> None:
        """What is not on disk yet, also of logs that were truncated or deleted; in the first
        thread, so that files are written in order."""
        for directory in self._logs.online:
            ends = {
                partition: each.cleaned_end
                for partition, each in self._logs.logs_in(directory).items()
                if each.cleaned_end > 0
            }
            if self._written.get(directory.path, {}) != ends:
                self._written[directory.path] = ends
                self._thread(0).run(directory.checkpointing({CLEANER_FILE: ends}), _report)


def _round_of(
    partition_log: PartitionLog, segments: list[Segment], dirt: Dirt, now_ms: int
) -> Round:
    settings = partition_log.settings
    return Round(
        directory=partition_log.directory,
        segments=[
            SourceSegment(
                segment.path(LOG_SUFFIX),
                segment.base_offset,
                segment.offset_end,
                segment.size_bytes,
                len(segment.offset_index) * segment.offset_index.entry_bytes,
                len(segment.time_index) * segment.time_index.entry_bytes,
            )
            for segment in segments
        ],
        first_dirty=dirt.first_dirty,
        first_uncleanable=dirt.first_uncleanable,
        aborted=partition_log.aborted_transactions(0, dirt.first_uncleanable),
        last_records={
            entry.producer_id: LastRecord(
                entry.batches[-1].offset_last if entry.batches else None, entry.epoch
            )
            for entry in partition_log.producers.entries
        },
        now_ms=now_ms,
        delete_retention_ms=settings.delete_retention_ms,
        segment_bytes=settings.internal_segment_bytes or settings.segment_bytes,
        segment_index_bytes=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
    )


def _report(fault: StorageFault | None) -> None:
    if fault is not None:
        log.error("checkpoint failed: %s", fault)
