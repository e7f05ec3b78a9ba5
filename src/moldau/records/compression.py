"""The four codecs of a record batch, as Kafka's own clients write them.

Output is bounded before it is made: zstd and lz4 frames are first measured block by block, snappy
says its size, gzip is told where to stop. So a compression bomb costs a refusal, not memory.
`compress` writes what Java's readers accept: xerial blocks for snappy, independent blocks for lz4.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from enum import IntEnum
from typing import Any

import cramjam

from moldau.model.errors import ApiError, Error
from moldau.records.batch import Buffer


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LEVEL_DEFAULTS = {Codec.GZIP: 6, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's; snappy has no levels."""

_XERIAL_MARK = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MARK + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024

_LZ4_MAGIC = 0x184D2204
_LZ4_INDEPENDENT, _LZ4_BLOCK_SUM, _LZ4_SIZE, _LZ4_SUM, _LZ4_DICTIONARY = (
    0x20,
    0x10,
    0x08,
    0x04,
    0x01,
)
_LZ4_STORED = 0x80000000

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK_BYTES_MAX = 128 * 1024
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = 0, 1, 2

_GZIP_PART_BYTES = 1024 * 1024

_SKIPPABLE_MAGIC, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
"""A zstd frame for other purposes, without output."""

_U32 = struct.Struct("<I")
_I32_BIG = struct.Struct(">i")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    if level is None:
        level = LEVEL_DEFAULTS.get(Codec(codec))
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        # zlib calls its own default -1, and so does Kafka's `compression.gzip.level`.
        return bytes(cramjam.gzip.compress(data, level=6 if level == -1 else level))
    if codec == Codec.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec == Codec.LZ4:
        lz4 = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        lz4.compress(bytes(data))
        return bytes(lz4.finish())
    return bytes(cramjam.zstd.compress(data, level=level))


def decompress(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """The output, or a refusal: CORRUPT_MESSAGE for garbage, MESSAGE_TOO_LARGE past the limit."""
    try:
        if codec == Codec.NONE:
            return _checked(data, limit_bytes)
        if codec == Codec.GZIP:
            return _decompress_gzip(data, limit_bytes)
        if codec == Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), limit_bytes)
        if codec == Codec.LZ4:
            bound = _lz4_bytes_max(data, limit_bytes)
            return _decompress_frames(cramjam.lz4, data, bound, limit_bytes)
        if codec == Codec.ZSTD:
            bound = _zstd_bytes_max(data, limit_bytes)
            return _decompress_frames(cramjam.zstd, data, bound, limit_bytes)
    except (struct.error, IndexError):
        raise _corrupt(codec, "the stream ends early") from None
    except (cramjam.DecompressionError, zlib.error) as error:
        raise _corrupt(codec, str(error)) from None
    raise ApiError(
        Error.UNSUPPORTED_COMPRESSION_TYPE, f"compression codec {codec} is unknown; known: 0 to 4"
    )


def _corrupt(codec: int, reason: str) -> ApiError:
    name = Codec(codec).name.lower()
    return ApiError(Error.CORRUPT_MESSAGE, f"the records do not decompress as {name}: {reason}")


def _too_large(limit_bytes: int) -> ApiError:
    return ApiError(
        Error.MESSAGE_TOO_LARGE, f"the records decompress to more than {limit_bytes} bytes"
    )


def _checked(output: Buffer, limit_bytes: int) -> Buffer:
    if len(output) > limit_bytes:
        raise _too_large(limit_bytes)
    return output


