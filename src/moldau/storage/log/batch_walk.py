"""Walking over the batches of a `.log` file by their headers, without reading record bodies.

Messages of the formats before 0.11 count as batches too: each alone, or as the compressed whole.

The positions that callers start from are starts of batches (an index says so), and callers bound
how far the walk may go, so a look-up reads about as much as lies between two index entries.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from moldau.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from moldau.records.batch_kernel import find_batch, scan_batches
from moldau.records.old_formats.old_messages import OLD_BYTES_MIN, find_message, scan_messages
from moldau.records.old_formats.up_conversion import first_offset, is_old

CHUNK_BYTES = 8 * 1024
BATCH_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES
_PLACE = struct.Struct(">qi11xi8xq")
"""Base offset, batch length, last offset delta, largest timestamp."""
_OLD_PLACE = struct.Struct(">qi")
_OLD_TIMESTAMP = struct.Struct(">q")


class BatchPlace(NamedTuple):
    position: int
    position_end: int
    base_offset: int
    offset_last: int
    max_timestamp: int
    magic: int = MAGIC_V2
    """Before 2 the base offset is not known without a look inside: it is given as the last one."""

    def first_offset(self, descriptor: int) -> int:
        """The base offset, after that look."""
        if self.magic == MAGIC_V2:
            return self.base_offset
        size_bytes = self.position_end - self.position
        return first_offset(os.pread(descriptor, size_bytes, self.position))


def first_ending_after(descriptor: int, start: int, end: int, offset: int) -> BatchPlace | None:
    """The first whole batch between `start` and `end` that ends after `offset`."""
    position = start
    while position + OLD_BYTES_MIN <= end:
        chunk = os.pread(descriptor, min(CHUNK_BYTES, end - position), position)
        found, at = find_batch(chunk, 0, len(chunk), offset)
        if not found and is_old(chunk, at):
            found, at = find_message(chunk, at, len(chunk), offset)
        if found:
            place = _place_at(chunk, at, position)
            return place if place is not None and place.position_end <= end else None
        if not at:
            return None
        position += at
    return None


def last_ending_by(
    descriptor: int, start: int, position_max: int, offset_limit: int
) -> tuple[int, int] | None:
    """(end position, exclusive end offset) of the last batch that ends by both limits."""
    position = start
    offset_end = None
    while position + OLD_BYTES_MIN <= position_max:
        chunk = os.pread(descriptor, min(CHUNK_BYTES, position_max - position), position)
        rows = scan_batches(chunk, 0, len(chunk))
        if not rows and is_old(chunk):
            rows = scan_messages(chunk, chunk, 0, len(chunk), False)
        if rows:
            while rows and rows[-1][3] >= offset_limit:
                rows.pop()
                position_max = position
            if rows:
                at, size, _, offset_last = rows[-1][:4]
                position += at + size
                offset_end = offset_last + 1
            continue
        place = _place_at(chunk, 0, position)
        if place is None or place.position_end > position_max or place.offset_last >= offset_limit:
            break
        position, offset_end = place.position_end, place.offset_last + 1
    return None if offset_end is None else (position, offset_end)


def walk_places(descriptor: int, position: int, end: int) -> Iterator[BatchPlace]:
    """Every whole batch from `position` to `end`; a header that cannot be stops the walk."""
    chunk, chunk_start = b"", position
    while position + OLD_BYTES_MIN <= end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk_start = position
            chunk = os.pread(descriptor, min(CHUNK_BYTES, end - position), position)
        place = _place_at(chunk, position - chunk_start, chunk_start)
        if place is None or place.position_end > end:
            return
        yield place
        position = place.position_end


def walk_headers(descriptor: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """As `walk_places`, with the position and the whole header; older messages, which know nothing
    of epochs and producers, are passed over."""
    chunk, chunk_start = b"", position
    while position + OLD_BYTES_MIN <= end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk_start = position
            chunk = os.pread(descriptor, min(CHUNK_BYTES, end - position), position)
        if is_old(chunk, position - chunk_start):
            place = _place_at(chunk, position - chunk_start, chunk_start)
            if place is None:
                return
            position = place.position_end
            continue
        if len(chunk) - (position - chunk_start) < HEADER_BYTES:
            return
        header = read_header(chunk, position - chunk_start)
        if header.batch_length < BATCH_LENGTH_MIN or position + header.size_bytes > end:
            return
        yield position, header
        position += header.size_bytes


def read_batch(descriptor: int, position: int, header: BatchHeader) -> bytes:
    return os.pread(descriptor, header.size_bytes, position)


def _place_at(chunk: bytes, at: int, chunk_start: int) -> BatchPlace | None:
    if is_old(chunk, at):
        return _old_place_at(chunk, at, chunk_start)
    if len(chunk) - at < HEADER_BYTES:
        return None
    base_offset, length, delta, timestamp = _PLACE.unpack_from(chunk, at)
    if length < BATCH_LENGTH_MIN or delta < 0:
        return None
    position = chunk_start + at
    position_end = position + length + LOG_OVERHEAD_BYTES
    return BatchPlace(position, position_end, base_offset, base_offset + delta, timestamp)


def _old_place_at(chunk: bytes, at: int, chunk_start: int) -> BatchPlace | None:
    offset, length = _OLD_PLACE.unpack_from(chunk, at)
    magic = chunk[at + MAGIC_POSITION]
    position = chunk_start + at
    position_end = position + length + LOG_OVERHEAD_BYTES
    timestamp = NO_TIMESTAMP
    if position_end - position < OLD_BYTES_MIN:
        return None
    if magic == 1:
        timestamp = max(_OLD_TIMESTAMP.unpack_from(chunk, at + 18)[0], NO_TIMESTAMP)
    return BatchPlace(position, position_end, offset, offset, timestamp, magic)
