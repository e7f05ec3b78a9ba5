"""Record batches of today made from stored messages of magic 0 and 1, for everybody who reads.

A log that an old Kafka wrote keeps its bytes, and readers of any age get them as they are. Whoever
reads records here first turns old messages into batches with the same offsets and times.
"""

from __future__ import annotations

import struct

from moldau.model.errors import ApiError, Error
from moldau.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    read_overhead,
)
from moldau.records.batch_codec import DECOMPRESSED_BYTES_MAX, Record, assemble, decode_batch
from moldau.records.compression import Codec, compress
from moldau.records.old_formats.old_lz4_frames import decompress_old
from moldau.records.old_formats.old_messages import (
    FAULTS,
    OLD_BYTES_MIN,
    run_end,
    scan_messages,
    upgrade_messages,
)

ATTRIBUTES_POSITION = 17
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
STAMP_POSITION = 18


def is_old(records: Buffer, position: int = 0) -> bool:
    """Whether a message of magic 0 or 1 stands there."""
    return (
        len(records) - position >= OLD_BYTES_MIN and records[position + MAGIC_POSITION] < MAGIC_V2
    )


def to_batches(records: Buffer, *, keeps_codec: bool = False) -> bytes:
    """The same records in batches only, not compressed unless `keeps_codec`; what is torn at the
    end is left out."""
    view = memoryview(records)
    out: list[Buffer] = []
    position, end = 0, len(view)
    while end - position >= OLD_BYTES_MIN:
        size = read_overhead(view, position)[1]
        if size < OLD_BYTES_MIN or size > end - position:
            break
        if view[position + MAGIC_POSITION] >= MAGIC_V2:
            if size < HEADER_BYTES:
                raise _corrupt(read_overhead(view, position)[0], "it is too short for a batch")
            out.append(view[position : position + size])
        elif view[position + ATTRIBUTES_POSITION] & CODEC_MASK:
            out.append(_opened(view[position : position + size], keeps_codec))
        else:
            size = run_end(view, position, end) - position
            out.append(_run(view[position : position + size]))
        position += size
    return b"".join(out)


def read_old(message: Buffer) -> list[Record]:
    """The records of one stored message, or of all that a compressed one holds."""
    return decode_batch(to_batches(message))


def first_offset(message: Buffer) -> int:
    """Of what a stored message holds."""
    return read_overhead(to_batches(message))[0]


def _run(view: memoryview) -> bytearray:
    """Messages that are not compressed, all of one kind."""
    magic, is_stamped, timestamp = _kind(view)
    return _batch(view, magic, read_overhead(view)[0], 0, timestamp if is_stamped else NO_TIMESTAMP)


def _opened(message: memoryview, keeps_codec: bool) -> bytearray:
    """What a compressed message holds."""
    magic, is_stamped, timestamp = _kind(message)
    offset, _ = read_overhead(message)
    inner = inner_messages(message, DECOMPRESSED_BYTES_MAX)
    rows = scan_messages(inner, inner, 0, len(inner), False)
    if not rows:
        raise _corrupt(offset, "it holds no messages")
    shift = 0
    if magic == 1 and offset > 0:
        # Counted from the first one; the last has the offset of the whole.
        shift = offset - rows[-1][3]
        if shift < 0:
            raise _corrupt(offset, f"its last message has the offset {rows[-1][3]}")
    codec = message[ATTRIBUTES_POSITION] & CODEC_MASK if keeps_codec else Codec.NONE
    stamp = timestamp if is_stamped else NO_TIMESTAMP
    return _batch(inner, magic, rows[0][2], shift, stamp, codec)


def inner_messages(message: Buffer, limit_bytes: int) -> memoryview:
    """Decompresses the value of a message; its checksum is the caller's business."""
    view = memoryview(message)
    magic, codec = view[MAGIC_POSITION], view[ATTRIBUTES_POSITION] & CODEC_MASK
    offset = read_overhead(view)[0]
    if codec > Codec.LZ4:
        raise _corrupt(offset, f"format {magic} knows no codec {codec}")
    position = STAMP_POSITION + (8 if magic == 1 else 0)
    try:
        position += 4 + max(_INT32.unpack_from(view, position)[0], 0)
        (size,) = _INT32.unpack_from(view, position)
    except struct.error:
        size = -1
    if size < 0 or position + 4 + size != len(view):
        raise _corrupt(offset, "its value is not there")
    return memoryview(decompress_old(codec, view[position + 4 :], magic, limit_bytes)).cast("B")


def _kind(message: memoryview) -> tuple[int, bool, int]:
    """Magic, whether a broker gave it its time, and that time."""
    magic = message[MAGIC_POSITION]
    if magic == 0:
        return 0, False, NO_TIMESTAMP
    is_stamped = bool(message[ATTRIBUTES_POSITION] & LOG_APPEND_TIME_FLAG)
    return magic, is_stamped, _INT64.unpack_from(message, STAMP_POSITION)[0]


def _batch(
    view: memoryview, magic: int, first: int, shift: int, stamp: int, codec: int = Codec.NONE
) -> bytearray:
    base_timestamp = NO_TIMESTAMP
    if magic == 1 and len(view) >= STAMP_POSITION + 8:
        base_timestamp = max(_INT64.unpack_from(view, STAMP_POSITION)[0], NO_TIMESTAMP)
    body = bytearray()
    run = (magic, True, first, base_timestamp)
    fault, count, last_delta, timestamp_max = upgrade_messages(view, view, 0, len(view), body, run)
    if fault:
        raise _corrupt(first + shift + last_delta + 1, FAULTS[fault])
    header = header_of(first + shift, count, last_delta, base_timestamp, timestamp_max, stamp)
    if codec:
        header = header._replace(attributes=header.attributes | codec)
        return assemble(header, compress(codec, body))
    return assemble(header, body)


def header_of(
    base_offset: int, count: int, last_delta: int, base_timestamp: int, latest: int, stamp: int
) -> BatchHeader:
    """Of a batch of records that no producer with an id wrote; `stamp` is the time that a broker
    gave them, or -1."""
    return BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC_V2,
        crc=0,
        attributes=LOG_APPEND_TIME_FLAG if stamp >= 0 else 0,
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=stamp if stamp >= 0 else latest,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )


def _corrupt(offset: int, reason: str) -> ApiError:
    return ApiError(Error.CORRUPT_MESSAGE, f"the message at offset {offset} is corrupt: {reason}")