def _decompress_frames(module: Any, data: Buffer, bound: int, limit_bytes: int) -> Buffer:
    if bound <= limit_bytes:
        return memoryview(module.decompress(data))
    # Many small blocks may still hold little. Pages of an anonymous map cost nothing until written.
    room = mmap.mmap(-1, limit_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        size = module.decompress_into(data, room)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise _too_large(limit_bytes) from None
        raise
    return memoryview(room)[:size]


def _decompress_gzip(data: Buffer, limit_bytes: int) -> Buffer:
    member = zlib.decompressobj(wbits=31)
    # One byte more than allowed: enough to know that there is more.
    part = member.decompress(data, min(limit_bytes, _GZIP_PART_BYTES) + 1)
    if member.eof and not member.unused_data:
        return _checked(part, limit_bytes)
    # Part by part: putting long ones together would hold up everybody else in this process.
    room = mmap.mmap(-1, limit_bytes + 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    size = 0
    while True:
        if size + len(part) > limit_bytes:
            raise _too_large(limit_bytes)
        room[size : size + len(part)] = part
        size += len(part)
        rest = member.unused_data if member.eof else member.unconsumed_tail
        if member.eof:
            if not rest:
                return memoryview(room)[:size]
            member = zlib.decompressobj(wbits=31)
        elif not rest and not part:
            raise zlib.error("the stream ends early")
        part = member.decompress(rest, _GZIP_PART_BYTES)


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_I32_BIG.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> Buffer:
    if data[: len(_XERIAL_MARK)] != _XERIAL_MARK:
        if cramjam.snappy.decompress_raw_len(data) > limit_bytes:
            raise _too_large(limit_bytes)
        return memoryview(cramjam.snappy.decompress_raw(data))
    parts: list[bytes] = []
    # Version and compatible version follow the mark; some clients write them in the wrong order.
    position, room = len(_XERIAL_HEADER), limit_bytes
    if len(data) < position:
        raise cramjam.DecompressionError("the stream ends early")
    while position < len(data):
        (size,) = _I32_BIG.unpack_from(data, position)
        position += 4
        block = data[position : position + size]
        if size < 0 or len(block) < size:
            raise cramjam.DecompressionError(f"a block of {size} bytes does not fit")
        room -= cramjam.snappy.decompress_raw_len(block)
        if room < 0:
            raise _too_large(limit_bytes)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        position += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _lz4_bytes_max(data: Buffer, limit_bytes: int) -> int:
    """No more than this comes out of the frame; stops counting past the limit.

    Java's reader takes one frame of independent blocks (KIP-57). Anything else must not get into
    a log, or its consumers would be stuck there.
    """
    flags, descriptor = data[4], data[5]
    if _U32.unpack_from(data)[0] != _LZ4_MAGIC:
        raise cramjam.DecompressionError("there is no frame")
    if not flags & _LZ4_INDEPENDENT:
        raise cramjam.DecompressionError("blocks must be independent of one another")
    block_bytes_max = 1 << (8 + 2 * (descriptor >> 4 & 7))
    block_tail = 4 if flags & _LZ4_BLOCK_SUM else 0
    position = 7 + (8 if flags & _LZ4_SIZE else 0) + (4 if flags & _LZ4_DICTIONARY else 0)
    total = 0
    while size := _U32.unpack_from(data, position)[0]:
        total += block_bytes_max
        if total > limit_bytes:
            return total
        position += 4 + (size & ~_LZ4_STORED) + block_tail
    if position + (8 if flags & _LZ4_SUM else 4) != len(data):
        raise cramjam.DecompressionError("there must be one whole frame")
    return total


def _zstd_bytes_max(data: Buffer, limit_bytes: int) -> int:
    """No more than this comes out of the frames (RFC 8878); stops counting past the limit.

    The content size in a frame's header is a claim, checked only after the fact: not used.
    """
    position, total = 0, 0
    while position < len(data) and total <= limit_bytes:
        (magic,) = _U32.unpack_from(data, position)
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            position += 8 + _U32.unpack_from(data, position + 4)[0]
            continue
        if magic != _ZSTD_MAGIC:
            raise cramjam.DecompressionError("there is no frame")
        flags = data[position + 4]
        position += 5 + _zstd_descriptor_bytes(flags)
        is_last = 0
        while not is_last and total <= limit_bytes:
            block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
            is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
            total += _ZSTD_BLOCK_BYTES_MAX if kind == _ZSTD_COMPRESSED else size
            position += 3 + (1 if kind == _ZSTD_RLE else size)
        position += 4 if flags & 0x04 else 0
    return total


def _zstd_descriptor_bytes(flags: int) -> int:
    single_segment = flags & 0x20
    window = 0 if single_segment else 1
    dictionary = (0, 1, 2, 4)[flags & 3]
    content_size = (1 if single_segment else 0, 2, 4, 8)[flags >> 6]
    return window + dictionary + content_size
