"""Messages of Kafka before 0.11 (magic 0 and 1) to records of today and back: the compiled part.

`old_messages.pxd` beside this file gives the C types; without a compiler the same code runs as
plain Python. As in `batch_kernel.py` no read goes past `end`, and nothing is raised for bad bytes:
the answer says what is wrong and where. A message is: offset, size, CRC-32 of the rest, magic,
attributes, in magic 1 a timestamp, key and value, each behind its length.
"""

from __future__ import annotations

from zlib import crc32

from moldau.records.batch import Buffer
from moldau.records.batch_kernel import BatchRow
from moldau.records.interpreter_offers import offer_interpreter

COMPILED = not __file__.endswith(".py")
"""False where no C compiler was at hand when Moldau was installed."""

OLD_BYTES_MIN = 26
"""Of a message with its offset and size: magic 0, neither key nor value."""
BAD_SIZE, BAD_CHECKSUM, BAD_STRUCTURE, BAD_TIMESTAMP, BAD_OFFSET, BAD_MAGIC, NESTED = range(1, 8)
FAULTS = {
    BAD_SIZE: "its size is too small",
    BAD_CHECKSUM: "its checksum is wrong",
    BAD_STRUCTURE: "its key and value do not fill its size",
    BAD_TIMESTAMP: "its timestamp is out of range",
    BAD_OFFSET: "its offset does not follow the one before it",
    BAD_MAGIC: "its format is not that of the others",
    NESTED: "it is compressed within a compressed one",
}
"""What may be wrong with a message; 0 is nothing."""

_STAMPED_BYTES_MIN = 34
_OVERHEAD_BYTES = 12
_LOG_APPEND_TIME = 8
_CODEC = 7
_INT32_MAX = 0x7FFFFFFF
_TIMESTAMP_MAX = 0x3FFFFFFFFFFFFFFF
_OFFER_MASK = 0xFFF
"""After so many messages other threads may go on."""


def scan_messages(
    buffer: Buffer, view: Buffer, position: int, end: int, check: bool
) -> list[BatchRow]:
    """A row for every whole message, as `kernel.scan_batches` makes them of batches; stops before
    a torn one, one of another format and, with `check`, one whose checksum is wrong.

    A compressed message stands for all that it holds by the offset of the last.
    """
    _check_range(buffer, position, end)
    rows: list[BatchRow] = []
    while end - position >= OLD_BYTES_MIN:
        size = _int32(buffer, position + 8) + _OVERHEAD_BYTES
        magic = buffer[position + 16]
        if magic > 1 or size > end - position:
            break
        if size < OLD_BYTES_MIN or (magic == 1 and size < _STAMPED_BYTES_MIN):
            break
        if check and not _is_intact(buffer, view, position, size):
            break
        offset = _int64(buffer, position)
        timestamp = -1
        if magic == 1:
            timestamp = max(_int64(buffer, position + 18), -1)
        attributes = buffer[position + 17]
        rows.append((position, size, offset, offset, timestamp, -1, -1, attributes))
        position += size
    return rows


def survey_messages(
    buffer: Buffer, view: Buffer, position: int, end: int, check: bool
) -> tuple[int, int, int, int, int]:
    """What `scan_messages` would find, without a row for each: how many, where they end, the size
    of the largest, all their attributes in one, the offset of the last."""
    _check_range(buffer, position, end)
    count = 0
    size_max = 0
    attributes = 0
    offset = -1
    while end - position >= OLD_BYTES_MIN:
        size = _int32(buffer, position + 8) + _OVERHEAD_BYTES
        magic = buffer[position + 16]
        if magic > 1 or size > end - position:
            break
        if size < OLD_BYTES_MIN or (magic == 1 and size < _STAMPED_BYTES_MIN):
            break
        if check and not _is_intact(buffer, view, position, size):
            break
        offset = _int64(buffer, position)
        attributes |= buffer[position + 17]
        size_max = max(size_max, size)
        count += 1
        if count & _OFFER_MASK == 0:
            offer_interpreter()
        position += size
    return count, position, size_max, attributes, offset


def holds_old(buffer: Buffer, position: int, end: int) -> bool:
    """Whether there are such messages among the batches."""
    _check_range(buffer, position, end)
    while end - position >= OLD_BYTES_MIN:
        if buffer[position + 16] <= 1:
            return True
        size = _int32(buffer, position + 8) + _OVERHEAD_BYTES
        if size < OLD_BYTES_MIN or size > end - position:
            break
        position += size
    return False


