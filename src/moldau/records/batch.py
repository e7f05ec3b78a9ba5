"""The record batch (magic 2) as bytes with a 61-byte header.

The hot path sees no more of a batch than this. `base_offset` and `leader_epoch` lie outside the
checksum, so a leader stamps them into the bytes that a producer sent without touching the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""Base offset and batch length: what must be read to know how long a batch is."""
CRC_START = 21
"""The checksum covers everything from the attributes to the end."""
MAGIC_POSITION = 16
MAGIC_V2 = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OVERHEAD = struct.Struct(">qi")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
assert _HEADER.size == HEADER_BYTES


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def offset_end(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences run to 2^31 - 1 and start again at 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`; the caller has made sure that 61 bytes are there."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    _HEADER.pack_into(buffer, position, *header)


def read_overhead(buffer: Buffer, position: int = 0) -> tuple[int, int]:
    """Base offset and whole size in bytes of the batch at `position`."""
    base_offset, batch_length = _OVERHEAD.unpack_from(buffer, position)
    return base_offset, batch_length + LOG_OVERHEAD_BYTES


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Give the batch its place in the log; the checksum stays valid."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LOG_OVERHEAD_BYTES, leader_epoch)


def whole_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch that is there in full; stops before a torn one."""
    position, end = 0, len(buffer)
    while position + HEADER_BYTES <= end:
        header = read_header(buffer, position)
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            return
        if position + header.size_bytes > end:
            return
        yield position, header
        position += header.size_bytes
