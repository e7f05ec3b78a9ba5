"""The sparse indexes of a segment: offset to position (`.index`, entries of 8 bytes) and timestamp
to offset (`.timeindex`, entries of 12 bytes).

New entries collect in a short tail in memory and are written a few hundred at a time; older ones
are looked up through a read-only map that is made on first use. So an index costs neither memory
nor a descriptor while nobody searches it, and the files have no preallocated rest to trim. What
the tail loses in a crash is rebuilt: segments that were never flushed are scanned again anyway.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import NamedTuple

from moldau.records.batch import NO_TIMESTAMP
from moldau.storage.log.shared_files import is_shared, make_own
from moldau.storage.log_files import write_fully
from moldau.storage.storage_faults import CorruptFile, StorageFault

TAIL_ENTRIES_MAX = 512

_POSITION_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_RELATIVE_IN_POSITION_ENTRY = struct.Struct(">i")
_POSITION_IN_POSITION_ENTRY = struct.Struct(">4xi")
_TIMESTAMP_IN_TIME_ENTRY = struct.Struct(">q")
_RELATIVE_IN_TIME_ENTRY = struct.Struct(">8xi")


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class SparseIndex:
    """A file of equal entries that grow in every field: what both indexes share."""

    __slots__ = ("_map", "_mapped_entries", "_saved", "_tail", "base_offset", "entry_bytes", "path")

    def __init__(self, path: str, base_offset: int, entry_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.entry_bytes = entry_bytes
        self._saved = self._entries_on_disk()
        self._tail = bytearray()
        self._map: mmap.mmap | None = None
        self._mapped_entries = 0

    def __len__(self) -> int:
        return self._saved + len(self._tail) // self.entry_bytes

    def save(self) -> None:
        """Append the tail to the file (without fsync)."""
        if not self._tail:
            return
        make_own(self.path)
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.lseek(descriptor, self._saved * self.entry_bytes, os.SEEK_SET)
                # A copy: a fault that somebody keeps would keep a view of the tail, and a
                # bytearray that is viewed cannot grow.
                write_fully(descriptor, bytes(self._tail))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageFault.of("cannot write", self.path, error) from error
        self._saved += len(self._tail) // self.entry_bytes
        self._tail.clear()

    def keep_first(self, entries: int) -> None:
        """Drop all entries after the first `entries`, from the file too."""
        self.unmap()
        if entries >= self._saved:
            del self._tail[(entries - self._saved) * self.entry_bytes :]
            return
        self._tail.clear()
        self._saved = entries
        try:
            os.truncate(self.path, entries * self.entry_bytes)
        except OSError as error:
            raise StorageFault.of("cannot truncate", self.path, error) from error

    def create(self) -> None:
        """Make the file if it is missing, and empty it."""
        self.unmap()
        self._tail.clear()
        self._saved = 0
        try:
            if is_shared(self.path):
                os.unlink(self.path)
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
        except OSError as error:
            raise StorageFault.of("cannot create", self.path, error) from error

    def unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
            self._mapped_entries = 0

    def _entries_on_disk(self) -> int:
        try:
            size_bytes = os.stat(self.path).st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StorageFault.of("cannot read", self.path, error) from error
        return size_bytes // self.entry_bytes

    def _field(self, entry: struct.Struct, index: int) -> int:
        """The one field that `entry` unpacks, of the entry at `index`."""
        value: int
        if index >= self._saved:
            start = (index - self._saved) * self.entry_bytes
            (value,) = entry.unpack_from(self._tail, start)
        else:
            (value,) = entry.unpack_from(self._mapped(), index * self.entry_bytes)
        return value

    def _mapped(self) -> mmap.mmap:
        if self._map is None or self._mapped_entries < self._saved:
            self.unmap()
            try:
                descriptor = os.open(self.path, os.O_RDONLY)
                try:
                    # A file that somebody cut behind our back must not be read past its end.
                    if os.fstat(descriptor).st_size < self._saved * self.entry_bytes:
                        raise StorageFault("cannot read", self.path, reason="the file has shrunk")
                    self._map = mmap.mmap(
                        descriptor, self._saved * self.entry_bytes, access=mmap.ACCESS_READ
                    )
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise StorageFault.of("cannot read", self.path, error) from error
            self._mapped_entries = self._saved
        return self._map

    def _append(self, entry: bytes) -> None:
        self._tail += entry
        if len(self._tail) >= TAIL_ENTRIES_MAX * self.entry_bytes:
            # The batch is in the log already, so this must not fail: what cannot be written now
            # stays here and is tried again with the next entry, or by whoever must know.
            with contextlib.suppress(StorageFault):
                self.save()

    def _search(self, bisect: Callable[..., int], entry: struct.Struct, target: int) -> int:
        """Where `target` belongs among the values of the one field that `entry` unpacks."""
        unpack, size = entry.unpack_from, self.entry_bytes
        saved = self._saved
        if saved and not (self._tail and target > unpack(self._tail)[0]):
            entries = self._mapped()
            found = bisect(range(saved), target, key=lambda i: unpack(entries, i * size)[0])
            if found < saved or not self._tail:
                return found
        tail, count = self._tail, len(self._tail) // size
        return saved + bisect(range(count), target, key=lambda i: unpack(tail, i * size)[0])

    def check_size(self) -> None:
        try:
            size_bytes = os.stat(self.path).st_size
        except FileNotFoundError:
            raise CorruptFile(self.path, "the file is missing") from None
        if size_bytes % self.entry_bytes:
            raise CorruptFile(
                self.path, f"found {size_bytes} bytes, not a multiple of {self.entry_bytes}"
            )


class OffsetIndex(SparseIndex):
    """An entry is the last offset of a batch and the position where that batch starts."""

    __slots__ = ()

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__(path, base_offset, _POSITION_ENTRY.size)

    def append(self, offset: int, position: int) -> None:
        self._append(_POSITION_ENTRY.pack(offset - self.base_offset, position))

    def entry(self, index: int) -> OffsetPosition:
        return OffsetPosition(
            self.base_offset + self._field(_RELATIVE_IN_POSITION_ENTRY, index),
            self._field(_POSITION_IN_POSITION_ENTRY, index),
        )

    def last(self) -> OffsetPosition:
        return self.entry(len(self) - 1) if len(self) else OffsetPosition(self.base_offset, 0)

    def floor(self, offset: int) -> OffsetPosition:
        """The last entry whose offset is ≤ `offset`; the segment's start if there is none."""
        relative = offset - self.base_offset
        index = self._search(bisect_right, _RELATIVE_IN_POSITION_ENTRY, relative) - 1
        return self.entry(index) if index >= 0 else OffsetPosition(self.base_offset, 0)

    def floor_position(self, position: int) -> int:
        """The last indexed start of a batch that is ≤ `position`; 0 if there is none."""
        index = self._search(bisect_right, _POSITION_IN_POSITION_ENTRY, position) - 1
        return self._field(_POSITION_IN_POSITION_ENTRY, index) if index >= 0 else 0

    def truncate(self, offset: int) -> None:
        """Drop entries for `offset` and beyond."""
        relative = offset - self.base_offset
        self.keep_first(self._search(bisect_left, _RELATIVE_IN_POSITION_ENTRY, relative))

    def check(self) -> None:
        """Raise CorruptFile on obvious damage; that costs two look-ups, not a scan."""
        self.check_size()
        if len(self) and self.last().offset < self.base_offset:
            raise CorruptFile(
                self.path,
                f"the last offset {self.last().offset} is less than the first {self.base_offset}",
            )


