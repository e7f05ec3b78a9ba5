"""What consumers make of batches: rows of their own kind, or columns for Arrow: the compiled part.

`column_decoding.pxd` beside this file gives the C types; without a compiler the same code runs as
plain Python, slower and otherwise the same. For columns a body is measured first, which also finds
what is broken, then added to buffers of the measured size, in the memory layout of Apache Arrow: no
Python object per record is ever made. Numbers are read by functions of its own, for the compiler
inlines within one module only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from moldau.records.batch import CODEC_MASK, CRC_START, HEADER_BYTES, LOG_APPEND_TIME_FLAG, Buffer
from moldau.records.batch_kernel import BatchRow, Headers
from moldau.records.checksum import crc32c

COMPILED = not __file__.endswith(".py")
"""False where no C compiler was at hand when Moldau was installed."""

WRONG_CHECKSUM = 1 << 32
"""What `read_batches` says of a batch; no record has such an index."""
_REST = struct.Struct(">I6xq22xi")
"""A batch's checksum, base timestamp and count, from byte 17 on."""

ALL_WANTED = (True, True, True)
"""Keys, values and headers."""

Maker = Callable[[Any], Any]
Measure = tuple[int, int, int, int, int, int, int]


def _varint(buffer: Buffer, position: int, end: int, shift_last: int) -> tuple[int, int]:
    """A zigzag number and the position behind it, which is -1 if it is torn; so is a next read.

    `shift_last` is 28 for numbers of 32 bits and 63 for numbers of 64; surplus bits are dropped.
    """
    if position < 0 or position >= end:
        return 0, -1
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _long_varint(buffer, position, end, shift_last)


def _long_varint(buffer: Buffer, position: int, end: int, shift_last: int) -> tuple[int, int]:
    value = 0
    shift = 0
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


