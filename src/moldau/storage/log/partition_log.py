"""The log of one partition: append, read, roll, truncate, flush.

All of it runs on the event loop's thread. Appending is a sequence check, a stamp into the batch's
header, one write and a few integers; fsync happens in `FlushWork.run`, which a thread may do. The
high watermark is not known here: whoever needs a rule about it passes it in. Reading hands out
regions of files and looks into no record body, but when offsets are looked up by timestamp. The
files are loaded: a log at rest is another type (`log_at_rest.py`).
"""

from __future__ import annotations

import logging
import os
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.file_regions import FileRegion
from moldau.model.names import Millis, Offset, TopicId, TopicPartition
from moldau.records.batch import (
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
)
from moldau.storage.log import log_retention, producer_admission
from moldau.storage.log.known_log import KnownLog
from moldau.storage.log.loaded_log import LoadedLog as LoadedLog
from moldau.storage.log.log_flushing import FlushWork, fault_in_use, flush_work
from moldau.storage.log.log_truncation import cut_after, faults_kept, rename_away, start_over
from moldau.storage.log.offsets_by_timestamp import TimeSearch, search_behind, search_of_latest
from moldau.storage.log.producer_state_replay import rebuild_producers
from moldau.storage.log.replicated_batches import checked_batches
from moldau.storage.log.segment import RELATIVE_OFFSET_MAX, Segment
from moldau.storage.log.segment_file import TornTail
from moldau.storage.log.segment_list import Segments, create_segment
from moldau.storage.log.transaction_index import AbortedTransaction
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.leader_epoch_history import EpochStart
from moldau.storage.log_state.producer_room import ProducerRoom
from moldau.storage.log_state.producer_snapshots import (
    remove_snapshots,
    snapshot_path,
    write_snapshot,
)
from moldau.storage.log_state.producer_state import CompletedTransaction, Origin
from moldau.storage.storage_faults import CorruptFile, StorageFault

log = logging.getLogger("kafka.log.UnifiedLog")

_STAMP = struct.Struct(">qii")
"""Base offset, batch length (unchanged) and leader epoch: neighbours, so one call writes them."""


Flushed = Callable[["StorageFault | None"], None]


class Appended(NamedTuple):
    base_offset: Offset
    offset_last: Offset
    log_append_time_ms: Millis
    """-1 where records keep the time their producer gave them."""
    log_start_offset: Offset
    duplicate: bool


class LogRead(NamedTuple):
    region: FileRegion | None
    """None: nothing to read now."""
    offset_end: Offset
    """Exclusive end of what `region` holds; the offset that was asked for if that is nothing."""


