"""Compaction as a background job: which log is next, and what becomes of each round.

The cleaner itself lives on the loop. It hands a round to a thread step by step (map the keys, then
each group of segments) and puts every finished group in place before the next step, so disk space
is needed for one group only. A log that was truncated, deleted or found faulty in the meantime
makes its round stop at the next read; what was swapped in until then stays and is right. A log
with a damaged segment is left alone from then on. What a round needs is imported when the first
one begins.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from moldau.model.clock import Clock
from moldau.model.names import Offset, TopicPartition
from moldau.storage.compaction.cleaner_figures import CleanerFigures
from moldau.storage.compaction.compaction_plan import Dirt, Lags, measure_dirt
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log.log_at_rest import RestingLog
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log_state.checkpoint_files import CLEANER_FILE
from moldau.storage.storage_faults import CorruptFile, StorageFault

if TYPE_CHECKING:
    from moldau.storage.compaction.compaction_job import Job, RoundRunner
    from moldau.storage.compaction.compaction_round import Limits

log = logging.getLogger("kafka.log.LogCleaner")

LATER_MS, LATER_MS_MAX = 60_000, 15 * 60_000
"""A log that could not be compacted is tried again at the next look, then ever more seldom."""

LEVELS = {
    # Retention may take a segment that was still to be read.
    errno.ENOENT: logging.INFO,
    # A process that hung was ended.
    errno.ETIMEDOUT: logging.WARNING,
}
"""Of the line about a round that failed; others are errors."""


class CleanerSettings(NamedTuple):
    """The `log.cleaner.*` settings; memory and pace are shared by all threads."""

    threads: int
    map_bytes: int
    map_load_factor: float
    buffer_bytes: int
    bytes_per_second: float

    @property
    def bytes_per_second_each(self) -> float:
        return self.bytes_per_second / max(1, self.threads)

    @property
    def limits(self) -> Limits:
        """Of one thread."""
        from moldau.storage.compaction.compaction_round import Limits

        return Limits(
            self.map_bytes // max(1, self.threads),
            self.map_load_factor,
            self.buffer_bytes // max(1, self.threads) // 2,
        )


def in_thread() -> RoundRunner:
    from moldau.storage.compaction.compaction_job import InThread

    return InThread()


class Cleaner:
    def __init__(
        self,
        logs: LogStore,
        *,
        high_watermark: Callable[[TopicPartition], Offset | None],
        settings: Callable[[], CleanerSettings],
        clock: Clock,
        new_thread: Callable[[], Threads],
        new_runner: Callable[[], RoundRunner] = in_thread,
    ) -> None:
        """`high_watermark` is None for a partition that is not to be touched; `new_thread` makes
        one for each of log.cleaner.threads, `new_runner` what that thread has for its rounds."""
        self._logs = logs
        self._high_watermark = high_watermark
        self._settings = settings
        self._clock = clock
        self._new_thread = new_thread
        self._new_runner = new_runner
        self._threads: list[Threads] = []
        self._runners: list[RoundRunner] = []
        self._resting: set[int] = set()
        self._jobs: dict[int, Job] = {}
        self._uncleanable: dict[TopicPartition, PartitionLog] = {}
        self._put_off: dict[TopicPartition, tuple[int, int]] = {}
        """Partition to how often it failed in a row, and when to try again."""
        self._is_stopped = False
        self.figures = CleanerFigures(clock.wall_ms())
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

    def is_at(self, partition: TopicPartition) -> bool:
        """Whether a round of that log is under way."""
        return any(job.log.topic_partition == partition for job in self._jobs.values())

    def mended(self, partition: TopicPartition) -> None:
        """Its damage was repaired: look at it again."""
        self._uncleanable.pop(partition, None)

    def look(self) -> None:
        """Give every idle thread the dirtiest log that is due, if any."""
        if self._is_stopped:
            return
        settings = self._settings()
        self.figures.looked(self._clock.wall_ms())
        self._write_checkpoints()
        for number in range(settings.threads):
            if number in self._jobs:
                continue
            found = self._dirtiest()
            if found is None:
                break
            self._begin(number, *found, settings)
        for number in range(len(self._runners)):
            if number not in self._jobs:
                self._rest(number)

    def stop(self) -> None:
        """Break off what is under way and wait for the threads."""
        self._is_stopped = True
        for job in self._jobs.values():
            job.stop()
        for number in range(len(self._runners)):
            self._rest(number)
        for thread in self._threads:
            thread.stop()
        for job in list(self._jobs.values()):
            self._discard(job)

    # -- choosing ----------------------------------------------------------------------------

    def _dirtiest(self) -> tuple[PartitionLog, Dirt] | None:
        now_ms = self._clock.wall_ms()
        busy = {job.log.topic_partition for job in self._jobs.values()}
        best: tuple[PartitionLog, Dirt] | None = None
        for partition, partition_log in list(self._logs.logs.items()):
            if (
                partition_log.segment_count < 2
                or "compact" not in partition_log.settings.cleanup_policy
                or partition_log.fault is not None
                or partition in busy
                or self._uncleanable.get(partition) is partition_log
                or self._put_off.get(partition, (0, 0))[1] > now_ms
            ):
                continue
            if isinstance(partition_log, RestingLog):
                # How dirty it is only its files say: the next look sees them.
                partition_log.wake(partial(self._woken, partition_log))
                continue
            dirt = self._dirt(partition_log, now_ms)
            if dirt is not None and (best is None or dirt.ratio > best[1].ratio):
                best = partition_log, dirt
        return best

    def _woken(self, rested: RestingLog, outcome: PartitionLog | StorageFault) -> None:
        if isinstance(outcome, StorageFault):
            log.error("%s cannot be looked at: %s", rested.topic_partition, outcome)

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
        self.figures.dirty_max = max(self.figures.dirty_max, dirt.ratio)
        is_due = dirt.is_due(lags) and dirt.first_uncleanable > dirt.first_dirty
        return dirt if is_due else None

    # -- a round -----------------------------------------------------------------------------

    def _begin(
        self, number: int, partition_log: PartitionLog, dirt: Dirt, settings: CleanerSettings
    ) -> None:
        from moldau.storage.compaction.compaction_job import Job
        from moldau.storage.compaction.compaction_pace import Pace

        segments = [
            segment
            for segment in partition_log.segments.as_list()
            if segment.offset_end <= dirt.first_uncleanable
        ]
        try:
            job = Job(number, partition_log, segments, dirt, self._clock.wall_ms())
        except (CorruptFile, StorageFault) as fault:
            self._give_up(partition_log, str(fault))
            return
        pace = Pace(self._clock, settings.bytes_per_second_each)
        job.steps = self._runner(number).steps_of(job, settings.limits, pace)
        self._jobs[number] = job
        self._resting.discard(number)
        log.info(
            "Cleaner %d: Beginning cleaning of log %s, offsets [%d, %d), %.0f %% dirty.",
            number,
            partition_log.topic_partition,
            dirt.first_dirty,
            dirt.first_uncleanable,
            100 * dirt.ratio,
        )
        self._run(job, job.steps.map_keys)

    def _run(self, job: Job, step: Callable[[], None]) -> None:
        def done(fault: StorageFault | None) -> None:
            if not self._is_stopped:
                self._stepped(job, fault)

        self._thread(job.number).run(job.work(step), done)

    def _thread(self, number: int) -> Threads:
        while len(self._threads) <= number:
            self._threads.append(self._new_thread())
        return self._threads[number]

    def _runner(self, number: int) -> RoundRunner:
        while len(self._runners) <= number:
            self._runners.append(self._new_runner())
        return self._runners[number]

    def _rest(self, number: int) -> None:
        """Once per streak of rounds; in the thread, after what that has still to do."""
        if number in self._resting:
            return
        self._resting.add(number)
        runner = self._runners[number]

        self._thread(number).run(runner.rest, _report)

    def _stepped(self, job: Job, fault: StorageFault | None) -> None:
        """A step is over: put its group in place and take the next."""
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
                job.swap_in_group()
        except StorageFault as failed:
            self._fail(job, failed)
            return
        if job.groups_done < len(job.steps.groups):
            number = job.groups_done
            job.groups_done += 1
            self._run(job, lambda: job.steps.write(number))
        else:
            self._finish(job)

    def _finish(self, job: Job) -> None:
        job.log.cleaned_end = job.steps.offset_end
        self._put_off.pop(job.log.topic_partition, None)
        self._end(job)
        counts = job.steps.counts
        took_ms = self._clock.wall_ms() - job.began_ms
        self.figures.finished(took_ms, counts.bytes_read, counts.bytes_written)
        log.info(
            "Cleaner %d: Log %s cleaned up to offset %d: %d of %d records and %d of %d bytes stay.",
            job.number,
            job.log.topic_partition,
            job.steps.offset_end,
            counts.records_written,
            counts.records_read,
            counts.bytes_written,
            counts.bytes_read,
        )
        self.look()

    def _fail(self, job: Job, fault: StorageFault) -> None:
        """Not tried again before the next regular look: a full disk will still be full."""
        self._end(job)
        partition = job.log.topic_partition
        failures = self._put_off.get(partition, (0, 0))[0] + 1
        delay_ms = min(LATER_MS * (2 ** (failures - 1) - 1), LATER_MS_MAX)
        self._put_off[partition] = failures, self._clock.wall_ms() + delay_ms
        level = LEVELS.get(fault.errno or 0, logging.ERROR)
        log.log(level, "Cleaner %d: cleaning of log %s failed: %s", job.number, partition, fault)
        self._rest(job.number)

    def _give_up(self, partition_log: PartitionLog, reason: str) -> None:
        partition = partition_log.topic_partition
        self._uncleanable[partition] = partition_log
        log.error("Log %s is not compacted from now on: %s", partition, reason)

    def _end(self, job: Job) -> None:
        del self._jobs[job.number]
        self._discard(job)

    def _discard(self, job: Job) -> None:
        """Let go of the memory and of a group that was written and not swapped in."""
        job.steps.close()
        if self._logs.get(job.log.topic_partition) is job.log:
            job.discard_group()

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


def _report(fault: StorageFault | None) -> None:
    if fault is not None:
        log.error("checkpoint failed: %s", fault)
