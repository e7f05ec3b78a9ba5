"""From columns to the bodies of record batches: the compiled part of whoever writes Arrow.

`column_encoding.pxd` beside this file gives the C types; without a compiler the same code runs as
plain Python, slower and otherwise the same. Columns are the buffers of Apache Arrow as they are:
32-bit ends into bytes and bits that say what is not null. No Python object per record is ever made.
Rows are first put in order of their partition, then written in bodies up to a size.
"""

from __future__ import annotations

from moldau.records.batch import Buffer

COMPILED = not __file__.endswith(".py")
"""False where no C compiler was at hand when Moldau was installed."""


class Field:
    """A column of bytes: where each one ends, the bytes, and which are not null.

    `ends` has one number more than there are rows. Without `valid` nothing is null; otherwise bit
    `first_bit` of it belongs to row 0.
    """

    def __init__(
        self, ends: memoryview, content: Buffer, valid: Buffer | None = None, first_bit: int = 0
    ) -> None:
        self.rows = len(ends) - 1
        if self.rows < 0 or ends[0] < 0 or ends[self.rows] > len(content):
            raise IndexError("the ends do not lie inside the bytes")
        self.ends = ends
        self.content = content
        self.has_nulls = valid is not None
        self.valid = b"" if valid is None else valid
        self.first_bit = first_bit
        if self.has_nulls and len(self.valid) * 8 < first_bit + self.rows:
            raise IndexError("there are fewer bits than rows")

    def is_null(self, row: int) -> bool:
        if not self.has_nulls:
            return False
        bit = row + self.first_bit
        return not self.valid[bit >> 3] >> (bit & 7) & 1

    def size(self, row: int) -> int:
        """Of one value; -1 is null."""
        if self.is_null(row):
            return -1
        return self.ends[row + 1] - self.ends[row]


def choose_partitions(keys: Field, partition_count: int, keyless: int, out: memoryview) -> None:
    """Put into `out` where Java's producer would send each key; rows without one go to `keyless`.

    A row that has a partition of its own already (not -1 in `out`) keeps it."""
    row = 0
    if len(out) < keys.rows:
        raise IndexError("there are fewer places than rows")
    while row < keys.rows:
        if out[row] < 0:
            if keys.is_null(row):
                out[row] = keyless
            else:
                start = keys.ends[row]
                out[row] = (
                    _murmur2(keys.content, start, keys.ends[row + 1] - start) & 0x7FFFFFFF
                ) % partition_count
        row += 1


def _murmur2(key: Buffer, start: int, size: int) -> int:
    """As `partitioner.murmur2`, of bytes inside others: the compiler inlines within a module."""
    position = 0
    h = 0x9747B28C ^ size
    while size - position >= 4:
        k = key[start + position + 3]
        k = k << 8 | key[start + position + 2]
        k = k << 8 | key[start + position + 1]
        k = k << 8 | key[start + position]
        k = (k * 0x5BD1E995) & 0xFFFFFFFF
        k = ((k ^ (k >> 24)) * 0x5BD1E995) & 0xFFFFFFFF
        h = ((h * 0x5BD1E995) & 0xFFFFFFFF) ^ k
        position += 4
    rest = size - position
    if rest > 2:
        h ^= key[start + position + 2] << 16
    if rest > 1:
        h ^= key[start + position + 1] << 8
    if rest > 0:
        h = ((h ^ key[start + position]) * 0x5BD1E995) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0x5BD1E995) & 0xFFFFFFFF
    return h ^ (h >> 15)


def order_rows(partitions: memoryview, count: int, ends: memoryview, order: memoryview) -> None:
    """The rows in order of their partition, those of one partition as they came.

    `ends` gets for each partition where its rows end in `order`; it comes filled with zeros. A
    partition outside of it is an IndexError that says which."""
    row = 0
    if len(order) < count or len(partitions) < count:
        raise IndexError("there are fewer places than rows")
    while row < count:
        partition = partitions[row]
        if partition < 0 or partition >= len(ends):
            raise IndexError(f"{partition}")
        ends[partition] += 1
        row += 1
    start = partition = 0
    while partition < len(ends):
        size = ends[partition]
        ends[partition] = start
        start += size
        partition += 1
    row = 0
    while row < count:
        place = ends[partitions[row]]
        order[place] = row
        ends[partitions[row]] = place + 1
        row += 1


