"""The lz4 frames of magic 0, whose header carries a checksum of too many bytes (KIP-57).

Kafka's first lz4 counted the frame's own mark in. Readers of magic 0 therefore do not look at that
byte, and writers for them must repeat the mistake: clients of that time check it.
"""

from __future__ import annotations

from moldau.records.batch import Buffer
from moldau.records.compression import Codec, compress, decompress

_MARK_BYTES = 4
_SIZE_FLAG, _DICTIONARY_FLAG = 0x08, 0x01
_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME_4, _PRIME_5 = 0x27D4EB2F, 0x165667B1


def compress_old(codec: int, data: Buffer, magic: int) -> bytes:
    payload = compress(codec, data)
    if codec == Codec.LZ4 and magic == 0:
        return _with_checksum(payload, 0)
    return payload


def decompress_old(codec: int, data: Buffer, magic: int, limit_bytes: int) -> Buffer:
    """As `compression.decompress`."""
    if codec == Codec.LZ4 and magic == 0:
        data = _with_checksum(data, _MARK_BYTES)
    return decompress(codec, data, limit_bytes)


def _with_checksum(frame: Buffer, start: int) -> bytes:
    """The frame with a header checksum of the bytes from `start` on."""
    whole = bytearray(frame)
    if len(whole) > _MARK_BYTES:
        flags = whole[_MARK_BYTES]
        end = _MARK_BYTES + 2 + (8 if flags & _SIZE_FLAG else 0)
        end += 4 if flags & _DICTIONARY_FLAG else 0
        if end < len(whole):
            whole[end] = xxh32(bytes(whole[start:end])) >> 8 & 0xFF
    return bytes(whole)


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0."""
    position, size = 0, len(data)
    if size >= 16:
        lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
        while size - position >= 16:
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = _turn(lanes[lane] + word * _PRIME_2, 13) * _PRIME_1 & _MASK
                position += 4
        state = sum(_turn(lanes[lane], turn) for lane, turn in enumerate((1, 7, 12, 18)))
    else:
        state = _PRIME_5
    state += size
    while size - position >= 4:
        word = int.from_bytes(data[position : position + 4], "little")
        state = _turn(state + word * _PRIME_3, 17) * _PRIME_4
        position += 4
    for byte in data[position:]:
        state = _turn(state + byte * _PRIME_5, 11) * _PRIME_1
    state &= _MASK
    state = (state ^ state >> 15) * _PRIME_2 & _MASK
    state = (state ^ state >> 13) * _PRIME_3 & _MASK
    return state ^ state >> 16


def _turn(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
