"""The reading half of a partition's log: regions by offset, offsets by timestamp, epochs.

Nothing here changes the log, and nothing reads record bodies except the look-up by timestamp. A
log at rest answers what its note can tell; whatever goes beyond loads its files first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis, Offset, TopicPartition
from moldau.model.regions import FileRegion
from moldau.storage import timestamps
from moldau.storage.epoch_file import EpochFile
from moldau.storage.epoch_history import EpochStart
from moldau.storage.faults import StorageFault
from moldau.storage.loaded_log import LoadedLog
from moldau.storage.producer_state import ProducerStates
from moldau.storage.rest import AtRest
from moldau.storage.segment import Segment
from moldau.storage.segments import Segments
from moldau.storage.settings import LogSettings
from moldau.storage.timestamps import TimedOffset
from moldau.storage.txn_index import AbortedTransaction


class LogRead(NamedTuple):
    region: FileRegion | None
    """None: nothing to read now."""
    offset_end: Offset
    """Exclusive end of what `region` holds; the offset that was asked for if that is nothing."""


class ReadableLog:
    topic_partition: TopicPartition
    directory: str
    log_start_offset: Offset
    offset_end: Offset
    """Where the next record goes."""
    settings: LogSettings
    fault: StorageFault | None
    """Set when the disk left the log in a state that only a restart can mend."""
    at_rest: AtRest | None
    """Set until the files are loaded, by the first use of one of the next four: each is then an
    attribute like any other."""
    _epoch_at_rest: EpochStart | None
    """Assigned since; written down as soon as the files are loaded. Should that never happen, it
    has no records."""
    _load_files: Callable[[Any], LoadedLog] | None
    _opened: Callable[[Segment], None] | None

    @cached_property
    def segments(self) -> Segments:
        self._wake()
        return self.segments

    @cached_property
    def producers(self) -> ProducerStates:
        self._wake()
        return self.producers

    @cached_property
    def _epochs(self) -> EpochFile:
        self._wake()
        return self._epochs

    @cached_property
    def _snapshot_offset(self) -> Offset:
        self._wake()
        return self._snapshot_offset

    def _adopt(self, loaded: LoadedLog) -> None:
        self.segments = Segments(loaded.segments, self._opened)
        self.producers = loaded.producers
        self._epochs = loaded.epochs
        self._snapshot_offset = loaded.snapshot_offset

    def _wake(self) -> None:
        """Load the files. Raises StorageFault."""
        if self.fault is not None:
            raise self.fault.to_keep()
        assert self._load_files is not None
        loaded = self._load_files(self)
        if loaded.offset_end != self.offset_end:
            self.fault = StorageFault(
                "cannot use",
                self.directory,
                reason=f"its files were changed since the broker started: they end with offset "
                f"{loaded.offset_end}, not {self.offset_end}; start the broker again",
            )
            raise self.fault.to_keep()
        self._adopt(loaded)
        self.at_rest = None
        self.segments.active.set_roll_timestamp(self.settings.roll_ms)
        if self._epoch_at_rest is not None:
            self._epochs.assign(*self._epoch_at_rest)

    def cool(self) -> None:
        """Let go of all descriptors; the next reader opens them again."""
        if self.at_rest is None:
            self.segments.cool()

    @property
    def base_offset(self) -> Offset:
        """Where the first segment starts."""
        rest = self.at_rest
        return self.segments.base_offset if rest is None else rest.note.base_offset

    @property
    def segment_count(self) -> int:
        return len(self.segments) if self.at_rest is None else self.at_rest.note.segment_count

    @property
    def size_bytes(self) -> int:
        rest = self.at_rest
        return self.segments.size_bytes if rest is None else rest.note.size_bytes

    @property
    def max_timestamp(self) -> Millis:
        """Of all records; -1 if none carries one."""
        return max(segment.latest_record_timestamp() for segment in self.segments)

    def read(
        self, offset: Offset, max_bytes: int, offset_limit: Offset, min_one_batch: bool = True
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, in one segment: none that ends after
        `offset_limit`, no more than `max_bytes` (but one, if `min_one_batch`)."""
        if offset >= self.offset_end or offset < self.log_start_offset:
            if offset == self.offset_end:
                return LogRead(None, offset)
            raise ApiError(
                Error.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is not within "
                f"{self.log_start_offset}..{self.offset_end}",
            )
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
        """What a read_committed reader of [offset_start, offset_end) must leave out."""
        return self.segments.aborted_transactions(offset_start, offset_end)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Up to here every transaction is decided, and its marker is below the high watermark."""
        if self.at_rest is not None or not self.producers.has_transactions:
            # A log with a transaction that is not over is never at rest.
            return high_watermark
        first = self.first_unstable_offset(high_watermark)
        return high_watermark if first is None else min(first, high_watermark)

    def first_unstable_offset(self, high_watermark: Offset) -> Offset | None:
        first = self.producers.first_unstable_offset(high_watermark)
        return None if first is None else max(first, self.log_start_offset)

    def offset_for_timestamp(self, timestamp: Millis) -> TimedOffset | None:
        """The first record that is not earlier."""
        segments = self.segments.as_list()
        try:
            return timestamps.first_at_or_after(segments, timestamp, self.log_start_offset)
        except OSError as error:
            raise StorageFault.of("cannot read", self.directory, error) from error

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """The first of the records with the largest timestamp."""
        try:
            return timestamps.of_latest(self.segments.as_list(), self.log_start_offset)
        except OSError as error:
            raise StorageFault.of("cannot read", self.directory, error) from error

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last records; -1 if there never were any."""
        if self.at_rest is not None:
            return (self._epoch_at_rest or self.at_rest.note.epoch).epoch
        return self._epochs.history.latest

    @property
    def last_epoch_start(self) -> EpochStart:
        return self._epochs.history.last

    def epoch_at(self, offset: Offset) -> int:
        """The leader epoch that wrote `offset`; -1 if unknown."""
        return self._epochs.history.epoch_at(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, Offset]:
        """(largest known epoch ≤ `epoch`, where it ended); (-1, -1) if there is none."""
        rest, assigned = self.at_rest, self._epoch_at_rest
        # What followers that are up to date ask for, thousands of partitions at a time.
        if rest is not None and epoch >= 0:
            if epoch == self.latest_epoch:
                return epoch, self.offset_end
            if assigned is not None and epoch == rest.note.epoch.epoch:
                return epoch, assigned.offset_start
        return self._epochs.history.end_of(epoch, self.offset_end)