def _sized(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """The size of a field (-1: null) and where its bytes start; -1 there if they do not fit."""
    size, position = _varint(buffer, position, end, 28)
    if position < 0 or size > end - position:
        return 0, -1
    return (size if size >= 0 else -1), position


def read_rows(
    rows: list[Any],
    buffer: Buffer,
    numbers: tuple[int, int, int, int, int, int, int],
    shared: tuple[Any, Any, Any, Any],
    makers: tuple[type, Maker | None, Maker | None],
) -> int:
    """Append a row for each record from an offset on; the index of a broken one, or -1.

    `numbers`: position and end of the records, base offset, base timestamp, count, first offset
    delta, timestamp of all or -1. `shared`: topic, partition, kind of timestamp, epoch. `makers`:
    the tuple class of the rows, makers of keys and values; if these raise, earlier rows stay.
    """
    position, end, base_offset, base_timestamp, count, delta_first, stamp = numbers
    row_type, make_key, make_value = makers
    if position < 0 or end > len(buffer):
        raise IndexError(f"{position} to {end} is not inside {len(buffer)} bytes")
    if not issubclass(row_type, tuple):
        raise TypeError(f"{row_type} is not a tuple")
    # Without references to anything but numbers and bytes a row is in no cycle.
    is_plain = make_key is None and make_value is None and row_type.__dictoffset__ == 0
    index, moment, time = 0, stamp, stamp
    while index < count:
        size, position = _varint(buffer, position, end, 28)
        if position < 0 or size < 0 or size > end - position:
            return index
        record_end = position + size
        timestamp, position = _varint(buffer, position + 1, record_end, 63)
        delta, position = _varint(buffer, position, record_end, 28)
        key_size, key_start = _sized(buffer, position, record_end)
        value_size, value_start = _sized(buffer, key_start + max(key_size, 0), record_end)
        size, position = _varint(buffer, value_start + max(value_size, 0), record_end, 28)
        if position < 0 or size < 0 or size > record_end - position:
            return index
        headers, position = _read_headers(buffer, position, record_end, size)
        if position != record_end:
            return index
        if delta >= delta_first:
            key = _cut(buffer, key_start, key_size)  # type: ignore[name-defined]  # noqa: F821
            value = _cut(buffer, value_start, value_size)  # type: ignore[name-defined]  # noqa: F821
            if make_key is not None:
                key = make_key(key)
            if make_value is not None:
                value = make_value(value)
            if stamp < 0 and base_timestamp + timestamp != moment:
                time = moment = base_timestamp + timestamp  # One number for equal neighbours.
            offset = base_offset + delta
            rows.append(_row(row_type, is_plain, shared, offset, time, key, value, headers))  # type: ignore[name-defined]  # noqa: F821
        index += 1
    return -1 if position == end else count


def read_batches(
    rows: list[Any],
    view: memoryview,
    batches: list[BatchRow],
    limits: tuple[int, int, bool],
    shared: tuple[Any, Any, tuple[Any, Any]],
    makers: tuple[type, Maker | None, Maker | None],
) -> tuple[int, BatchRow | None]:
    """Take batches that are not compressed off the end of `batches` and append their rows.

    `limits`: how many rows are enough, the first offset, whether checksums are looked at.
    `shared`: topic, partition, the two kinds of timestamps. Returns (-1, the batch taken last);
    (WRONG_CHECKSUM or the index of a broken record, …) leaves that batch where it is.
    """
    count, offset_first, check_crcs = limits
    topic, partition, kinds = shared
    taken = None
    while batches and len(rows) < count:
        batch = batches[len(batches) - 1]
        position, size, base_offset, _, stamp, epoch, _, attributes = batch
        if attributes & CODEC_MASK:
            break
        checksum, base_timestamp, record_count = _REST.unpack_from(view, position + 17)
        end = position + size
        if check_crcs and crc32c(view[position + CRC_START : end]) != checksum:
            return WRONG_CHECKSUM, taken
        has_append_time = attributes & LOG_APPEND_TIME_FLAG != 0
        stamp = stamp if has_append_time else -1
        start, delta = position + HEADER_BYTES, max(offset_first - base_offset, 0)
        numbers = (start, end, base_offset, base_timestamp, record_count, delta, stamp)
        both = (topic, partition, kinds[has_append_time], epoch)
        known = len(rows)
        fault = read_rows(rows, view, numbers, both, makers)
        if fault >= 0:
            del rows[known:]
            return fault, taken
        taken = batches.pop()
    return -1, taken


def _read_headers(buffer: Buffer, position: int, end: int, count: int) -> tuple[Headers, int]:
    """The headers and the position behind them, -1 if they are broken."""
    if count == 0:
        return (), position
    headers: list[Any] = []
    while count > 0:
        count -= 1
        size, position = _sized(buffer, position, end)
        if position < 0 or size < 0:
            return (), -1
        # Nobody checks that header keys are UTF-8; what is not must survive reading and writing.
        key = _cut(buffer, position, size).decode("utf-8", "surrogateescape")  # type: ignore[name-defined]  # noqa: F821
        size, position = _sized(buffer, position + size, end)
        if position < 0:
            return (), -1
        headers.append((key, _cut(buffer, position, size)))  # type: ignore[name-defined]  # noqa: F821
        position += max(size, 0)
    return tuple(headers), position


def _measure_headers(buffer: Buffer, position: int, end: int, count: int) -> tuple[int, int, int]:
    """Where so many headers end, -1 if they are broken, and the bytes of their keys and values."""
    key_bytes = value_bytes = 0
    while count > 0:
        size, position = _sized(buffer, position, end)
        if position < 0 or size < 0:
            return -1, 0, 0
        key_bytes += size
        size, position = _sized(buffer, position + size, end)
        if position < 0:
            return -1, 0, 0
        position += max(size, 0)
        value_bytes += max(size, 0)
        count -= 1
    return position, key_bytes, value_bytes


def measure_records(
    buffer: Buffer, position: int, end: int, count: int, delta_first: int
) -> Measure:
    """How much the records from offset delta `delta_first` on hold.

    Returns (index of a broken record or -1, rows, key bytes, value bytes, headers, bytes of their
    keys, bytes of their values). The `count` records must fill `position` to `end` exactly.
    """
    if position < 0 or end > len(buffer):
        raise IndexError(f"{position} to {end} is not inside {len(buffer)} bytes")
    rows = key_bytes = value_bytes = headers = header_key_bytes = header_value_bytes = 0
    index = 0
    while index < count:
        size, position = _varint(buffer, position, end, 28)
        if position < 0 or size < 0 or size > end - position:
            break
        record_end = position + size
        _, position = _varint(buffer, position + 1, record_end, 63)
        delta, position = _varint(buffer, position, record_end, 28)
        key_size, position = _sized(buffer, position, record_end)
        value_size, position = _sized(buffer, position + max(key_size, 0), record_end)
        size, position = _varint(buffer, position + max(value_size, 0), record_end, 28)
        if position < 0 or size < 0 or size > record_end - position:
            break
        position, name_bytes, note_bytes = _measure_headers(buffer, position, record_end, size)
        if position != record_end:
            break
        if delta >= delta_first:
            rows += 1
            key_bytes += max(key_size, 0)
            value_bytes += max(value_size, 0)
            headers += size
            header_key_bytes += name_bytes
            header_value_bytes += note_bytes
        index += 1
    if index < count or position != end:
        return index, 0, 0, 0, 0, 0, 0
    return -1, rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes


def _copy_slice(out: memoryview, position: int, buffer: Buffer, start: int, size: int) -> None:
    out[position : position + size] = buffer[start : start + size]


def _add_locked(
    columns: Columns, buffer: Buffer, span: tuple[int, int], numbers: tuple[int, int]
) -> int:
    return columns._add(buffer, *span, *numbers)


def _cut_slice(buffer: Buffer, start: int, size: int) -> bytes | None:
    return bytes(buffer[start : start + size]) if size >= 0 else None


def _row_of(row_type: type, is_plain: bool, shared: tuple[Any, ...], *own: Any) -> Any:
    topic, partition, kind, epoch = shared
    offset, time, *rest = own
    return tuple.__new__(row_type, (topic, partition, offset, time, kind, *rest, epoch))


def fresh_bytes(size_bytes: int) -> bytearray:
    """A bytearray that may hold anything."""
    return _uncleared(size_bytes)  # type: ignore[name-defined,no-any-return]  # noqa: F821


# Compiled, these are functions of column_decoding.pxd: a block copy and bytes from a block, for
# slices of typed memoryviews cost more than the bytes of a record; a row that is filled where it
# stands and, if it is plain, never looked at by the garbage collector; a call that lets other
# Python threads run meanwhile; and memory as the allocator gives it.
globals().setdefault("_copy", _copy_slice)
globals().setdefault("_cut", _cut_slice)
globals().setdefault("_row", _row_of)
globals().setdefault("_add_unlocked", _add_locked)
globals().setdefault("_uncleared", bytearray)


class Columns:
    """Room for as many rows as were measured. Every buffer is one that Arrow takes as it is:
    64-bit numbers, 32-bit offsets into bytes, and bits that say what is not null."""

    def __init__(
        self,
        measure: Measure,
        allocate: Callable[[int], Any] = bytearray,
        wanted: tuple[bool, bool, bool] = ALL_WANTED,
    ) -> None:
        """`allocate` makes the room for whatever grows with the records; it may hold anything.
        `wanted`: keys, values, headers; what is not is passed over, and null or empty here."""
        _, rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes = measure
        self.has_keys, self.has_values, self.has_headers = wanted
        key_bytes = key_bytes if self.has_keys else 0
        value_bytes = value_bytes if self.has_values else 0
        if not self.has_headers:
            headers = header_key_bytes = header_value_bytes = 0
        self.capacity = rows
        self.rows = 0
        self.base_offset = 0
        self.base_timestamp = 0
        self.null_keys = 0
        self.null_values = 0
        self.headers = 0
        self.null_header_values = 0
        self.offsets = _numbers(allocate, rows, 8)
        self.timestamps = _numbers(allocate, rows, 8)
        self.key_ends = _numbers(allocate, rows + 1, 4)
        self.keys = memoryview(allocate(key_bytes)).cast("B")
        self.keys_valid = memoryview(bytearray(rows // 8 + 1))
        self.value_ends = _numbers(allocate, rows + 1, 4)
        self.values = memoryview(allocate(value_bytes)).cast("B")
        self.values_valid = memoryview(bytearray(rows // 8 + 1))
        self.header_ends = _numbers(allocate, rows + 1, 4)
        self.header_key_ends = _numbers(allocate, headers + 1, 4)
        self.header_keys = memoryview(bytearray(header_key_bytes))
        self.header_value_ends = _numbers(allocate, headers + 1, 4)
        self.header_values = memoryview(bytearray(header_value_bytes))
        self.header_values_valid = memoryview(bytearray(headers // 8 + 1))
        self.key_ends[0] = self.value_ends[0] = self.header_ends[0] = 0
        self.header_key_ends[0] = self.header_value_ends[0] = 0

    def add(
        self, body: tuple[Buffer, int, int], count: int, delta_first: int, bases: tuple[int, int]
    ) -> None:
        """Append a body that was measured; `bases` are its base offset and base timestamp."""
        buffer, position, end = body
        self.base_offset, self.base_timestamp = bases
        if _add_unlocked(self, buffer, (position, end), (count, delta_first)):  # type: ignore[name-defined]  # noqa: F821
            raise IndexError("the columns were made for other records")

    def _add(self, buffer: Buffer, position: int, end: int, count: int, delta_first: int) -> int:
        """0, or -1 if the records do not fit. Raises nothing: it runs without the lock."""
        row = self.rows
        key_end = self.key_ends[row]
        value_end = self.value_ends[row]
        while count > 0:
            count -= 1
            size, position = _varint(buffer, position, end, 28)
            record_end = position + size
            timestamp, position = _varint(buffer, position + 1, record_end, 63)
            delta, position = _varint(buffer, position, record_end, 28)
            if delta < delta_first:
                position = record_end
                continue
            key_size, position = _sized(buffer, position, record_end)
            key_start = position
            position += max(key_size, 0)
            size, position = _sized(buffer, position, record_end)
            if position < 0 or row >= self.capacity:
                return -1
            key_size = key_size if self.has_keys else -1
            if not self.has_values:
                position, size = position + max(size, 0), -1
            if key_end + key_size > len(self.keys) or value_end + size > len(self.values):
                return -1
            if key_size >= 0:
                _copy(self.keys, key_end, buffer, key_start, key_size)  # type: ignore[name-defined]  # noqa: F821
                key_end += key_size
                self.keys_valid[row >> 3] |= 1 << (row & 7)
            else:
                self.null_keys += 1
            if size >= 0:
                _copy(self.values, value_end, buffer, position, size)  # type: ignore[name-defined]  # noqa: F821
                value_end += size
                position += size
                self.values_valid[row >> 3] |= 1 << (row & 7)
            else:
                self.null_values += 1
            header_count, position = _varint(buffer, position, record_end, 28)
            if header_count > 0 and self._add_headers(buffer, position, record_end, header_count):
                return -1
            position = record_end
            self.offsets[row] = self.base_offset + delta
            self.timestamps[row] = self.base_timestamp + timestamp
            row += 1
            self.key_ends[row] = key_end
            self.value_ends[row] = value_end
            self.header_ends[row] = self.headers
            self.rows = row
        return 0

    def _add_headers(self, buffer: Buffer, position: int, end: int, count: int) -> int:
        while count > 0 and self.has_headers:
            count -= 1
            header = self.headers
            key_end = self.header_key_ends[header]
            value_end = self.header_value_ends[header]
            key_size, position = _sized(buffer, position, end)
            key_start = position
            size, position = _sized(buffer, position + max(key_size, 0), end)
            if position < 0 or key_end + key_size > len(self.header_keys):
                return -1
            if value_end + size > len(self.header_values):
                return -1
            _copy(self.header_keys, key_end, buffer, key_start, key_size)  # type: ignore[name-defined]  # noqa: F821
            if size >= 0:
                _copy(self.header_values, value_end, buffer, position, size)  # type: ignore[name-defined]  # noqa: F821
                value_end += size
                position += size
                self.header_values_valid[header >> 3] |= 1 << (header & 7)
            else:
                self.null_header_values += 1
            self.headers = header + 1
            self.header_key_ends[header + 1] = key_end + key_size
            self.header_value_ends[header + 1] = value_end
        return 0


def _numbers(allocate: Callable[[int], Any], count: int, size_bytes: int) -> memoryview:
    room = memoryview(allocate(count * size_bytes)).cast("B")
    return room.cast("q" if size_bytes == 8 else "i")
