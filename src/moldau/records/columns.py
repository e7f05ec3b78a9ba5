"""The records of batches as columns, in the memory layout of Apache Arrow: the compiled part.

`columns.pxd` beside this file gives the C types; without a compiler the same code runs as plain
Python, slower and otherwise the same. A body is measured first, which also finds what is broken,
then added to columns of the measured size: no Python object per record is ever made. Numbers are
read by functions of its own, for the compiler inlines within one module only.
"""

from __future__ import annotations

from moldau.records.batch import Buffer

COMPILED = not __file__.endswith(".py")
"""False where no C compiler was at hand when Moldau was installed."""

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
        if position < 0:
            break
        position += max(key_size, 0)
        value_size, position = _sized(buffer, position, record_end)
        if position < 0:
            break
        position += max(value_size, 0)
        header_count, position = _varint(buffer, position, record_end, 28)
        if position < 0 or header_count < 0 or header_count > record_end - position:
            break
        taken = delta >= delta_first
        if taken:
            rows += 1
            key_bytes += max(key_size, 0)
            value_bytes += max(value_size, 0)
            headers += header_count
        while header_count > 0:
            size, position = _sized(buffer, position, record_end)
            if position < 0 or size < 0:
                return index, 0, 0, 0, 0, 0, 0
            position += size
            value_size, position = _sized(buffer, position, record_end)
            if position < 0:
                return index, 0, 0, 0, 0, 0, 0
            position += max(value_size, 0)
            if taken:
                header_key_bytes += size
                header_value_bytes += max(value_size, 0)
            header_count -= 1
        if position != record_end:
            break
        index += 1
    if index < count or position != end:
        return index, 0, 0, 0, 0, 0, 0
    return -1, rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes


def _copy_slice(out: memoryview, position: int, buffer: Buffer, start: int, size: int) -> None:
    out[position : position + size] = buffer[start : start + size]


# Compiled, `_copy` is the block copy of columns.pxd: slices of typed memoryviews cost more than
# the bytes of a record.
globals().setdefault("_copy", _copy_slice)


class Columns:
    """Room for as many rows as were measured. Every buffer is one that Arrow takes as it is:
    64-bit numbers, 32-bit offsets into bytes, and bits that say what is not null."""

    def __init__(self, measure: Measure) -> None:
        _, rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes = measure
        self.capacity = rows
        self.rows = 0
        self.null_keys = 0
        self.null_values = 0
        self.headers = 0
        self.null_header_values = 0
        self.offsets = _numbers(rows, 8)
        self.timestamps = _numbers(rows, 8)
        self.key_ends = _numbers(rows + 1, 4)
        self.keys = memoryview(bytearray(key_bytes))
        self.keys_valid = memoryview(bytearray(rows // 8 + 1))
        self.value_ends = _numbers(rows + 1, 4)
        self.values = memoryview(bytearray(value_bytes))
        self.values_valid = memoryview(bytearray(rows // 8 + 1))
        self.header_ends = _numbers(rows + 1, 4)
        self.header_key_ends = _numbers(headers + 1, 4)
        self.header_keys = memoryview(bytearray(header_key_bytes))
        self.header_value_ends = _numbers(headers + 1, 4)
        self.header_values = memoryview(bytearray(header_value_bytes))
        self.header_values_valid = memoryview(bytearray(headers // 8 + 1))

    def add(
        self, body: tuple[Buffer, int, int], count: int, delta_first: int, bases: tuple[int, int]
    ) -> None:
        """Append a body that was measured; `bases` are its base offset and base timestamp."""
        buffer, position, end = body
        self._add(buffer, position, end, count, delta_first, bases[0], bases[1])

    def _add(
        self,
        buffer: Buffer,
        position: int,
        end: int,
        count: int,
        delta_first: int,
        base_offset: int,
        base_timestamp: int,
    ) -> None:
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
                raise IndexError("the columns were made for other records")
            if key_end + key_size > len(self.keys) or value_end + size > len(self.values):
                raise IndexError("the columns were made for other records")
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
            if header_count > 0:
                self._add_headers(buffer, position, record_end, header_count)
            position = record_end
            self.offsets[row] = base_offset + delta
            self.timestamps[row] = base_timestamp + timestamp
            row += 1
            self.key_ends[row] = key_end
            self.value_ends[row] = value_end
            self.header_ends[row] = self.headers
            self.rows = row

    def _add_headers(self, buffer: Buffer, position: int, end: int, count: int) -> None:
        while count > 0:
            count -= 1
            header = self.headers
            key_end = self.header_key_ends[header]
            value_end = self.header_value_ends[header]
            key_size, position = _sized(buffer, position, end)
            key_start = position
            size, position = _sized(buffer, position + max(key_size, 0), end)
            if position < 0 or key_end + key_size > len(self.header_keys):
                raise IndexError("the columns were made for other records")
            if value_end + size > len(self.header_values):
                raise IndexError("the columns were made for other records")
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


def _numbers(count: int, size_bytes: int) -> memoryview:
    return memoryview(bytearray(count * size_bytes)).cast("q" if size_bytes == 8 else "i")