class TimeIndex(SparseIndex):
    """An entry says: up to this offset no record is later than this timestamp."""

    __slots__ = ("_last",)

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__(path, base_offset, _TIME_ENTRY.size)
        self._last: TimestampOffset | None = None

    def append_if_later(self, timestamp: int, offset: int) -> None:
        if timestamp <= self.last().timestamp:
            return
        self._append(_TIME_ENTRY.pack(timestamp, offset - self.base_offset))
        self._last = TimestampOffset(timestamp, offset)

    def entry(self, index: int) -> TimestampOffset:
        return TimestampOffset(
            self._field(_TIMESTAMP_IN_TIME_ENTRY, index),
            self.base_offset + self._field(_RELATIVE_IN_TIME_ENTRY, index),
        )

    def last(self) -> TimestampOffset:
        if self._last is None:
            count = len(self)
            none = TimestampOffset(NO_TIMESTAMP, self.base_offset)
            self._last = self.entry(count - 1) if count else none
        return self._last

    def floor(self, timestamp: int) -> TimestampOffset:
        """The last entry whose timestamp is ≤ `timestamp`; the segment's start if none."""
        index = self._search(bisect_right, _TIMESTAMP_IN_TIME_ENTRY, timestamp) - 1
        return self.entry(index) if index >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def truncate(self, offset: int) -> None:
        """Drop entries for `offset` and beyond."""
        relative = offset - self.base_offset
        self.keep_first(self._search(bisect_left, _RELATIVE_IN_TIME_ENTRY, relative))

    def keep_first(self, entries: int) -> None:
        super().keep_first(entries)
        self._last = None

    def create(self) -> None:
        super().create()
        self._last = None

    def check(self) -> None:
        self.check_size()
        if not len(self):
            return
        last, first = self.last(), self.entry(0)
        if last.timestamp < first.timestamp:
            raise CorruptFile(
                self.path,
                f"the last timestamp {last.timestamp} is less than the first {first.timestamp}",
            )
        if last.offset < self.base_offset:
            raise CorruptFile(
                self.path, f"the last offset {last.offset} is less than {self.base_offset}"
            )
