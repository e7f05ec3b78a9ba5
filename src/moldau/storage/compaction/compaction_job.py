"""One round of compaction of one log, from the loop's side: what it is about, and whether it is
still wanted."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Protocol

from moldau.storage.compaction.compaction_filter import LastRecord
from moldau.storage.compaction.compaction_pace import Pace
from moldau.storage.compaction.compaction_plan import Dirt, SourceSegment
from moldau.storage.compaction.compaction_round import Limits, Refused, Round
from moldau.storage.compaction.compaction_work import Compaction, CompactionSteps
from moldau.storage.directories.storage_threads import Work
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.segment import Segment
from moldau.storage.log_files import LOG_SUFFIX
from moldau.storage.rewriting.segment_swap import discard_cleaned, swap_in
from moldau.storage.storage_faults import StorageFault


class Stopped(Exception):
    """The round is not wanted any more."""


class Job:
    """A round, with what must still be so when its results are put in place."""

    def __init__(
        self,
        number: int,
        partition_log: PartitionLog,
        segments: list[Segment],
        dirt: Dirt,
        now_ms: int,
    ) -> None:
        self.number = number
        self.began_ms = now_ms
        self.log = partition_log
        self.segments = {segment.base_offset: segment for segment in segments}
        self.what = _round_of(partition_log, segments, dirt, now_ms)
        self.steps: CompactionSteps
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
            # Whoever says that the topic is to keep its records is not to lose them after that.
            and "compact" in self.log.settings.cleanup_policy
        )

    def stop(self) -> None:
        self._stop.set()

    def check(self) -> None:
        """In the thread, now and then."""
        if not self.is_wanted:
            raise Stopped

    def pause(self, delay_ms: float) -> None:
        self._stop.wait(delay_ms / 1000)

    def swap_in_group(self) -> None:
        """The group that was written last, unless retention has taken a part of it."""
        group = self.steps.groups[self.groups_done - 1]
        old = [self.segments[source.base_offset] for source in group]
        there = self.log.segments.from_offset(old[0].base_offset)[: len(old)]
        if there == old:
            swap_in(self.log, old)
        else:
            discard_cleaned(self.log.directory, old[0].base_offset)

    def discard_group(self) -> None:
        """The group that was written last and not swapped in."""
        if self.groups_done:
            group = self.steps.groups[self.groups_done - 1]
            discard_cleaned(self.log.directory, group[0].base_offset)

    def work(self, step: Callable[[], None]) -> Work:
        def run() -> StorageFault | None:
            try:
                step()
            except Stopped:
                pass
            except Refused as refusal:
                self.refusal = str(refusal)
            except StorageFault as fault:
                return fault.to_keep()
            except OSError as error:
                return StorageFault.of("cannot compact", self.log.directory, error)
            return None

        return run


class RoundRunner(Protocol):
    """Does rounds, one after another."""

    def steps_of(self, job: Job, limits: Limits, pace: Pace) -> CompactionSteps: ...
    def rest(self) -> None:
        """Blocks. Nothing is to be done for a while: let go of what only rounds need."""


class InThread:
    """Rounds are done by the thread that asks for them."""

    def steps_of(self, job: Job, limits: Limits, pace: Pace) -> CompactionSteps:
        def took(size_bytes: int) -> None:
            job.check()
            delay_ms = pace.delay_ms(size_bytes)
            if delay_ms > 0:
                job.pause(delay_ms)

        return Compaction(job.what, limits, took)

    def rest(self) -> None:
        pass


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
