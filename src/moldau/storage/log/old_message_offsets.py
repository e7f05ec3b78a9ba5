"""What storage knows of Kafka before 0.11: messages of magic 0 and 1, and offsets by file times.

Such messages are in logs that an old Kafka wrote, or a newer one for old consumers; Moldau keeps
them as they are and adds record batches behind them. A compressed message stands for all that it
holds, by the offset of the last.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING
from zlib import crc32

from moldau.model.errors import ApiError, Error
from moldau.records.batch import (
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    BatchHeader,
    read_overhead,
)
from moldau.records.old_formats.old_messages import scan_messages
from moldau.records.old_formats.up_conversion import header_of
from moldau.storage.log_files import LOG_SUFFIX
from moldau.storage.storage_faults import StorageFault

if TYPE_CHECKING:
    from moldau.storage.log.partition_log import PartitionLog
    from moldau.storage.log.segment import Segment

_ENTRY = struct.Struct(">qiIbb")
"""Offset, size, CRC-32 of what follows it, magic, attributes."""
CRC_END = 16
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


def old_message_fault(content: bytes) -> str:
    """Why the message cannot be what was written; empty if it can."""
    _, _, crc, magic, _ = _ENTRY.unpack_from(content)
    if magic not in (0, 1):
        return f"unknown format {magic}"
    if crc32(memoryview(content)[CRC_END:]) != crc:
        return "the checksum is wrong"
    return ""


def checked_header(message: memoryview) -> BatchHeader:
    """What a log must know of a message that another replica stored; raises ApiError if damaged."""
    rows = scan_messages(message, message, 0, len(message), True)
    if not rows:
        offset = read_overhead(message)[0]
        raise ApiError(Error.CORRUPT_MESSAGE, f"the message for offset {offset} is damaged")
    _, size, offset, _, timestamp, *_ = rows[0]
    header = header_of(offset, 1, 0, timestamp, timestamp, NO_TIMESTAMP)
    return header._replace(magic=message[MAGIC_POSITION], batch_length=size - LOG_OVERHEAD_BYTES)


def offsets_before(log: PartitionLog, timestamp: int, count: int, now_ms: int) -> list[int]:
    """Where segments start whose files were last written at `timestamp` or before, and the log's
    end: the newest first, no more than `count`."""
    segments = log.segments.as_list()
    start = log.log_start_offset
    places = [(max(segment.base_offset, start), _written_ms(segment)) for segment in segments]
    if segments[-1].size_bytes:
        places.append((log.offset_end, now_ms))
    if timestamp == EARLIEST_TIMESTAMP:
        places = places[:1]
    elif timestamp != LATEST_TIMESTAMP:
        while places and places[-1][1] > timestamp:
            places.pop()
    return sorted((offset for offset, _ in places[-count:] if count), reverse=True)


def _written_ms(segment: Segment) -> int:
    path = segment.path(LOG_SUFFIX)
    try:
        return int(os.stat(path).st_mtime * 1000)
    except OSError as error:
        raise StorageFault.of("cannot read", path, error) from error