class Rows:
    """The columns of many records; each field has as many rows as there are times."""

    def __init__(self, keys: Field, values: Field, stamps: memoryview) -> None:
        self.keys = keys
        self.values = values
        self.stamps = stamps
        self.count = len(stamps)
        if keys.rows < self.count or values.rows < self.count:
            raise IndexError("a column has fewer rows than there are times")
        self.has_headers = False
        self.header_ends = stamps[0:0].cast("B").cast("i")
        self.header_keys = values
        self.header_values = values

    def add_headers(self, ends: memoryview, keys: Field, values: Field) -> None:
        """Row n has the headers from `ends[n]` to `ends[n + 1]`."""
        if len(ends) <= self.count or ends[0] < 0:
            raise IndexError("there are fewer lists of headers than rows")
        if ends[self.count] > min(keys.rows, values.rows):
            raise IndexError("the ends do not lie inside the headers")
        self.has_headers = True
        self.header_ends, self.header_keys, self.header_values = ends, keys, values

    def write(
        self, order: memoryview, first: int, end: int, limit_bytes: int
    ) -> tuple[bytearray, int, int, int]:
        """A body of rows `order[first:end]`, as many as fit into `limit_bytes` and at least one.

        Returns (body, index after the last one taken, first time, greatest time)."""
        if first < 0 or end > len(order) or first >= end:
            raise IndexError(f"{first} to {end} is not inside {len(order)} rows")
        return self._write(order, first, end, limit_bytes)

    def _write(
        self, order: memoryview, first: int, end: int, limit_bytes: int
    ) -> tuple[bytearray, int, int, int]:
        base = stamp_max = total = 0
        index = first
        while index < end:
            row = order[index]
            if row < 0 or row >= self.count:
                raise IndexError(f"there is no row {row}")
            if index == first:
                base = stamp_max = self.stamps[row]
            delta = self.stamps[row] - base
            size = self._record_size(row, delta, index - first)
            size += _varint_size(size)
            if index > first and total + size > limit_bytes:
                break
            total += size
            if delta > stamp_max - base:
                stamp_max = base + delta
            index += 1
        body = bytearray(total)
        self._fill(body, order, first, index)
        return body, index, base, stamp_max

    def _record_size(self, row: int, delta: int, offset_delta: int) -> int:
        key_size = self.keys.size(row)
        value_size = self.values.size(row)
        size = 1 + _varint_size(delta) + _varint_size(offset_delta)
        size += _varint_size(key_size) + max(key_size, 0)
        size += _varint_size(value_size) + max(value_size, 0)
        if not self.has_headers:
            return size + 1
        header = self.header_ends[row]
        end = self.header_ends[row + 1]
        size += _varint_size(end - header)
        while header < end:
            key_size = max(self.header_keys.size(header), 0)
            value_size = self.header_values.size(header)
            size += _varint_size(key_size) + key_size
            size += _varint_size(value_size) + max(value_size, 0)
            header += 1
        return size

    def _fill(self, out: bytearray, order: memoryview, first: int, end: int) -> None:
        base = self.stamps[order[first]]
        position = 0
        index = first
        while index < end:
            row = order[index]
            delta = self.stamps[row] - base
            size = self._record_size(row, delta, index - first)
            position = _put_varint(out, position, size)
            out[position] = 0
            position = _put_varint(out, position + 1, delta)
            position = _put_varint(out, position, index - first)
            position = _put_field(out, position, self.keys, row)
            position = _put_field(out, position, self.values, row)
            if self.has_headers:
                header = self.header_ends[row]
                header_end = self.header_ends[row + 1]
                position = _put_varint(out, position, header_end - header)
                while header < header_end:
                    if self.header_keys.is_null(header):
                        position = _put_varint(out, position, 0)
                    else:
                        position = _put_field(out, position, self.header_keys, header)
                    position = _put_field(out, position, self.header_values, header)
                    header += 1
            else:
                out[position] = 0
                position += 1
            index += 1


def _varint_size(value: int) -> int:
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag > 0x7F:
        zigzag >>= 7
        size += 1
    return size


def _put_varint(out: bytearray, position: int, value: int) -> int:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out[position] = zigzag & 0x7F | 0x80
        position += 1
        zigzag >>= 7
    out[position] = zigzag
    return position + 1


def _put_field(out: bytearray, position: int, field: Field, row: int) -> int:
    size = field.size(row)
    position = _put_varint(out, position, size)
    if size > 0:
        _copy(out, position, field.content, field.ends[row], size)  # type: ignore[name-defined]  # noqa: F821
        position += size
    return position


def _copy_slice(out: bytearray, position: int, content: Buffer, start: int, size: int) -> None:
    out[position : position + size] = content[start : start + size]


# Compiled, `_copy` is the block copy of rows.pxd.
globals().setdefault("_copy", _copy_slice)