def find_message(buffer: Buffer, position: int, end: int, offset: int) -> tuple[bool, int]:
    """As `kernel.find_batch`, for messages: the first with `offset` or a later one."""
    _check_range(buffer, position, end)
    while end - position >= OLD_BYTES_MIN and buffer[position + 16] <= 1:
        size = _int32(buffer, position + 8) + _OVERHEAD_BYTES
        if size < OLD_BYTES_MIN:
            break
        if _int64(buffer, position) >= offset:
            return True, position
        position += size
    return False, position


def run_end(buffer: Buffer, position: int, end: int) -> int:
    """Where the messages stop that could share one batch: of one format, not compressed, with
    timestamps of one kind. A torn message ends them too."""
    _check_range(buffer, position, end)
    first = position
    while end - position >= OLD_BYTES_MIN:
        size = _int32(buffer, position + 8) + _OVERHEAD_BYTES
        attributes = buffer[position + 17]
        if size < OLD_BYTES_MIN or size > end - position or attributes & _CODEC:
            break
        if buffer[position + 16] != buffer[first + 16]:
            break
        if (attributes ^ buffer[first + 17]) & _LOG_APPEND_TIME:
            break
        if attributes & _LOG_APPEND_TIME and _int64(buffer, position + 18) != _int64(
            buffer, first + 18
        ):
            break
        position += size
    return position


def upgrade_messages(
    buffer: Buffer,
    view: Buffer,
    position: int,
    end: int,
    out: bytearray,
    run: tuple[int, bool, int, int],
) -> tuple[int, int, int, int]:
    """Append messages to `out` as records of a batch; a torn one at the end is left out.

    `run` is (magic, whether records keep their offsets rather than being numbered, the batch's
    base offset and base timestamp). Returns (fault, how many were taken, last offset delta,
    greatest timestamp).
    """
    magic, keeps_offsets, base_offset, base_timestamp = run
    _check_range(buffer, position, end)
    record = bytearray()
    number = fault = 0
    last_delta = timestamp_max = -1
    while end - position >= _OVERHEAD_BYTES + 6:
        size = _int32(buffer, position + 8) + _OVERHEAD_BYTES
        if size > end - position:
            break
        fault = _message_fault(buffer, view, position, size, magic)
        if fault != 0:
            break
        timestamp = _int64(buffer, position + 18) if magic == 1 else -1
        if timestamp < -1 or timestamp > _TIMESTAMP_MAX:
            if not keeps_offsets:
                return BAD_TIMESTAMP, number, last_delta, timestamp_max
            timestamp = -1
        delta = number
        if keeps_offsets:
            delta = _delta(base_offset, _int64(buffer, position))
        if delta <= last_delta:
            return BAD_OFFSET, number, last_delta, timestamp_max
        if not _upgrade(
            record, buffer, view, position, size, magic, timestamp - base_timestamp, delta
        ):
            return BAD_STRUCTURE, number, last_delta, timestamp_max
        _append_varint(out, len(record))
        out += record
        last_delta = delta
        timestamp_max = max(timestamp_max, timestamp)
        number += 1
        if number & _OFFER_MASK == 0:
            offer_interpreter()
        position += size
    return fault, number, last_delta, timestamp_max


def _message_fault(buffer: Buffer, view: Buffer, position: int, size: int, magic: int) -> int:
    if size < OLD_BYTES_MIN:
        return BAD_SIZE
    if buffer[position + 16] != magic:
        return BAD_MAGIC
    if magic == 1 and size < _STAMPED_BYTES_MIN:
        return BAD_SIZE
    if not _is_intact(buffer, view, position, size):
        return BAD_CHECKSUM
    return NESTED if buffer[position + 17] & _CODEC else 0


def _delta(base_offset: int, offset: int) -> int:
    """-1 if it cannot be."""
    if offset < base_offset or base_offset < 0 or offset - base_offset > _INT32_MAX:
        return -1
    return offset - base_offset


def _upgrade(
    record: bytearray,
    buffer: Buffer,
    view: Buffer,
    position: int,
    size: int,
    magic: int,
    timestamp_delta: int,
    offset_delta: int,
) -> bool:
    """Make `record` of the message at `position`; False if its fields do not fill it."""
    record.clear()
    record.append(0)
    _append_varint(record, timestamp_delta)
    _append_varint(record, offset_delta)
    end = position + size
    position += 26 if magic == 1 else 18
    position = _append_field(record, buffer, view, position, end)
    position = _append_field(record, buffer, view, position, end)
    record.append(0)
    return position == end


