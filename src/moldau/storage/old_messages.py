"""Messages in the formats of Kafka before 0.11 (magic 0 and 1), as far as storage reads them."""

from __future__ import annotations

import struct
from zlib import crc32

_ENTRY = struct.Struct(">qiIbb")
"""Offset, size, CRC-32 of what follows it, magic, attributes."""
CRC_END = 16


def old_message_fault(content: bytes) -> str:
    """Why the message cannot be what was written; empty if it can."""
    _, _, crc, magic, _ = _ENTRY.unpack_from(content)
    if magic not in (0, 1):
        return f"unknown format {magic}"
    if crc32(memoryview(content)[CRC_END:]) != crc:
        return "the checksum is wrong"
    return ""