class PartitionLog(KnownLog):
    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        directory: str,
        settings: LogSettings,
        clock: Clock,
        loaded: LoadedLog,
        *,
        producer_room: ProducerRoom,
        discard: Callable[[list[str], Millis], None],
        rolled: Callable[[PartitionLog], None],
        went_back: Callable[[PartitionLog], None],
        opened: Callable[[Segment], None] | None = None,
        flush_aside: Callable[[PartitionLog], None] | None = None,
    ) -> None:
        """`discard(paths, delay_ms)` removes files later; `rolled(log)` hears of each roll, for the
        flush that should follow; `went_back(log)` when the recovery point or the log start may
        have gone back: that must be on disk before anything is written there again;
        `opened(segment)` of files that stay open. `flush_aside(log)` has what was written flushed
        in a thread."""
        now_ms = clock.wall_ms()
        super().__init__(topic_partition, topic_id, directory, loaded.log_start_offset, now_ms)
        self.truncations = 0
        self._flush_wanted: Offset = 0
        """The end of what somebody waits for to be flushed."""
        self._clock = clock
        self._producer_room = producer_room
        self.discard = discard
        self._rolled = rolled
        self._went_back = went_back
        self._flush_aside = flush_aside
        self._awaiting_flush: deque[tuple[Offset, Flushed]] = deque()
        """Who waits until the disk has everything before an offset."""
        self.recovery_point = loaded.recovery_point
        self.offset_end = loaded.offset_end
        self.segments = Segments(loaded.segments, opened)
        self.producers = loaded.producers
        self._epochs = loaded.epochs
        self._snapshot_offset = loaded.snapshot_offset
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
        self.segments.active.set_roll_timestamp(settings.roll_ms)

    def cool(self) -> None:
        """Let go of all descriptors; the next reader opens them again."""
        self.segments.cool()

    @property
    def base_offset(self) -> Offset:
        """Where the first segment starts."""
        return self.segments.base_offset

    @property
    def segment_count(self) -> int:
        return len(self.segments)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def max_timestamp(self) -> Millis:
        """Of all records; -1 if none carries one."""
        return max(segment.latest_record_timestamp() for segment in self.segments)

    # -- reading -----------------------------------------------------------------------------

    def read(
        self, offset: Offset, max_bytes: int, offset_limit: Offset, min_one_batch: bool = True
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, in one segment: none that ends after
        `offset_limit`, no more than `max_bytes` (but one, if `min_one_batch`)."""
        if offset >= self.offset_end or offset < self.log_start_offset:
            if offset == self.offset_end:
                return LogRead(None, offset)
            self.check_range(offset)
        segment = self.segments.active
        try:
            if offset >= segment.base_offset:
                span = segment.span(offset, max_bytes, offset_limit, min_one_batch)
            else:
                found = self.segments.span(offset, max_bytes, offset_limit, min_one_batch)
                segment, span = found or (segment, None)
        except OSError as error:
            raise StorageFault.of("cannot read", self.directory, error) from error
        if span is None:
            return LogRead(None, offset)
        position, position_end, offset_end = span
        return LogRead(FileRegion(segment.file, position, position_end - position), offset_end)

    def aborted_transactions(
        self, offset_start: Offset, offset_end: Offset
    ) -> list[AbortedTransaction]:
        """What a read_committed reader of [offset_start, offset_end) must leave out. Raises
        StorageFault, for an index that nobody can read too."""
        try:
            return self.segments.aborted_transactions(offset_start, offset_end)
        except CorruptFile as corrupt:
            raise StorageFault("cannot read", corrupt.path, reason=corrupt.reason) from corrupt

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Up to here every transaction is decided, and its marker is below the high watermark."""
        if not self.producers.has_transactions:
            return high_watermark
        first = self.first_unstable_offset(high_watermark)
        return high_watermark if first is None else min(first, high_watermark)

    def first_unstable_offset(self, high_watermark: Offset) -> Offset | None:
        first = self.producers.first_unstable_offset(high_watermark)
        return None if first is None else max(first, self.log_start_offset)

    def time_search(self, timestamp: Millis, behind: Offset = -1) -> TimeSearch | None:
        """For the first record that is not earlier, in the next segment after the one at `behind`
        that has one; nothing else is looked at yet."""
        segments = self.segments.as_list()
        try:
            return search_behind(segments, behind, timestamp, self.log_start_offset)
        except OSError as error:
            raise StorageFault.of("cannot read", self.directory, error) from error

    def max_timestamp_search(self) -> TimeSearch | None:
        """For the first of the records with the largest timestamp."""
        try:
            return search_of_latest(self.segments.as_list(), self.log_start_offset)
        except OSError as error:
            raise StorageFault.of("cannot read", self.directory, error) from error

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last records; -1 if there never were any."""
        return self._epochs.history.latest

    @property
    def last_epoch_start(self) -> EpochStart:
        return self._epochs.history.last

    def epoch_at(self, offset: Offset) -> int:
        """The leader epoch that wrote `offset`; -1 if unknown."""
        return self._epochs.history.epoch_at(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, Offset]:
        """(largest known epoch ≤ `epoch`, where it ended); (-1, -1) if there is none."""
        return self._epochs.history.end_of(epoch, self.offset_end)

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
            span = producer_admission.admit(
                self.producers,
                records,
                header,
                base_offset,
                origin,
                transaction_version,
                self._producer_room,
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
            self._note(producer_admission.record(self.producers, records, header, base_offset))
        if offset_last >= self.recovery_point + self._flush_delta:
            self._want_flush()
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
                self._note(
                    producer_admission.record(self.producers, batch, header, header.base_offset)
                )
        if self.offset_end > self.recovery_point + self._flush_delta:
            self._want_flush()
        return self.offset_end

    def _want_flush(self) -> None:
        """flush.messages are written: whoever answers for them waits until `flushed_end`."""
        if self._flush_aside is None:
            self.flush()
        else:
            self._flush_wanted = self.offset_end
            self._flush_aside(self)

    def assign_epoch(self, epoch: int, offset_start: Offset) -> None:
        self._epochs.assign(epoch, offset_start)

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
        if self._producer_room.may_keep(len(self.producers), self._clock.monotonic_ms()):
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

    def close_active(self) -> None:
        """Complete the files of the segment being written: what comes next goes to a new one."""
        active = self.segments.active
        if active.size_bytes:
            active.seal()
            active.is_full = True

    def take_snapshot(self) -> None:
        """Keep the producer state on disk as it is now, unless that was done."""
        if self.offset_end > self._snapshot_offset:
            write_snapshot(self.directory, self.offset_end, self.producers.entries)
            self._snapshot_offset = self.offset_end

    @property
    def has_producer_snapshot(self) -> bool:
        """Whether a file has the producer state as it is now."""
        return self.offset_end <= self._snapshot_offset

    def expire_producers(self, now_ms: Millis) -> int:
        return self.producers.expire(now_ms, self._producer_room.expiration_ms)

    # -- trimming ----------------------------------------------------------------------------

    def delete_old_segments(self, now_ms: Millis, high_watermark: Offset) -> int:
        """Apply retention; how many segments went."""
        settings = self._settings
        outcome = log_retention.expired(
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
            if self.segments.active.offset_end < self.offset_end:
                # In a gap. A segment of its own has the end in its name: the next start finds it.
                self.roll()

    def truncate_fully(self, offset_start: Offset) -> None:
        """Drop everything and go on at `offset_start`."""
        log.info("%s Truncate and start at offset %d: %r", self._prefix(), offset_start, self)
        fresh = partial(
            create_segment, self.directory, offset_start, self._settings, self._clock.wall_ms()
        )
        with faults_kept(self):
            self.segments = start_over(self.segments, self.directory, fresh, self._cut_off_all)
            self.log_start_offset = self.offset_end = offset_start
            self._epochs.clear()
            self._after_truncation()

    def _cut_off(self, segments: list[Segment]) -> None:
        self._delete(segments, "truncation")

    def _cut_off_all(self, segments: list[Segment]) -> None:
        self._cut_off(segments)
        # What producers wrote before is gone, wherever the log goes on.
        remove_snapshots(self.directory)

    def _after_truncation(self) -> None:
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, self.offset_end)
        self.cleaned_end = min(self.cleaned_end, self.offset_end)
        self._went_back(self)
        self._epochs.truncate_from_end(self.offset_end)
        self.segments.active.set_roll_timestamp(self._settings.roll_ms)
        self.producers, self._snapshot_offset = rebuild_producers(
            str(self.topic_partition),
            self.directory,
            self.segments.as_list(),
            self.segments.base_offset,
            self.offset_end,
            self._clock.wall_ms(),
            self._producer_room.expiration_ms,
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

    @property
    def flushed_end(self) -> Offset:
        """Everything before it is on disk as far as flush.messages wants it there."""
        return self.recovery_point if self.recovery_point < self._flush_wanted else self.offset_end

    def when_flushed(self, flushed: Flushed) -> None:
        """Called once, when everything is flushed that is there now, or cannot be; at once if
        that is so already."""
        if self.fault is not None:
            flushed(self.fault)
        elif self.flushed_end >= self.offset_end:
            flushed(None)
        else:
            self._awaiting_flush.append((self.offset_end, flushed))

    def flushed_aside(self, fault: StorageFault | None) -> bool:
        """A flush beside the loop is over; True if another one is wanted by now."""
        wanted = min(self._flush_wanted, self.offset_end)
        if fault is None and self.fault is None and wanted > self.recovery_point:
            # Under steady writes there is always more: what is there need not wait for it.
            while self._awaiting_flush and self._awaiting_flush[0][0] <= self.recovery_point:
                self._awaiting_flush.popleft()[1](None)
            return True
        self.release_waiting(fault or self.fault)
        return False

    def release_waiting(self, fault: StorageFault | None) -> None:
        """Nobody has to wait for a flush of this log any more."""
        self._flush_wanted = 0
        awaiting, self._awaiting_flush = self._awaiting_flush, deque()
        for _, flushed in awaiting:
            flushed(fault)

    def begin_close(self) -> FlushWork | None:
        """Complete the files; what is left to do is the flush."""
        self.segments.active.seal()
        self.take_snapshot()
        return self.begin_flush()

    def close(self) -> None:
        work = self.begin_close()
        if work is not None:
            self.finish_flush(work, work.run())
        self.cool()
