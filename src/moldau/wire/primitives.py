"""The smallest pieces of Kafka's wire format: varints, compact strings, and this layer's errors.

Compiled codecs inline the common cases (see `decoding.py`, `encoding.py`) and come here for the
rare ones. Nothing here trusts a length before comparing it with the bytes that are left.
"""

from __future__ import annotations

from typing import Any

from moldau.model.file_regions import FileRegion

Buffer = bytes | bytearray | memoryview
# What a records field can be encoded from. Decoded, it is a view of the frame.
Records = Buffer | FileRegion | list[Buffer | FileRegion]

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
TEXT_BYTES_MAX = 2**15 - 1
"""Older versions have no room for more, and Kafka refuses it in newer ones too: what one client
says in a new version must fit where it is kept or told to others in an old one."""

# Single-byte varints are by far the most frequent: lengths and counts below 128.
SMALL_UVARINTS = [bytes((value,)) for value in range(128)]


class DecodeError(ValueError):
    """The bytes are not the message they claim to be. The connection they came from is lost."""


class TooManyEntries(DecodeError):
    """More than the reader wanted to take."""


class EncodeError(ValueError):
    """A value does not fit its field: a bug in the code that built the message."""


def uvarint(value: int) -> bytes:
    if value < 128:
        return SMALL_UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value and the position behind it."""
    if position >= len(buffer):
        raise DecodeError(f"a varint starts at {position}, the frame ends at {len(buffer)}")
    first = buffer[position]
    if first < 128:
        return first, position + 1
    return finish_uvarint(buffer, position + 1, first)


def finish_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read on after a first byte that promised more."""
    value = first & 127
    end = len(buffer)
    for shift in (7, 14, 21, 28):
        if position >= end:
            raise DecodeError(f"a varint runs past the end of the frame at {end}")
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > INT32_MAX:
                raise DecodeError(f"varint {value} is larger than {INT32_MAX}")
            return value, position
    raise DecodeError("a varint is longer than 5 bytes")


def read_text(buffer: Buffer, position: int, end: int) -> str:
    try:
        return str(buffer[position:end], "utf-8")
    except UnicodeDecodeError as fault:
        raise DecodeError(f"text at {position} is not UTF-8: {fault.reason}") from None


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """The position behind a tag section none of whose fields is wanted."""
    count, position = read_uvarint(buffer, position)
    return skip_tags(buffer, position, count)


def skip_tags(buffer: Buffer, position: int, count: int) -> int:
    end = len(buffer)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise truncated(position, end)
    return position


def records_size(records: Any) -> int:
    """Bytes that a records field will take on the wire, wherever they lie."""
    if type(records) is FileRegion:
        return records.size_bytes
    if type(records) is list:
        return sum(records_size(piece) for piece in records)
    size: int = records.nbytes if type(records) is memoryview else len(records)
    return size


def too_many(limit: int) -> DecodeError:
    return TooManyEntries(f"its arrays have more than {limit} entries")


def too_long(name: str, length: int) -> DecodeError:
    return DecodeError(f"{name} has {length} bytes, text has {TEXT_BYTES_MAX} at most")


def truncated(needed: int, end: int) -> DecodeError:
    return DecodeError(f"needs {needed} bytes, the frame has {end}")


def null_refused(name: str) -> DecodeError:
    return DecodeError(f"{name} is null or has a negative length")
