"""The encoding of Protocol Buffers, as far as metrics need it: fields to and from bytes.

What is read was sent by somebody else: anything that is not well formed is a ValueError, and
nothing is read twice or kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10

_DOUBLE = struct.Struct("<d")
_SIGNED = struct.Struct("<q")
_UNSIGNED = struct.Struct("<Q")

Field = tuple[int, int, "int | memoryview"]
"""Number, wire type, and the number or the bytes (of a fixed field too)."""


class ProtobufError(ValueError):
    """These bytes are no message."""


def fields(data: memoryview) -> Iterator[Field]:
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if not number:
            raise ProtobufError("a field without a number")
        if wire_type == VARINT:
            value, position = _varint(data, position)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            size, position = _varint(data, position)
        elif wire_type == FIXED64:
            size = 8
        elif wire_type == FIXED32:
            size = 4
        else:
            raise ProtobufError(f"a field of wire type {wire_type}")
        if size > end - position:
            raise ProtobufError("a field that ends behind its message")
        yield number, wire_type, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    for each in range(position, min(position + VARINT_BYTES_MAX, len(data))):
        byte = data[each]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, each + 1
        shift += 7
    raise ProtobufError("a number that does not end")


def message_of(field: Field) -> memoryview:
    """What a field with bytes holds: a message or a text."""
    _, wire_type, value = field
    if wire_type != BYTES or isinstance(value, int):
        raise ProtobufError(f"field {field[0]} is of wire type {wire_type}")
    return value


def text_of(field: Field) -> str:
    return str(message_of(field), "utf-8")


def double_of(field: Field) -> float:
    (value,) = _DOUBLE.unpack(_fixed(field))
    return float(value)


def signed_of(field: Field) -> int:
    """Of a `sfixed64`."""
    (value,) = _SIGNED.unpack(_fixed(field))
    return int(value)


def unsigned_of(field: Field) -> int:
    """Of a `fixed64`."""
    (value,) = _UNSIGNED.unpack(_fixed(field))
    return int(value)


def number_of(field: Field) -> int:
    """Of a field of variable length."""
    if not isinstance(field[2], int):
        raise ProtobufError(f"field {field[0]} is of wire type {field[1]}")
    return field[2]


def _fixed(field: Field) -> memoryview:
    _, wire_type, value = field
    if wire_type != FIXED64 or isinstance(value, int):
        raise ProtobufError(f"field {field[0]} is of wire type {wire_type}")
    return value


# Writing


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def bytes_field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | BYTES) + varint(len(content)) + content


def text_field(number: int, text: str) -> bytes:
    return bytes_field(number, text.encode())


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3 | VARINT) + varint(value)


def double_field(number: int, value: float) -> bytes:
    return varint(number << 3 | FIXED64) + _DOUBLE.pack(value)


def signed_field(number: int, value: int) -> bytes:
    return varint(number << 3 | FIXED64) + _SIGNED.pack(value)


def unsigned_field(number: int, value: int) -> bytes:
    return varint(number << 3 | FIXED64) + _UNSIGNED.pack(value)
