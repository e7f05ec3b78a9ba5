"""The scrubber's walk over one `.log` file: every batch read, and what cannot be as it was written.

Length, format, offsets and checksum are checked. Behind damage the walk goes on at the next batch
that is whole, found by the damaged one's length or else through the offset index; if there is
none, everything up to the end of the file is in doubt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from moldau.records.batch import (
    CRC_START,
    HEADER_BYTES,
    MAGIC_V2,
    BatchHeader,
    read_header,
    read_overhead,
)
from moldau.records.checksum import crc32c
from moldau.storage.log.batch_walk import BATCH_LENGTH_MIN
from moldau.storage.log.segment_indexes import OffsetPosition

OLD_BATCH_BYTES_MIN = 14
"""Of a message in the formats before 0.11, without its offset and size."""

Reader = Callable[[int], None]
"""Hears how many bytes were read, and may wait: the pace."""
Witness = Callable[[int, BatchHeader, bytes], None]
"""Is shown every good batch of the present format: position, header, bytes."""


class BadRange(NamedTuple):
    reason: str
    position: int
    position_end: int
    offset: int
    offset_end: int


class _Place(NamedTuple):
    """The last good batch, in case the next one shows that its offsets cannot be right."""

    position: int
    position_end: int
    base_offset: int
    offset_before: int


class BatchWalk:
    def __init__(
        self,
        descriptor: int,
        size: int,
        base: int,
        next_base: int | None,
        has_read: Reader,
        index: Sequence[OffsetPosition] = (),
    ) -> None:
        """`index` is what the offset index says, right or wrong."""
        self._descriptor = descriptor
        self._size = size
        self._next_base = next_base
        self._has_read = has_read
        self._index = index
        self._last: _Place | None = None
        self.offset_end = base
        self.has_old = False
        """Messages in the formats before 0.11 were met."""

    def damaged(self, witness: Witness) -> Iterator[BadRange]:
        position = 0
        while position < self._size:
            reason, end, header, content = self._batch_at(position)
            if not reason and end is not None:
                yield from self._misplaced(content)
                base_offset, offset_last = self._offsets(header, content)
                self._last = _Place(position, end, base_offset, self.offset_end)
                self.offset_end = offset_last + 1
                if header is None:
                    self.has_old = True
                else:
                    witness(position, header, content)
                position = end
                continue
            offset = self.offset_end
            next_position = self._next_good(position, end)
            if next_position is None:
                yield BadRange(reason, position, self._size, offset, self._next_base or offset + 1)
                return
            offset_end = max(offset + 1, self._offset_at(next_position))
            yield BadRange(reason, position, next_position, offset, offset_end)
            self._last = None
            position = next_position

    def _misplaced(self, content: bytes) -> Iterator[BadRange]:
        """No checksum covers a batch's first offset: one that is too large shows only when the
        next batch starts before its end."""
        base_offset, _ = read_overhead(content)
        last = self._last
        if base_offset >= self.offset_end or last is None:
            return
        reason = f"the batch says offset {last.base_offset}, the next one {base_offset}"
        offset_end = max(last.offset_before + 1, base_offset)
        yield BadRange(reason, last.position, last.position_end, last.offset_before, offset_end)
        self.offset_end = base_offset

    def _batch_at(self, position: int) -> tuple[str, int | None, BatchHeader | None, bytes]:
        """Why the batch is bad, where it ends, its header if of the present format, its bytes."""
        head = os.pread(self._descriptor, HEADER_BYTES, position)
        if len(head) < OLD_BATCH_BYTES_MIN + 12:
            return "the file ends within a batch", None, None, b""
        base_offset, size = read_overhead(head)
        end = position + size
        if size < OLD_BATCH_BYTES_MIN + 12 or end > self._size:
            return f"a batch cannot have {size} bytes here", None, None, b""
        if head[16] == MAGIC_V2 and size - 12 < BATCH_LENGTH_MIN:
            return f"a batch cannot have {size} bytes", end, None, b""
        content = os.pread(self._descriptor, size, position)
        self._has_read(size)
        header = read_header(content) if head[16] == MAGIC_V2 else None
        return self._fault(base_offset, header, content), end, header, content

    def _fault(self, base_offset: int, header: BatchHeader | None, content: bytes) -> str:
        if header is None:
            # Messages of the formats before 0.11 carry checksums of their own.
            from moldau.storage.log.old_message_offsets import old_message_fault

            fault = old_message_fault(content)
            if fault:
                return fault
        elif crc32c(memoryview(content)[CRC_START:]) != header.crc:
            return "the checksum is wrong"
        last = self._last
        if base_offset < self.offset_end and (
            last is None
            or base_offset < last.offset_before
            or last.base_offset == last.offset_before
        ):
            return f"offset {base_offset} after {self.offset_end - 1}"
        _, offset_last = self._offsets(header, content)
        if self._next_base is not None and offset_last >= self._next_base:
            return f"offset {offset_last} belongs to the next segment"
        return ""

    def _offsets(self, header: BatchHeader | None, content: bytes) -> tuple[int, int]:
        if header is not None:
            return header.base_offset, header.last_offset
        # A compressed message of the old formats is stored under its last offset.
        base_offset, _ = read_overhead(content)
        return base_offset, base_offset

    def _next_good(self, position: int, claimed_end: int | None) -> int | None:
        """The start of the next batch that is whole; None if there is none to be found."""
        if claimed_end is not None:
            if claimed_end == self._size:
                return claimed_end
            reason, *_ = self._batch_at(claimed_end)
            if not reason:
                return claimed_end
        for entry in self._index:
            if position < entry.position < self._size and entry.offset >= self.offset_end:
                reason, _, header, _ = self._batch_at(entry.position)
                if not reason and header is not None and header.last_offset == entry.offset:
                    return entry.position
        return None

    def _offset_at(self, position: int) -> int:
        """Where the next batch begins; the next segment if there is none."""
        head = os.pread(self._descriptor, 12, position)
        if len(head) < 12:
            return self._next_base or self.offset_end + 1
        return int.from_bytes(head[:8], "big", signed=True)
