"""Forcing a log to disk. What must be forced is listed on the loop; the waiting is a thread's.

The list is of names only: should a directory have been deleted and made anew in the meantime, an
fsync too many harms nobody.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from moldau.metrics.duration_cells import DurationCells
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log.segment import Segment
from moldau.storage.log_files import (
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SEGMENT_SUFFIXES,
    parse_offset_file_name,
    sync_directory,
    sync_file,
)
from moldau.storage.log_state.leader_epoch_checkpoint import EpochFile
from moldau.storage.storage_faults import StorageFault

if TYPE_CHECKING:
    from moldau.storage.log.partition_log import PartitionLog

log = logging.getLogger("kafka.log.LogManager")


def segment_files(segments: list[Segment], offset_end: int) -> list[str]:
    """The files of those `segments` that begin before `offset_end`; writes what their indexes still
    hold in memory."""
    files: list[str] = []
    for segment in segments:
        if segment.base_offset < offset_end:
            segment.save_indexes()
            files += [segment.path(suffix) for suffix in SEGMENT_SUFFIXES]
    return files


class FlushWork(NamedTuple):
    offset_end: int
    """The recovery point once this is done: everything before it needs no recovery."""
    truncations: int
    """How often the log had been truncated; if it was since, the work counts for nothing."""
    files: tuple[str, ...]
    directories: tuple[str, ...]

    def run(self) -> StorageFault | None:
        """Blocks until the disk has it all; safe in any thread. Files that were deleted in the
        meantime need no flushing: whether a `MissingFile` is one, `fault_in_use` tells."""
        path, missing = "", None
        try:
            for path in self.files:
                try:
                    sync_file(path)
                except FileNotFoundError:
                    if path.endswith(LOG_SUFFIX):
                        missing = missing or MissingFile("cannot flush", path, errno.ENOENT)
            for path in self.directories:
                try:
                    sync_directory(path)
                except FileNotFoundError:
                    missing = missing or MissingFile("cannot flush", path, errno.ENOENT)
        except OSError as error:
            return StorageFault.of("cannot flush", path, error)
        return missing


class MissingFile(StorageFault):
    """A segment, or a directory, that was to be flushed is not there any more."""


def fault_in_use(flushed: PartitionLog, fault: StorageFault | None) -> StorageFault | None:
    """What came of a flush, as far as the log is concerned as it is now: files that it has let go
    of meanwhile, or put others in the place of, are none of its faults."""
    if not isinstance(fault, MissingFile):
        return fault
    if flushed.fault is not None or os.path.exists(fault.path):
        return None
    parsed = parse_offset_file_name(os.path.basename(fault.path))
    bases = (segment.base_offset for segment in flushed.segments)
    return fault if parsed is None or parsed[0] in bases else None


def flush_work(
    flushed: PartitionLog, epochs: EpochFile, snapshot: str, closed_only: bool
) -> FlushWork | None:
    """What must reach the disk for the recovery point to move to the end, or to the start of the
    segment being written; None if nothing."""
    segments = flushed.segments
    offset_end = segments.active.base_offset if closed_only else flushed.offset_end
    start = flushed.recovery_point
    if closed_only:
        # Closing a segment changed its files even if all its batches had been flushed.
        start = min(start, offset_end - 1)
    elif offset_end <= start:
        return None
    directory = flushed.directory
    files = segment_files(segments.from_offset(start), offset_end)
    files += [snapshot, os.path.join(directory, PARTITION_METADATA_FILE)]
    files += epochs.take_unflushed()
    directories = (directory, os.path.dirname(directory))
    return FlushWork(offset_end, flushed.truncations, tuple(files), directories)


class Flusher:
    """Has logs flushed in the store's thread."""

    def __init__(
        self, threads: Threads, failed: Callable[[PartitionLog, StorageFault], None]
    ) -> None:
        """`failed(log, fault)` hears of flushes that failed."""
        self._threads = threads
        self._failed = failed
        self._aside: set[PartitionLog] = set()
        self.times = DurationCells()
        """How long the disk took for each flush."""

    def flush_closed(self, partition_log: PartitionLog) -> None:
        """After a roll: the segments that are complete now."""
        self.flush(partition_log, closed_only=True)

    def flush_aside(self, partition_log: PartitionLog) -> None:
        """What somebody waits for (flush.messages); what comes during one flush shares the next."""
        if partition_log not in self._aside:
            self._aside.add(partition_log)
            self.flush(partition_log, over=partial(self._flushed_aside, partition_log))

    def _flushed_aside(self, partition_log: PartitionLog, fault: StorageFault | None) -> None:
        self._aside.discard(partition_log)
        if partition_log.flushed_aside(fault):
            self.flush_aside(partition_log)

    def flush(
        self,
        partition_log: PartitionLog,
        *,
        closed_only: bool = False,
        over: Callable[[StorageFault | None], None] = lambda fault: None,
    ) -> None:
        """`over(fault)` hears of the end."""
        partition = partition_log.topic_partition
        try:
            work = partition_log.begin_flush(closed_only=closed_only)
        except StorageFault as fault:
            # Nothing is lost: the recovery point stays, and the next flush tries again.
            log.error("flush failed partition=%s: %s", partition, fault)
            self._failed(partition_log, fault)
            over(fault)
            return
        if work is None:
            over(None)
            return
        pending, took_ns = work, 0

        def run() -> StorageFault | None:
            nonlocal took_ns
            began_ns = time.perf_counter_ns()
            fault = pending.run()
            took_ns = time.perf_counter_ns() - began_ns
            return fault

        def done(fault: StorageFault | None) -> None:
            self.times.add(took_ns)
            own = partition_log.finish_flush(pending, fault)
            if own is not None:
                log.error("flush failed partition=%s: %s", partition, own)
                self._failed(partition_log, own)
            over(own)

        self._threads.run(run, done)
