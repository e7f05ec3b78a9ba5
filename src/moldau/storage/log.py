"""The log of one partition: append, roll, truncate, flush; `reading.py` is its other half.

All of it runs on the event loop's thread. Appending is a sequence check, a stamp into the batch's
header, one write and a few integers; fsync happens in `FlushWork.run`, which a thread may do. The
high watermark is not known here: whoever needs a rule about it passes it in.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis, Offset, TopicId, TopicPartition
from moldau.records.batch import (
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
)
from moldau.storage import admission, retention
from moldau.storage.epoch_history import EpochStart
from moldau.storage.faults import StorageFault
from moldau.storage.flushing import FlushWork, fault_in_use, flush_work
from moldau.storage.following import checked_batches
from moldau.storage.loaded_log import LoadedLog as LoadedLog
from moldau.storage.producer_state import CompletedTransaction, Origin
from moldau.storage.reading import ReadableLog
from moldau.storage.replay import rebuild_producers
from moldau.storage.rest import AtRest
from moldau.storage.segment import RELATIVE_OFFSET_MAX, Segment
from moldau.storage.segment_file import TornTail
from moldau.storage.segments import create_segment
from moldau.storage.settings import LogSettings
from moldau.storage.snapshots import remove_snapshots, snapshot_path, write_snapshot
from moldau.storage.truncation import cut_after, faults_kept, rename_away, start_over
from moldau.storage.txn_index import AbortedTransaction

log = logging.getLogger("kafka.log.UnifiedLog")

_STAMP = struct.Struct(">qii")
"""Base offset, batch length (unchanged) and leader epoch: neighbours, so one call writes them."""


class Appended(NamedTuple):
    base_offset: Offset
    offset_last: Offset
    log_append_time_ms: Millis
    """-1 where records keep the time their producer gave them."""
    log_start_offset: Offset
    duplicate: bool


class PartitionLog(ReadableLog):
    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        directory: str,
        settings: LogSettings,
        clock: Clock,
        loaded: LoadedLog | AtRest,
        *,
        producer_expiration_ms: Millis,
        discard: Callable[[list[str], Millis], None],
        rolled: Callable[[PartitionLog], None],
        unflushed: Callable[[PartitionLog], None],
        load: Callable[[PartitionLog], LoadedLog] | None = None,
        opened: Callable[[Segment], None] | None = None,
    ) -> None:
        """`discard(paths, delay_ms)` removes files later; `rolled(log)` hears of each roll, for the
        flush that should follow; `unflushed(log)` when the recovery point has gone back: that must
        be on disk before anything is written there again. `load(log)` reads the files of one at
        rest; `opened(segment)` hears of files that stay open."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.log_start_offset = loaded.log_start_offset
        self.fault = None
        self.flushed_ms = clock.wall_ms()
        self.truncations = 0
        self.cleaned_end: Offset = 0
        """Up to here the log was compacted; the cleaner's checkpoint."""
        self._clock = clock
        self._producer_expiration_ms = producer_expiration_ms
        self.discard = discard
        self._rolled = rolled
        self._unflushed = unflushed
        self._load_files = load
        self._opened = opened
        self._epoch_at_rest = None
        if isinstance(loaded, AtRest):
            self.at_rest = loaded
            self.offset_end = self.recovery_point = loaded.note.offset_end
        else:
            self.at_rest = None
            self.recovery_point = loaded.recovery_point
            self.offset_end = loaded.offset_end
            self._adopt(loaded)
        self.settings = settings

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self.offset_end})"

    @property
    def settings(self) -> LogSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: LogSettings) -> None:
        self._settings = settings
        self._segment_bytes = settings.internal_segment_bytes or settings.segment_bytes
        self._flush_delta = settings.flush_messages - 1
        if self.at_rest is None:
            self.segments.active.set_roll_timestamp(settings.roll_ms)

    # -- appending ---------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        header: BatchHeader,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> Appended:
        """Give one validated batch the next offsets and write it."""
        length, delta, max_timestamp, producer_id = header[1], header[6], header[8], header[9]
        base_offset = self.offset_end
        offset_last = base_offset + delta
        if producer_id >= 0:
            span = admission.admit(
                self.producers, records, header, base_offset, origin, transaction_version
            )
            if span is not None:
                start = self.log_start_offset
                return Appended(span.base_offset, span.offset_last, span.timestamp, start, True)
        size = length + LOG_OVERHEAD_BYTES
        segment = self.segments.active
        if (
            segment.size_bytes + size > self._segment_bytes
            or max_timestamp > segment.roll_timestamp
            or segment.is_full
            or offset_last - segment.base_offset > RELATIVE_OFFSET_MAX
            or self.fault is not None
        ):
            segment = self._make_room(size, max_timestamp, offset_last)
        if leader_epoch != self._epochs.history.latest:
            self._epochs.assign(leader_epoch, base_offset)
        _STAMP.pack_into(records, 0, base_offset, length, leader_epoch)
        self._write(segment, records, size, offset_last, max_timestamp)
        if producer_id >= 0:
            self._note(admission.record(self.producers, records, header, base_offset))
        if offset_last >= self.recovery_point + self._flush_delta:
            self.flush()
        append_time = max_timestamp if header[5] & LOG_APPEND_TIME_FLAG else NO_TIMESTAMP
        return Appended(base_offset, offset_last, append_time, self.log_start_offset, False)

    def append_as_follower(self, records: Buffer) -> Offset:
        """Write batches as their leader stamped them; the new end offset."""
        for batch, header in checked_batches(records, self.offset_end):
            size, offset_last = len(batch), header.last_offset
            segment = self._make_room(size, header.max_timestamp, offset_last)
            if header.leader_epoch > self.latest_epoch:
                self._epochs.assign(header.leader_epoch, header.base_offset)
            self._write(segment, batch, size, offset_last, header.max_timestamp)
            if header.has_producer:
                self._note(admission.record(self.producers, batch, header, header.base_offset))
        if self.offset_end > self.recovery_point + self._flush_delta:
            self.flush()
        return self.offset_end

    def assign_epoch(self, epoch: int, offset_start: Offset) -> None:
        if self.at_rest is None:
            self._epochs.assign(epoch, offset_start)
        elif epoch != self.latest_epoch:
            self._epoch_at_rest = EpochStart(epoch, offset_start)

    def _write(
        self, segment: Segment, batch: Buffer, size: int, offset_last: Offset, timestamp: Millis
    ) -> None:
        try:
            segment.write(batch)
        except TornTail as fault:
            self.fault = fault.to_keep()
            raise
        segment.add_batch(size, offset_last, timestamp)
        if segment.first_timestamp is None:
            segment.first_timestamp = timestamp
            segment.set_roll_timestamp(self._settings.roll_ms)
        self.offset_end = offset_last + 1

    def _note(self, done: CompletedTransaction | None) -> None:
        if done is None or not done.aborted:
            return
        try:
            self.segments.active.txn_index.append(AbortedTransaction.of(done))
        except StorageFault as fault:
            # The marker is in the log, so readers would take the transaction for committed.
            self.fault = fault.to_keep()
            raise

    # -- rolling -----------------------------------------------------------------------------

    def _make_room(self, size: int, max_timestamp: Millis, offset_last: Offset) -> Segment:
        """The segment that the next batch goes to: a new one if the rules say so."""
        if self.fault is not None:
            raise self.fault.to_keep()
        if size > self._segment_bytes:
            raise ApiError(
                Error.RECORD_LIST_TOO_LARGE,
                f"{self.topic_partition}: a batch of {size} bytes exceeds the largest segment of "
                f"{self._segment_bytes} bytes",
            )
        active = self.segments.active
        if (
            active.size_bytes + size > self._segment_bytes
            or active.is_full
            or offset_last - active.base_offset > RELATIVE_OFFSET_MAX
            or active.is_old(max_timestamp, self._clock.wall_ms(), self._settings.roll_ms)
        ):
            # Where a follower's offsets jump far ahead the new segment must be able to hold them.
            self.roll(max(self.offset_end, offset_last - RELATIVE_OFFSET_MAX))
        return self.segments.active

    def roll(self, base_offset: Offset | None = None) -> None:
        """Close the segment being written and go on in a new one."""
        active = self.segments.active
        base_offset = self.offset_end if base_offset is None else base_offset
        if base_offset == active.base_offset:
            return
        active.seal()
        self.take_snapshot()
        try:
            fresh = create_segment(
                self.directory, base_offset, self._settings, self._clock.wall_ms()
            )
        except TornTail as fault:
            self.fault = fault.to_keep()
            raise
        self.segments.add(fresh)
        log.info("%s Rolled new log segment at offset %d.", self._prefix(), base_offset)
        self._rolled(self)

    def take_snapshot(self) -> None:
        """Keep the producer state on disk as it is now, unless that was done."""
        if self.offset_end > self._snapshot_offset:
            write_snapshot(self.directory, self.offset_end, self.producers.entries)
            self._snapshot_offset = self.offset_end

    def expire_producers(self, now_ms: Millis) -> int:
        if self.at_rest is not None:
            return 0
        return self.producers.expire(now_ms, self._producer_expiration_ms)

    # -- trimming ----------------------------------------------------------------------------

    def advance_log_start(self, offset: Offset) -> bool:
        """Hide everything before `offset` (DeleteRecords, retention); the caller has made sure
        that it is not above the high watermark."""
        if offset <= self.log_start_offset:
            return False
        assert offset <= self.offset_end, f"{offset} lies after the end {self.offset_end}"
        self.log_start_offset = offset
        return True

    def delete_old_segments(self, now_ms: Millis, high_watermark: Offset) -> int:
        """Apply retention; how many segments went."""
        settings, rest = self._settings, self.at_rest
        if rest is not None and not rest.may_lose_segments(now_ms, self.log_start_offset, settings):
            return 0
        outcome = retention.expired(
            self.segments.as_list(),
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=high_watermark,
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
            deletes="delete" in settings.cleanup_policy,
        )
        if not outcome.segment_count:
            return 0
        if outcome.segment_count == len(self.segments):
            self.roll()
        removed = self.segments.remove_first(outcome.segment_count)
        self.advance_log_start(self.segments.base_offset)
        self._delete(removed, outcome.reason)
        # Not before the records are really gone: a crash may take an advanced log start back.
        self._epochs.truncate_from_start(self.segments.base_offset)
        remove_snapshots(self.directory, before=self.segments.base_offset)
        return outcome.segment_count

    def truncate_to(self, offset: Offset) -> None:
        """Drop everything from `offset` on: the leader's log parted from ours there."""
        if offset >= self.offset_end:
            rest = self.at_rest
            if rest is not None and rest.note.epoch.offset_start < self.offset_end:
                self._epoch_at_rest = None
                return
            # A leader that wrote nothing left an epoch that starts at the end: it never was.
            self._epochs.truncate_from_end(self.offset_end)
            return
        if offset < self.segments.base_offset:
            self.truncate_fully(offset)
            return
        log.info("%s Truncating to offset %d from %d", self._prefix(), offset, self.offset_end)
        with faults_kept(self):
            self.offset_end = cut_after(self.segments, self.directory, offset, self._cut_off)
            self.log_start_offset = min(self.log_start_offset, self.offset_end)
            self._after_truncation()

    def truncate_fully(self, offset_start: Offset) -> None:
        """Drop everything and go on at `offset_start`."""
        log.info("%s Truncate and start at offset %d: %r", self._prefix(), offset_start, self)
        fresh = partial(
            create_segment, self.directory, offset_start, self._settings, self._clock.wall_ms()
        )
        with faults_kept(self):
            self.segments = start_over(self.segments, self.directory, fresh, self._cut_off)
            self.log_start_offset = self.offset_end = offset_start
            self._epochs.clear()
            self._after_truncation()

    def _cut_off(self, segments: list[Segment]) -> None:
        self._delete(segments, "truncation")

    def _after_truncation(self) -> None:
        self.truncations += 1
        if self.offset_end < self.recovery_point:
            self.recovery_point = self.offset_end
            self._unflushed(self)
        self.cleaned_end = min(self.cleaned_end, self.offset_end)
        self._epochs.truncate_from_end(self.offset_end)
        self.segments.active.set_roll_timestamp(self._settings.roll_ms)
        self.producers, self._snapshot_offset = rebuild_producers(
            str(self.topic_partition),
            self.directory,
            self.segments.as_list(),
            self.segments.base_offset,
            self.offset_end,
            self._clock.wall_ms(),
            self._producer_expiration_ms,
        )

    def _delete(self, segments: list[Segment], reason: str) -> None:
        paths = rename_away(segments, self._prefix(), reason)
        self.discard(paths, self._settings.file_delete_delay_ms)

    def _prefix(self) -> str:
        parent = os.path.dirname(self.directory)
        return f"[UnifiedLog partition={self.topic_partition}, dir={parent}]"

    # -- flushing and closing ----------------------------------------------------------------

    def begin_flush(self, *, closed_only: bool = False) -> FlushWork | None:
        """What is to be done in a thread; `closed_only` leaves out the segment being written."""
        if self.at_rest is not None:
            return None
        return flush_work(
            self, self._epochs, snapshot_path(self.directory, self._snapshot_offset), closed_only
        )

    def finish_flush(self, work: FlushWork, fault: StorageFault | None) -> StorageFault | None:
        """Note what came of it; the fault, if it is one of this log."""
        fault = fault_in_use(self, fault)
        if fault is not None:
            # A page that could not be written may be dropped by the kernel, so a later fsync that
            # succeeds proves nothing: what we believe is on disk may not be.
            self.fault = fault.to_keep()
        elif work.truncations == self.truncations:
            self.recovery_point = max(self.recovery_point, work.offset_end)
            self.flushed_ms = self._clock.wall_ms()
        return fault

    def flush(self) -> None:
        """Force everything to disk and wait for it."""
        work = self.begin_flush()
        fault = None if work is None else self.finish_flush(work, work.run())
        if fault is not None:
            raise fault

    def begin_close(self) -> FlushWork | None:
        """Complete the files; what is left to do is the flush."""
        if self.at_rest is not None:
            return None
        self.segments.active.seal()
        self.take_snapshot()
        return self.begin_flush()

    def close(self) -> None:
        work = self.begin_close()
        if work is not None:
            self.finish_flush(work, work.run())
        self.cool()
