"""Record batches written again as messages of magic 0 or 1, for consumers that know no other.

As Apache Kafka 3.9 does it: codec and offsets stay, headers and transaction markers have no
equivalent and go, aborted records come along. What comes out may be larger than what went in: it
ends where the reader's limit is, and the reader asks again for the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
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

RECORDS_PER_PIECE = 20_000
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
    but what the first batch holds compressed in any case.

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
        for messages, last in _messages_of(view[position : position + size], magic, offset):
            if messages is None:
                if out:
                    return Downgraded(bytes(out), offset_end)
                raise ApiError(
                    Error.UNSUPPORTED_COMPRESSION_TYPE,
                    f"the batch that ends at offset {last} is of zstd, which message format "
                    f"{magic} does not know",
                )
            if out and len(out) + len(messages) > limit_bytes:
                return Downgraded(bytes(out), offset_end)
            out += messages
            offset_end = max(offset_end, last + 1)
        position += size
    return Downgraded(bytes(out), offset_end)


def _messages_of(batch: memoryview, magic: int, offset: int) -> Iterator[tuple[Buffer | None, int]]:
    """Pieces, each with the last offset that is looked at then; None instead of zstd."""
    if batch[MAGIC_POSITION] <= magic:
        yield batch, read_overhead(batch)[0]
        return
    is_batch = batch[MAGIC_POSITION] == MAGIC_V2 and len(batch) >= HEADER_BYTES
    modern = batch if is_batch else memoryview(to_batches(batch))
    header = read_header(modern)
    if header.codec == Codec.ZSTD and not header.is_control:
        yield None, header.last_offset
        return
    if header.record_count > 0 and not header.is_control:
        pieces = _downgraded(modern, header, magic, offset)
        if header.codec == Codec.NONE:
            yield from pieces
        else:
            yield b"".join(piece for piece, _ in pieces), header.last_offset
    yield b"", header.last_offset


def _downgraded(
    batch: memoryview, header: BatchHeader, magic: int, offset: int
) -> Iterator[tuple[bytearray | bytes, int]]:
    """So many records at a time that others may go on between them, and so that memory never holds
    all messages of a batch that is well compressed."""
    stamp = header.max_timestamp if header.has_log_append_time else -1
    attributes = LOG_APPEND_TIME_FLAG if magic == 1 and stamp >= 0 else 0
    body = decompress(header.codec, batch[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
    codec = header.attributes & CODEC_MASK
    # Old consumers expect plain messages to begin where they asked, compressed ones to be whole.
    form = (magic, attributes, 0 if codec else offset, bool(codec and magic == 1))
    place = (header.base_offset, header.base_timestamp, stamp)
    position, left = 0, header.record_count
    while left:
        count = min(left, RECORDS_PER_PIECE)
        messages = bytearray()
        broken, written, last, latest, position = write_messages(
            body, body, position, count, messages, place, form
        )
        if broken >= 0:
            index = header.record_count - left + broken
            raise ApiError(
                Error.CORRUPT_MESSAGE,
                f"record {index} of the batch at offset {header.base_offset} is broken",
            )
        left -= count
        if not written:
            continue
        if codec:
            stamped = stamp if stamp >= 0 else latest
            yield _wrapped(messages, codec, magic, attributes, last, stamped), last
        else:
            yield messages, last


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