def write_messages(
    buffer: Buffer,
    view: Buffer,
    position: int,
    count: int,
    out: bytearray,
    batch: tuple[int, int, int],
    form: tuple[int, int, int, bool],
) -> tuple[int, int, int, int, int]:
    """Append `count` records of a batch's body to `out` as messages, which have no headers.

    `batch` is (base offset, base timestamp, the one timestamp of all records or -1), `form` is
    (magic, attributes, the first offset to take, whether offsets count from the first one).
    Returns (how many came before a broken record or -1, messages, last offset, greatest timestamp,
    where the next record begins).
    """
    base_offset, base_timestamp, stamp = batch
    magic, attributes, offset_least, is_relative = form
    message = bytearray()
    end = len(buffer)
    _check_range(buffer, position, end)
    index = 0
    written = 0
    first = 0
    offset = -1
    timestamp_max = -1
    while index < count:
        size, position = _varint(buffer, position, end, 28)
        if position < 0 or size < 0 or size > end - position:
            return index, written, offset, timestamp_max, position
        record_end = position + size
        delta, position = _varint(buffer, position + 1, record_end, 63)
        offset_delta, position = _varint(buffer, position, record_end, 28)
        timestamp = stamp if stamp >= 0 else base_timestamp + delta
        if position >= 0 and base_offset + offset_delta >= offset_least:
            _start_message(message, magic, attributes, timestamp)
            position = _append_old_field(message, buffer, view, position, record_end)
            position = _append_old_field(message, buffer, view, position, record_end)
            if position >= 0:
                offset = base_offset + offset_delta
                if is_relative and written == 0:
                    first = offset
                _append_message(out, offset - first, message)
                written += 1
                timestamp_max = max(timestamp_max, timestamp)
        if position < 0:
            return index, written, offset, timestamp_max, position
        position = record_end
        index += 1
    return -1, written, offset, timestamp_max, position


def _start_message(message: bytearray, magic: int, attributes: int, timestamp: int) -> None:
    message.clear()
    message.append(magic)
    message.append(attributes)
    if magic == 1:
        _append_int64(message, timestamp)


def _append_message(out: bytearray, offset: int, message: bytearray) -> None:
    _append_int64(out, offset)
    _append_int32(out, len(message) + 4)
    _append_int32(out, crc32(message))
    out += message


def _check_range(buffer: Buffer, position: int, end: int) -> None:
    if position < 0 or end > len(buffer):
        raise IndexError(f"{position} to {end} is not inside {len(buffer)} bytes")


def _is_intact(buffer: Buffer, view: Buffer, position: int, size: int) -> bool:
    checksum = _int32(buffer, position + 12) & 0xFFFFFFFF
    return crc32(view[position + 16 : position + size]) == checksum


def _append_field(record: bytearray, buffer: Buffer, view: Buffer, position: int, end: int) -> int:
    """A key or value, whose length becomes a varint; the position behind it, or -1."""
    if position < 0 or end - position < 4:
        return -1
    size = _int32(buffer, position)
    position += 4
    if size < 0:
        record.append(1)
        return position
    if size > end - position:
        return -1
    _append_varint(record, size)
    record += view[position : position + size]
    return position + size


def _append_old_field(
    message: bytearray, buffer: Buffer, view: Buffer, position: int, end: int
) -> int:
    """The other way round."""
    size, position = _varint(buffer, position, end, 28)
    if position < 0 or size > end - position:
        return -1
    if size < 0:
        _append_int32(message, -1)
        return position
    _append_int32(message, size)
    message += view[position : position + size]
    return position + size


def _varint(buffer: Buffer, position: int, end: int, shift_last: int) -> tuple[int, int]:
    """A zigzag number and the position behind it, which is -1 if it is torn or follows a torn
    one."""
    value = 0
    shift = 0
    if position < 0:
        return 0, -1
    while position < end and shift <= shift_last:
        byte = buffer[position]
        position += 1
        if shift == 28 == shift_last:
            byte &= 0x8F
        if shift == 63:
            byte &= 0x81
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    return 0, -1


def _append_varint(out: bytearray, value: int) -> None:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def _append_int32(out: bytearray, value: int) -> None:
    out.append(value >> 24 & 0xFF)
    out.append(value >> 16 & 0xFF)
    out.append(value >> 8 & 0xFF)
    out.append(value & 0xFF)


def _append_int64(out: bytearray, value: int) -> None:
    _append_int32(out, value >> 32)
    _append_int32(out, value)


def _int32(buffer: Buffer, position: int) -> int:
    value = buffer[position]
    value = value << 8 | buffer[position + 1]
    value = value << 8 | buffer[position + 2]
    value = value << 8 | buffer[position + 3]
    return value - 0x100000000 if value > 0x7FFFFFFF else value


def _int64(buffer: Buffer, position: int) -> int:
    return _int32(buffer, position) * 0x100000000 + (_int32(buffer, position + 4) & 0xFFFFFFFF)
