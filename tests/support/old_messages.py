"""Messages of the formats before 0.11, written byte by byte as the protocol guide has them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from moldau.records.compression import Codec
from moldau.records.old_formats.old_lz4_frames import compress_old

LOG_APPEND_TIME = 8


class Old(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp: int = -1


def field(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def message(old: Old, magic: int, offset: int = 0, attributes: int = 0) -> bytes:
    rest = bytes((magic, attributes))
    if magic == 1:
        rest += struct.pack(">q", old.timestamp)
    rest += field(old.key) + field(old.value)
    return struct.pack(">qiI", offset, len(rest) + 4, zlib.crc32(rest)) + rest


def plain(olds: Sequence[Old], magic: int, offset: int = 0) -> bytes:
    return b"".join(message(old, magic, offset + at) for at, old in enumerate(olds))


def compressed(
    olds: Sequence[Old],
    magic: int,
    codec: Codec,
    offset: int = 0,
    attributes: int = 0,
    timestamp: int | None = None,
) -> bytes:
    """One message that holds the others: in magic 0 by their offsets, in magic 1 by numbers."""
    inner = plain(olds, magic, offset if magic == 0 else 0)
    payload = compress_old(codec, inner, magic)
    latest = max((old.timestamp for old in olds), default=-1) if timestamp is None else timestamp
    whole = Old(None, payload, latest)
    return message(whole, magic, offset + max(len(olds) - 1, 0), codec | attributes)


def recode(whole: bytes) -> bytes:
    """With a checksum that fits what was changed."""
    return whole[:12] + struct.pack(">I", zlib.crc32(whole[16:])) + whole[16:]
