"""What `dump-log` shows of messages of the formats before 0.11, as kafka-dump-log.sh prints it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from moldau.cli.command_faults import CommandFault
from moldau.model.errors import ApiError
from moldau.records.batch import CODEC_MASK, LOG_APPEND_TIME_FLAG
from moldau.records.batch_codec import DECOMPRESSED_BYTES_MAX, Record
from moldau.records.compression import Codec
from moldau.records.old_formats.old_messages import OLD_BYTES_MIN
from moldau.records.old_formats.up_conversion import inner_messages

_HEAD = struct.Struct(">qiIBB")
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")
CRC_END = 16


class Entry(NamedTuple):
    """A message as it stands in the file or in a compressed one."""

    content: memoryview
    offset: int
    crc: int
    magic: int
    attributes: int

    @property
    def is_valid(self) -> str:
        return "true" if zlib.crc32(self.content[CRC_END:]) == self.crc else "false"

    @property
    def time(self) -> str:
        """The kind of timestamp and its value."""
        if self.magic == 0:
            return "NoTimestampType: -1"
        kind = "LogAppendTime" if self.attributes & LOG_APPEND_TIME_FLAG else "CreateTime"
        return f"{kind}: {_TIMESTAMP.unpack_from(self.content, 18)[0]}"


def message_at(content: bytes, position: int) -> Entry | None:
    """None if it is not there whole."""
    offset, size, crc, magic, attributes = _HEAD.unpack_from(content, position)
    end = position + size + 12
    if size + 12 < OLD_BYTES_MIN + (8 if magic else 0) or end > len(content):
        return None
    return Entry(memoryview(content)[position:end], offset, crc, magic, attributes)


def message_line(entry: Entry, position: int) -> str:
    codec = entry.attributes & CODEC_MASK
    name = Codec(codec).name.lower() if codec in set(Codec) else f"unknown({codec})"
    return (
        f"offset: {entry.offset} position: {position} {entry.time} size: {len(entry.content)}"
        f" magic: {entry.magic} compresscodec: {name} crc: {entry.crc} isvalid: {entry.is_valid}"
    )


def records_in(entry: Entry) -> Iterator[tuple[Record, str]]:
    """What the message holds, itself if it is not compressed; each with what is shown of it. Damage
    is shown, not refused."""
    kind, _, stamp = entry.time.partition(": ")
    inner, shift, is_given = [entry], 0, False
    if entry.attributes & CODEC_MASK:
        try:
            inner = list(_inner(bytes(inner_messages(entry.content, DECOMPRESSED_BYTES_MAX))))
        except ApiError as fault:
            raise CommandFault(f"{fault}") from None
        if entry.magic == 1 and entry.offset > 0 and inner:
            # Counted from the first one; the last has the offset of the whole.
            shift = entry.offset - inner[-1].offset
        is_given = kind == "LogAppendTime"
    for each in inner:
        time = stamp if is_given else each.time.partition(": ")[2]
        record = Record(each.offset + shift, int(time), *_fields(each))
        yield (
            record,
            f"| offset: {record.offset} {kind}: {time} keySize: {_size(record.key)}"
            f" valueSize: {_size(record.value)} isValid: {each.is_valid} crc: {each.crc}",
        )


def _fields(entry: Entry) -> tuple[bytes | None, bytes | None]:
    position = 26 if entry.magic else 18
    found: list[bytes | None] = []
    for _ in range(2):
        if position + 4 > len(entry.content):
            raise CommandFault(f"the message at offset {entry.offset} ends within its fields")
        (size,) = _SIZE.unpack_from(entry.content, position)
        position += 4
        found.append(bytes(entry.content[position : position + size]) if size >= 0 else None)
        position += max(size, 0)
    return found[0], found[1]


def _inner(content: bytes) -> Iterator[Entry]:
    position = 0
    while len(content) - position >= OLD_BYTES_MIN:
        entry = message_at(content, position)
        if entry is None:
            return
        yield entry
        position += len(entry.content)


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)
