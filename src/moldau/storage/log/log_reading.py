"""The reading half of a partition's log: regions by offset, offsets by timestamp, epochs.

Nothing here changes the log, and nothing reads record bodies except the look-up by timestamp. Its
files are loaded: one at rest is another type (`log_at_rest.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.model.file_regions import FileRegion
from moldau.model.names import Millis, Offset
from moldau.storage.log import offsets_by_timestamp
from moldau.storage.log.known_log import KnownLog
from moldau.storage.log.offsets_by_timestamp import TimedOffset
from moldau.storage.log.segment_list import Segments
from moldau.storage.log.transaction_index import AbortedTransaction
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.leader_epoch_checkpoint import EpochFile
from moldau.storage.log_state.leader_epoch_history import EpochStart
from moldau.storage.log_state.producer_state import ProducerStates
from moldau.storage.storage_faults import CorruptFile, StorageFault


class LogRead(NamedTuple):
    region: FileRegion | None
    """None: nothing to read now."""
    offset_end: Offset
    """Exclusive end of what `region` holds; the offset that was asked for if that is nothing."""


class ReadableLog(KnownLog):
    settings: LogSettings
    segments: Segments
    producers: ProducerStates
    _epochs: EpochFile

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

    def offset_for_timestamp(self, timestamp: Millis) -> TimedOffset | None:
        """The first record that is not earlier."""
        segments = self.segments.as_list()
        try:
            return offsets_by_timestamp.first_at_or_after(
                segments, timestamp, self.log_start_offset
            )
        except OSError as error:
            raise StorageFault.of("cannot read", self.directory, error) from error

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """The first of the records with the largest timestamp."""
        try:
            return offsets_by_timestamp.of_latest(self.segments.as_list(), self.log_start_offset)
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
