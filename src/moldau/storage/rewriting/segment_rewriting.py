"""Reading closed segments batch by batch, and writing the one that takes their place.

The new segment's files have the suffix `.cleaned` until the loop swaps them in; nobody else knows
of them. Its indexes are made as appending makes them.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterator

from moldau.model.errors import ApiError
from moldau.records.batch import (
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
    read_overhead,
)
from moldau.records.checksum import crc32c
from moldau.records.old_formats.old_messages import OLD_BYTES_MIN, run_end
from moldau.records.old_formats.up_conversion import is_old, to_batches
from moldau.storage.compaction.compaction_round import Refused
from moldau.storage.log.transaction_index import AbortedTransaction, encode_aborted
from moldau.storage.log_files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
    remove_if_there,
    write_fully,
)
from moldau.storage.log_settings import INDEX_INTERVAL_BYTES_MAX
from moldau.storage.storage_faults import StorageFault

POSITION_MAX = 0x7FFFFFFF
BATCH_BYTES_MIN = HEADER_BYTES
WRITE_BACK_BYTES = 8 * 1024 * 1024
"""The disk is given a new segment in pieces of this size, while it is written."""
UNSYNCED_BYTES_MAX = 8 * WRITE_BACK_BYTES
"""So much may wait for a slow disk: everybody else's writes and fsyncs wait behind it."""
_POSITION_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class DamagedSegment(Refused):
    """A segment that must not be compacted: where it is damaged, and how."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")


def read_batches(
    path: str, position: int, size_bytes: int, buffer_bytes: int, took: Callable[[int], None]
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of every batch, checksums checked; messages of older formats come
    as the batches that they become. `took(bytes)` is told of each read before it is used, and may
    wait or raise."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageFault.of("cannot open", path, error) from error
    try:
        wanted, offset_next = buffer_bytes, -1
        while position < size_bytes:
            try:
                chunk = os.pread(descriptor, min(wanted, size_bytes - position), position)
            except OSError as error:
                raise StorageFault.of("cannot read", path, error) from error
            took(len(chunk))
            end, wanted = 0, buffer_bytes
            for at, size, header, batch in _batches_in(path, chunk, position):
                if header[0] < offset_next:
                    reason = f"offset {header[0]} comes after {offset_next - 1}"
                    raise DamagedSegment(path, position + at, reason)
                offset_next = header.offset_end
                yield position + at, header, batch
                end = at + size
            if not end:
                wanted = _size_of_first(path, chunk, position, size_bytes)
            position += end
    finally:
        os.close(descriptor)


def _batches_in(
    path: str, chunk: bytes, position: int
) -> Iterator[tuple[int, int, BatchHeader, memoryview]]:
    """(position in the chunk, size on disk, header, batch)."""
    view, at, end = memoryview(chunk), 0, len(chunk)
    while end - at >= HEADER_BYTES or is_old(view, at):
        if is_old(view, at):
            size, batch = _upgraded(path, view[at:], position + at)
            if not size:
                return
            yield at, size, read_header(batch), batch
            at += size
            continue
        header = read_header(chunk, at)
        size = header[1] + LOG_OVERHEAD_BYTES
        if header[3] != MAGIC_V2:
            reason = f"message format {header[3]} is unknown"
            raise DamagedSegment(path, position + at, reason)
        if size < BATCH_BYTES_MIN or header[6] < 0 or header[12] < 0:
            raise DamagedSegment(path, position + at, "a batch's header makes no sense")
        if size > end - at:
            return
        if crc32c(view[at + CRC_START : at + size]) != header[4]:
            reason = f"the checksum of the batch at offset {header.base_offset} is wrong"
            raise DamagedSegment(path, position + at, reason)
        yield at, size, header, view[at : at + size]
        at += size


def _upgraded(path: str, view: memoryview, position: int) -> tuple[int, memoryview]:
    """The batch that the next old messages become, and their size; 0 if not one is there whole."""
    size = read_overhead(view)[1]
    if size < OLD_BYTES_MIN:
        raise DamagedSegment(path, position, f"a message cannot have {size} bytes")
    if size > len(view):
        return 0, view
    size = max(size, run_end(view, 0, len(view)))
    try:
        return size, memoryview(to_batches(view[:size], keeps_codec=True))
    except ApiError as fault:
        raise DamagedSegment(path, position, fault.message) from None


def _size_of_first(path: str, chunk: bytes, position: int, size_bytes: int) -> int:
    """How much must be read to have the first batch whole."""
    size = HEADER_BYTES
    if len(chunk) >= LOG_OVERHEAD_BYTES:
        size = read_overhead(chunk)[1]
    if size > size_bytes - position or size <= len(chunk):
        raise DamagedSegment(path, position, "the last batch is torn")
    return size


class CleanedSegment:
    """The files `<base_offset>.log.cleaned` and so on, while they are written."""

    def __init__(self, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = 0
        self._interval_bytes = min(index_interval_bytes, INDEX_INTERVAL_BYTES_MAX)
        self._unindexed_bytes = 0
        self._latest = (NO_TIMESTAMP, base_offset)
        self._indexed_timestamp = NO_TIMESTAMP
        self._index = bytearray()
        self._time_index = bytearray()
        self._txn_index = bytearray()
        self._written_bytes = 0
        self._sent_bytes = 0
        self._synced_bytes = 0
        for suffix in INDEX_SUFFIXES:
            # What another round left must not pass for this one's.
            remove_if_there(self.path(suffix))
        path = self.path(LOG_SUFFIX)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise StorageFault.of("cannot create", path, error) from error

    def path(self, suffix: str) -> str:
        name = offset_file_name(self.base_offset, suffix) + CLEANED_SUFFIX
        return os.path.join(self.directory, name)

    def add(self, size_bytes: int, offset_last: int, max_timestamp: int) -> None:
        """Take note of the batch that the next write has at this place."""
        if max_timestamp > self._latest[0]:
            self._latest = (max_timestamp, offset_last)
        if self._unindexed_bytes > self._interval_bytes:
            self._unindexed_bytes = 0
            relative = offset_last - self.base_offset
            self._index += _POSITION_ENTRY.pack(relative, self.size_bytes)
            self._index_time()
        self._unindexed_bytes += size_bytes
        self.size_bytes += size_bytes
        if self.size_bytes > POSITION_MAX:
            # Delete horizons may make records a little longer.
            reason = f"it would be larger than {POSITION_MAX} bytes"
            raise StorageFault("cannot write", self.path(LOG_SUFFIX), reason=reason)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        self._txn_index += encode_aborted(aborted)

    def write(self, batches: bytes) -> None:
        try:
            write_fully(self._descriptor, batches)
            self._written_bytes += len(batches)
            if self._written_bytes - self._sent_bytes >= WRITE_BACK_BYTES:
                self._write_back()
        except OSError as error:
            raise StorageFault.of("cannot write", self.path(LOG_SUFFIX), error) from error

    def _write_back(self) -> None:
        """Have what is new on its way to the disk, so that the fsync at the end finds little. Linux
        starts to write what it is told to forget, and forgets only what is written already."""
        size_bytes = self._written_bytes - self._sent_bytes
        with contextlib.suppress(AttributeError, OSError):
            os.posix_fadvise(self._descriptor, self._sent_bytes, size_bytes, os.POSIX_FADV_DONTNEED)
        self._sent_bytes = self._written_bytes
        if self._written_bytes - self._synced_bytes >= UNSYNCED_BYTES_MAX:
            os.fsync(self._descriptor)
            self._synced_bytes = self._written_bytes

    def finish(self, modified_ns: int) -> None:
        """Write the indexes and have everything on disk. The log keeps the age of what it replaces,
        which retention goes by where records carry no time."""
        self._index_time()
        try:
            os.fsync(self._descriptor)
            os.utime(self._descriptor, ns=(modified_ns, modified_ns))
            self._close()
            self._save(OFFSET_INDEX_SUFFIX, self._index)
            self._save(TIME_INDEX_SUFFIX, self._time_index)
            if self._txn_index:
                self._save(TXN_INDEX_SUFFIX, self._txn_index)
        except OSError as error:
            raise StorageFault.of("cannot write", self.path(LOG_SUFFIX), error) from error

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._close()
        for suffix in SEGMENT_SUFFIXES:
            with contextlib.suppress(OSError):
                remove_if_there(self.path(suffix))

    def _index_time(self) -> None:
        timestamp, offset = self._latest
        if timestamp > self._indexed_timestamp:
            self._indexed_timestamp = timestamp
            self._time_index += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)

    def _save(self, suffix: str, entries: bytearray) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(self.path(suffix), flags, 0o644)
        try:
            write_fully(descriptor, bytes(entries))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
