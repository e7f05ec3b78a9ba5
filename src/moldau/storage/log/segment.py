"""One segment: a `.log` file of whole batches, its indexes, and where its last batches start.

Only the last segment of a log is appended to. Appending is one write and a few integers; reading
finds positions and hands out a region of the file, it never touches record bodies. A failed write
is cut off again, so the file always ends with a whole batch that memory knows of.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from moldau.records.batch import NO_TIMESTAMP, Buffer
from moldau.storage.log.batch_walk import (
    BatchPlace,
    first_ending_after,
    last_ending_by,
    walk_places,
)
from moldau.storage.log.segment_file import SegmentFile
from moldau.storage.log.segment_indexes import OffsetIndex, TimeIndex
from moldau.storage.log.shared_files import is_shared, make_own
from moldau.storage.log.transaction_index import TxnIndex
from moldau.storage.log_files import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
    remove_if_there,
)
from moldau.storage.log_settings import INDEX_INTERVAL_BYTES_MAX, LogSettings
from moldau.storage.storage_faults import StorageFault

TAIL_BATCHES_MAX = 2048
"""Places of recent batches kept in memory for each log; half of them go when it is reached."""
RELATIVE_OFFSET_MAX = 0x7FFFFFFF
POSITION_MAX = 0x7FFFFFFF
_ROLL_NEVER = 0x7FFFFFFFFFFFFFFF


class Span(NamedTuple):
    """Whole batches of one segment: from one position to another, and the offset they end with."""

    position: int
    position_end: int
    offset_end: int


class Segment:
    __slots__ = (
        "_ends",
        "_file",
        "_index_entries_max",
        "_opened",
        "_preallocated",
        "_starts",
        "_tail_floor",
        "_time_entries_max",
        "_unindexed_bytes",
        "base_offset",
        "created_ms",
        "directory",
        "first_timestamp",
        "index_interval_bytes",
        "is_full",
        "jitter_ms",
        "max_timestamp",
        "offset_end",
        "offset_index",
        "offset_of_max_timestamp",
        "roll_timestamp",
        "size_bytes",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        settings: LogSettings,
        created_ms: int,
        *,
        create: bool = False,
    ) -> None:
        """With `create` an empty segment that replaces whatever files have its names, otherwise
        what is on disk: `restore_tail` or a rebuild must follow before it is appended to."""
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.jitter_ms = _random_below(settings.segment_jitter_ms)
        self.index_interval_bytes = min(settings.index_interval_bytes, INDEX_INTERVAL_BYTES_MAX)
        self._index_entries_max = settings.segment_index_bytes // 8
        # One place stays free for the entry that closes the segment.
        self._time_entries_max = settings.segment_index_bytes // 12 - 1
        self._preallocated = False
        self._file: SegmentFile | None = None
        self._opened: Callable[[Segment], None] | None = None
        self.offset_index = OffsetIndex(self.path(OFFSET_INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(self.path(TIME_INDEX_SUFFIX), base_offset)
        self.txn_index = TxnIndex(self.path(TXN_INDEX_SUFFIX), base_offset)
        self.forget_batches()
        if create:
            self._create(settings)
        else:
            self.size_bytes = self._size_on_disk()

    def _create(self, settings: LogSettings) -> None:
        self._file = SegmentFile(self.path(LOG_SUFFIX), create=True)
        self.trim()
        self.offset_index.create()
        self.time_index.create()
        self.txn_index.clear()
        if settings.preallocate:
            self._preallocated = True
            # Only a hint: a file system that cannot do it works as well without.
            with contextlib.suppress(OSError):
                size_bytes = settings.internal_segment_bytes or settings.segment_bytes
                os.posix_fallocate(self._file.fileno(), 0, size_bytes)

    def _size_on_disk(self) -> int:
        path = self.path(LOG_SUFFIX)
        try:
            return os.stat(path).st_size
        except OSError as error:
            raise StorageFault.of("cannot read", path, error) from error

    def path(self, suffix: str) -> str:
        return os.path.join(self.directory, offset_file_name(self.base_offset, suffix))

    @property
    def file(self) -> SegmentFile:
        if self._file is None:
            self._file = SegmentFile(self.path(LOG_SUFFIX))
            if self._opened is not None:
                self._opened(self)
        return self._file

    def report_to(self, opened: Callable[[Segment], None] | None) -> None:
        """From now on `opened(segment)` hears when the file is open to stay so."""
        self._opened = opened
        if opened is not None and self._file is not None:
            opened(self)

    def cool(self) -> None:
        """Let go of descriptors and maps; the next reader opens them again."""
        self._file = None
        self.offset_index.unmap()
        self.time_index.unmap()

    def forget_batches(self) -> None:
        self.size_bytes = 0
        self.offset_end = self.base_offset
        self.first_timestamp: int | None = None
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self.roll_timestamp = _ROLL_NEVER
        self.is_full = False
        self._unindexed_bytes = 0
        self._forget_tail(self.base_offset)

    def reset(self) -> None:
        """Empty the offset and time index, before they are rebuilt from the file."""
        self.offset_index.create()
        self.time_index.create()
        self.forget_batches()

    def _forget_tail(self, floor: int) -> None:
        # Parallel columns: exclusive end offset and start position of each recent batch. The first
        # of them holds the first offset from `_tail_floor` on.
        self._ends = array("q")
        self._starts = array("q")
        self._tail_floor = floor

    # -- appending ---------------------------------------------------------------------------

    def write(self, records: Buffer) -> None:
        """Put the bytes at the end of the file; on any failure none of them stays."""
        self.file.write(records, self.size_bytes)

    def can_follow(self, base_offset: int, offset_last: int) -> bool:
        """Whether a batch with these offsets may come next."""
        return (
            self.offset_end <= base_offset <= offset_last
            and offset_last - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    def add_batch(self, size_bytes: int, offset_last: int, max_timestamp: int) -> None:
        """Take note of the batch that now ends the file."""
        position = self.size_bytes
        ends = self._ends
        ends.append(offset_last + 1)
        self._starts.append(position)
        if len(ends) >= TAIL_BATCHES_MAX:
            half = TAIL_BATCHES_MAX // 2
            self._tail_floor = ends[half - 1]
            del ends[:half], self._starts[:half]
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = offset_last
        if self._unindexed_bytes > self.index_interval_bytes:
            self._unindexed_bytes = 0
            self.offset_index.append(offset_last, position)
            self.time_index.append_if_later(self.max_timestamp, self.offset_of_max_timestamp)
            self._check_full()
        self._unindexed_bytes += size_bytes
        self.size_bytes = position + size_bytes
        self.offset_end = offset_last + 1

    def _check_full(self) -> None:
        self.is_full = (
            len(self.offset_index) >= self._index_entries_max
            or len(self.time_index) >= self._time_entries_max
        )

    def seal(self) -> None:
        """Finish the files as a closed segment's must be; appending may still go on."""
        self.time_index.append_if_later(self.max_timestamp, self.offset_of_max_timestamp)
        self.save_indexes()
        if self._preallocated:
            self.trim()

    def save_indexes(self) -> None:
        self.offset_index.save()
        self.time_index.save()

    def close_at(self, offset_end: int) -> None:
        """From now on the segment is only read; the next one starts at `offset_end`."""
        self.offset_end = offset_end
        self.roll_timestamp = _ROLL_NEVER
        self._forget_tail(offset_end)

    def trim(self) -> None:
        """Cut the file to the batches we know of."""
        self.file.truncate(self.size_bytes)

    def truncate(self, offset: int) -> int:
        """Drop all batches that hold `offset` or later ones; where the log ends now. The batches
        may end before that: then `offset` lies in a gap. What follows is written here again."""
        self.make_own()
        place = self.locate(offset)
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.truncate(offset)
        if place is not None:
            offset = min(offset, place.first_offset(self.file.fileno()))
            self.size_bytes = place.position
            self.trim()
        self.restore_tail()
        return offset

    def make_own(self) -> None:
        """Before anything is changed in place."""
        if is_shared(self.path(LOG_SUFFIX)):
            self.file.make_own()
        for suffix in INDEX_SUFFIXES:
            make_own(self.path(suffix))

    @property
    def is_shared(self) -> bool:
        """Whether a snapshot has the same file: nothing may be appended to it."""
        return is_shared(self.path(LOG_SUFFIX))

    def restore_tail(self) -> None:
        """Learn the end of the file again from the indexes and what comes after them."""
        size_bytes = self.size_bytes
        start = self.offset_index.last().position
        latest = self.time_index.last()
        first_timestamp = self.first_timestamp
        self.forget_batches()
        self.max_timestamp, self.offset_of_max_timestamp = latest
        if size_bytes:
            self.first_timestamp = first_timestamp
        self.size_bytes = start
        self._tail_floor = self.offset_index.last().offset if start else self.base_offset
        # The indexed batch itself comes first again, and must not be indexed twice.
        self._unindexed_bytes = 0
        for place in walk_places(self.file.fileno(), start, size_bytes):
            size = place.position_end - place.position
            self.add_batch(size, place.offset_last, place.max_timestamp)
        self._check_full()

    # -- reading -----------------------------------------------------------------------------

    def locate(self, offset: int) -> BatchPlace | None:
        """The first batch that ends after `offset`; None if there is none in this segment."""
        if offset >= self.offset_end:
            return None
        start = self.offset_index.floor(offset).position
        return first_ending_after(self.file.fileno(), start, self.size_bytes, offset)

    def span(
        self, offset: int, max_bytes: int, offset_limit: int, min_one_batch: bool
    ) -> Span | None:
        """Whole batches from the one that holds `offset`, within the limits; None if none fits."""
        if offset < self._tail_floor or not self._ends:
            return self._indexed_span(offset, max_bytes, offset_limit, min_one_batch)
        ends, starts = self._ends, self._starts
        first = bisect_right(ends, offset)
        last = len(ends)
        if offset_limit < self.offset_end:
            last = bisect_right(ends, offset_limit)
        if first >= last:
            return None
        position = starts[first]
        position_end = starts[last] if last < len(ends) else self.size_bytes
        if position_end - position > max_bytes:
            last = bisect_right(starts, position + max_bytes, first, last) - 1
            if last == first:
                # Less than one batch would fit.
                if not min_one_batch:
                    return None
                last = first + 1
            position_end = starts[last] if last < len(ends) else self.size_bytes
        return Span(position, position_end, ends[last - 1])

    def _indexed_span(
        self, offset: int, max_bytes: int, offset_limit: int, min_one_batch: bool
    ) -> Span | None:
        place = self.locate(offset)
        if place is None or place.offset_last >= offset_limit:
            return None
        position, first_end = place.position, place.position_end
        if first_end - position > max_bytes:
            return Span(position, first_end, place.offset_last + 1) if min_one_batch else None
        position_max = min(position + max_bytes, self.size_bytes)
        if position_max == self.size_bytes and offset_limit >= self.offset_end:
            return Span(position, position_max, self.offset_end)
        descriptor = self.file.fileno()
        start = max(position, self.offset_index.floor_position(position_max))
        if offset_limit < self.offset_end:
            start = min(start, max(position, self.offset_index.floor(offset_limit - 1).position))
        last = last_ending_by(descriptor, start, position_max, offset_limit)
        if last is None:
            # The indexed batch itself does not fit: the one before it is the last.
            start = max(position, self.offset_index.floor_position(start - 1))
            last = last_ending_by(descriptor, start, position_max, offset_limit)
        if last is None:
            reason = f"there is no batch at byte {position}"
            raise StorageFault("cannot read", self.path(LOG_SUFFIX), reason=reason)
        return Span(position, *last)

    def read_first_timestamp(self) -> int:
        """The first batch's largest timestamp, which rolling by time counts from."""
        if self.first_timestamp is None:
            if not self.size_bytes:
                return NO_TIMESTAMP
            first = next(walk_places(self.file.fileno(), 0, self.size_bytes), None)
            self.first_timestamp = NO_TIMESTAMP if first is None else first.max_timestamp
        return self.first_timestamp

    def set_roll_timestamp(self, segment_ms: int) -> None:
        """Rolling by time as one comparison with a batch's largest timestamp. A segment whose
        first batch has none goes by the clock: there every batch makes the log look closer."""
        first = self.read_first_timestamp()
        if first >= 0:
            self.roll_timestamp = first + segment_ms - self.jitter_ms
        else:
            self.roll_timestamp = NO_TIMESTAMP - 1 if self.size_bytes else _ROLL_NEVER

    def is_old(self, max_timestamp: int, now_ms: int, segment_ms: int) -> bool:
        """Whether a batch with this timestamp belongs into a new segment."""
        if not self.size_bytes:
            return False
        first = self.read_first_timestamp()
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return waited_ms > segment_ms - self.jitter_ms

    def latest_record_timestamp(self) -> int:
        """Of all records; -1 if none carries one."""
        if self.max_timestamp < 0 and self.time_index:
            # Closed before we started: its last entry has the largest timestamp.
            self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last()
            self.time_index.unmap()
        return self.max_timestamp

    def latest_timestamp(self) -> int:
        """For retention: as above, or when the file was last written."""
        timestamp = self.latest_record_timestamp()
        if timestamp < 0:
            timestamp = int(os.stat(self.path(LOG_SUFFIX)).st_mtime * 1000)
        return timestamp

    # -- files -------------------------------------------------------------------------------

    def mark_deleted(self) -> list[str]:
        """Rename all files away; the paths to remove later. Open regions stay readable."""
        self.offset_index.unmap()
        self.time_index.unmap()
        paths = []
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            try:
                os.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StorageFault.of("cannot rename", path, error) from error
            paths.append(path + DELETED_SUFFIX)
        return paths

    def remove(self) -> None:
        self.cool()
        for suffix in SEGMENT_SUFFIXES:
            remove_if_there(self.path(suffix))


def _random_below(limit: int) -> int:
    return int.from_bytes(os.urandom(8), "big") % limit if limit else 0
