"""Record batches written again as messages of magic 0 or 1, for consumers that know no other.

As Apache Kafka 3.9 does it: codec and offsets stay, headers and transaction markers have no
equivalent and go, aborted records come along. What comes out may be larger than what went in: it
ends where the reader's limit is, and the reader asks again for the rest.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from moldau.model.errors import ApiError, Error
from moldau.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchHeader,
    Buffer,
    read_header,
    read_overhead,
)
from moldau.records.batch_codec import DECOMPRESSED_BYTES_MAX
from moldau.records.compression import Codec, decompress
from moldau.records.old_formats.old_lz4_frames import compress_old
from moldau.records.old_formats.old_messages import OLD_BYTES_MIN, write_messages
from moldau.records.old_formats.up_conversion import to_batches

_NULL_KEY = b"\xff\xff\xff\xff"
_HEAD = struct.Struct(">qiI")
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")


class Downgraded(NamedTuple):
    messages: bytes
    offset_end: int
    """Behind everything that was looked at; what was asked for if that was nothing."""


def for_old_readers(records: Buffer, magic: int, offset: int, limit_bytes: int = 0) -> Downgraded:
    """Messages of `magic` or older from `offset` on: no more bytes than the limit or what went in,
    but what the first batch holds in any case.

    Raises ApiError: UNSUPPORTED_COMPRESSION_TYPE where the first batch is of zstd.
    """
    view = memoryview(records)
    out = bytearray()
    offset_end = offset
    position, end = 0, len(view)
    limit_bytes = max(limit_bytes, end)
    while end - position >= OLD_BYTES_MIN:
        size = read_overhead(view, position)[1]
        if size < OLD_BYTES_MIN or size > end - position:
            break
        batch = view[position : position + size]
        converted = bytearray()
        if batch[MAGIC_POSITION] <= magic:
            converted += batch
            last = read_overhead(batch)[0]
        else:
            is_batch = batch[MAGIC_POSITION] == MAGIC_V2 and size >= HEADER_BYTES
            modern = batch if is_batch else memoryview(to_batches(batch))
            header = read_header(modern)
            last = header.last_offset
            if header.codec == Codec.ZSTD and not header.is_control:
                if not out:
                    raise ApiError(
                        Error.UNSUPPORTED_COMPRESSION_TYPE,
                        f"the batch at offset {header.base_offset} is of zstd, which message "
                        f"format {magic} does not know",
                    )
                break
            _downgrade(modern, header, magic, offset, converted)
        if out and len(out) + len(converted) > limit_bytes:
            break
        out += converted
        offset_end = max(offset_end, last + 1)
        position += size
    return Downgraded(bytes(out), offset_end)


def _downgrade(
    batch: memoryview, header: BatchHeader, magic: int, offset: int, out: bytearray
) -> None:
    if header.is_control or not header.record_count:
        return
    stamp = header.max_timestamp if header.has_log_append_time else -1
    attributes = LOG_APPEND_TIME_FLAG if magic == 1 and stamp >= 0 else 0
    body = decompress(header.codec, batch[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
    codec = header.attributes & CODEC_MASK
    messages = bytearray() if codec else out
    # Old consumers expect plain messages to begin where they asked, compressed ones to be whole.
    form = (magic, attributes, 0 if codec else offset, bool(codec and magic == 1))
    place = (header.base_offset, header.base_timestamp, stamp)
    broken, written, last, latest = write_messages(
        body, body, header.record_count, messages, place, form
    )
    if broken >= 0:
        raise ApiError(
            Error.CORRUPT_MESSAGE,
            f"record {broken} of the batch at offset {header.base_offset} is broken",
        )
    if codec and written:
        out += _wrapped(messages, codec, magic, attributes, last, stamp if stamp >= 0 else latest)


def _wrapped(
    messages: bytearray, codec: int, magic: int, attributes: int, offset: int, timestamp: int
) -> bytes:
    """One message that holds the others compressed; it has the offset of the last."""
    payload = compress_old(codec, messages, magic)
    rest = bytes((magic, attributes | codec))
    if magic == 1:
        rest += _TIMESTAMP.pack(timestamp)
    rest += _NULL_KEY + _SIZE.pack(len(payload)) + payload
    return _HEAD.pack(offset, len(rest) + 4, crc32(rest)) + rest
