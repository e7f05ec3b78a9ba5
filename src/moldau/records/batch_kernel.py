"""What must look at every record or every batch header of a buffer: the compiled part.

`batch_kernel.pxd` beside this file gives the C types; without a compiler the same code runs as
plain Python, slower and otherwise the same. No read goes past the `end` that the caller gave,
whatever the bytes say. Nothing is raised for bad bytes: the answer says what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.records.batch import Buffer
from moldau.records.checksum import crc32c
from moldau.records.interpreter_offers import offer_interpreter

Headers = tuple[tuple[str, bytes | None], ...]
Row = tuple[int, int, bytes | None, bytes | None, Headers]
BatchRow = tuple[int, int, int, int, int, int, int, int]

COMPILED = not __file__.endswith(".py")
"""False where no C compiler was at hand when Moldau was installed."""

_BAD_SIZE = 1
_BAD_STRUCTURE = 2
_BAD_OFFSET_DELTA = 3
_BAD_HEADER_COUNT = 4
_BAD_HEADER_KEY = 5
_TRAILING_BYTES = 6
FAULTS = {
    1: "its size does not fit the batch",
    2: "its fields do not fill its size",
    3: "its offset delta is not its index",
    4: "its header count is negative or more than fits",
    5: "a header key has a negative size",
    6: "the batch goes on behind the last record",
}
"""What `walk_records` may find wrong with a record; 0 is nothing."""

DELTA_HIGHEST = 0x7FFFFFFFFFFFFFFF
_DELTA_LOWEST = -DELTA_HIGHEST - 1
_HEADER_BYTES = 61
_OFFER_MASK = 0x3FFF
"""After so many steps of a walk other threads may go on."""


def _varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """A zigzag number of up to 32 bits and the position behind it, which is -1 if it is torn.

    A failed read hands on the failure: reading at -1 fails again, so callers check once.
    """
    if position < 0 or position >= end:
        return 0, -1
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _long_varint(buffer, position, end, 28)


def _varlong(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """As `_varint`, up to 64 bits."""
    if position < 0 or position >= end:
        return 0, -1
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _long_varint(buffer, position, end, 63)


def _long_varint(buffer: Buffer, position: int, end: int, shift_last: int) -> tuple[int, int]:
    """Several bytes; of the last one allowed only the bits that fit count, as in Java."""
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


def _skip_headers(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """What is wrong with the header count and headers at `position` (0: nothing), and their end."""
    header_count, position = _varint(buffer, position, end)
    if position < 0:
        return _BAD_STRUCTURE, position
    if header_count < 0 or header_count > end - position:
        return _BAD_HEADER_COUNT, position
    while header_count > 0:
        if header_count & _OFFER_MASK == _OFFER_MASK:
            offer_interpreter()
        size, position = _varint(buffer, position, end)
        if size < 0:
            return _BAD_HEADER_KEY, position
        position += size
        size, position = _varint(buffer, position, end)
        if position < 0:
            return _BAD_STRUCTURE, position
        if size > 0:
            position += size
        header_count -= 1
    return 0, position


def _check_range(buffer: Buffer, position: int, end: int) -> None:
    """Everything below trusts these two, and compiled code would read what is not there."""
    if position < 0 or end > len(buffer):
        raise IndexError(f"{position} to {end} is not inside {len(buffer)} bytes")


def walk_records(
    buffer: Buffer, position: int, end: int, count: int, unstamped_delta: int
) -> tuple[int, int, int, int, int, int]:
    """Check `count` records that must fill `position` to `end` exactly, as a broker stores them.

    Returns (fault, index, delta_min, delta_max, index_of_max, null_keys). `index` is the record
    that has the fault. The deltas are of timestamps; the least leaves out records that carry none
    (whose delta is `unstamped_delta`) and is DELTA_HIGHEST if all are such.
    """
    _check_range(buffer, position, end)
    delta_min = DELTA_HIGHEST
    delta_max = _DELTA_LOWEST
    index_of_max = null_keys = fault = index = 0
    while index < count:
        if index & _OFFER_MASK == _OFFER_MASK:
            offer_interpreter()
        size, position = _varint(buffer, position, end)
        if position < 0 or size < 0 or size > end - position:
            fault = _BAD_SIZE
            break
        record_end = position + size
        delta, position = _varlong(buffer, position + 1, record_end)
        offset_delta, position = _varint(buffer, position, record_end)
        if offset_delta != index:
            fault = _BAD_OFFSET_DELTA if position >= 0 else _BAD_STRUCTURE
            break
        size, position = _varint(buffer, position, record_end)
        if size < 0:
            null_keys += 1
        else:
            position += size
        size, position = _varint(buffer, position, record_end)
        if size > 0:
            position += size
        fault, position = _skip_headers(buffer, position, record_end)
        if fault != 0:
            break
        if position != record_end:
            fault = _BAD_STRUCTURE
            break
        if delta > delta_max:
            delta_max = delta
            index_of_max = index
        if delta < delta_min and delta != unstamped_delta:
            delta_min = delta
        index += 1
    if fault == 0 and position != end:
        fault = _TRAILING_BYTES
    return fault, index, delta_min, delta_max, index_of_max, null_keys


def list_refused(
    buffer: Buffer,
    position: int,
    end: int,
    count: int,
    bounds: tuple[bool, int, int, int],
    length_max: int,
) -> tuple[list[tuple[int, int, bool]], int, int]:
    """Who breaks a topic's rules in a body that `walk_records` has found good.

    `bounds` is (keys required, least delta, greatest delta, delta of records without a time).
    Returns the first so many as (index, timestamp delta, whether it is the key that is missing),
    and how many in all miss a key or have a wrong time.
    """
    keys_required, delta_least, delta_greatest, unstamped_delta = bounds
    refused: list[tuple[int, int, bool]] = []
    keyless = 0
    untimely = 0
    index = 0
    _check_range(buffer, position, end)
    while index < count and position < end:
        if index & _OFFER_MASK == _OFFER_MASK:
            offer_interpreter()
        size, position = _varint(buffer, position, end)
        record_end = position + size
        delta, position = _varlong(buffer, position + 1, record_end)
        _, position = _varint(buffer, position, record_end)
        size, position = _varint(buffer, position, record_end)
        if keys_required and size < 0:
            keyless += 1
            if len(refused) < length_max:
                refused.append((index, delta, True))
        elif delta != unstamped_delta and (delta < delta_least or delta > delta_greatest):
            untimely += 1
            if len(refused) < length_max:
                refused.append((index, delta, False))
        position = record_end
        index += 1
    return refused, keyless, untimely


def find_record(
    buffer: Buffer, position: int, end: int, delta_least: int, offset_delta_least: int
) -> tuple[int, int]:
    """Offset delta and timestamp delta of the first record at or after both; (-1, 0) if none."""
    _check_range(buffer, position, end)
    steps = 0
    while 0 <= position < end:
        steps += 1
        if steps & _OFFER_MASK == 0:
            offer_interpreter()
        size, position = _varint(buffer, position, end)
        if size < 0 or size > end - position:
            break
        record_end = position + size
        delta, position = _varlong(buffer, position + 1, record_end)
        offset_delta, position = _varint(buffer, position, record_end)
        if position < 0:
            break
        if delta >= delta_least and offset_delta >= offset_delta_least:
            return offset_delta, delta
        position = record_end
    return -1, 0


def read_records(
    buffer: Buffer, body: bytes, base_offset: int, base_timestamp: int, count: int
) -> tuple[list[Row], int]:
    """The rows (offset, timestamp, key, value, headers) and the index of a broken one, or -1.

    `buffer` and `body` are the same bytes: one to read numbers from, one to cut out of. Offset
    deltas may have gaps, as compaction leaves them.
    """
    rows: list[Row] = []
    position = 0
    end = len(body)
    _check_range(buffer, position, end)
    index = 0
    while index < count:
        size, position = _varint(buffer, position, end)
        if position < 0 or size < 0 or size > end - position:
            return rows, index
        record_end = position + size
        delta, position = _varlong(buffer, position + 1, record_end)
        offset_delta, position = _varint(buffer, position, record_end)
        size, position = _varint(buffer, position, record_end)
        key = body[position : position + size] if size >= 0 else None
        position += max(size, 0)
        size, position = _varint(buffer, position, record_end)
        value = body[position : position + size] if size >= 0 else None
        position += max(size, 0)
        fault, headers_end = _skip_headers(buffer, position, record_end)
        if fault != 0 or headers_end != record_end:
            return rows, index
        headers = _read_headers(buffer, body, position, record_end)
        rows.append((base_offset + offset_delta, base_timestamp + delta, key, value, headers))
        position = record_end
        index += 1
    return rows, -1 if position == end else count


def _read_headers(buffer: Buffer, body: bytes, position: int, end: int) -> Headers:
    """Headers whose structure `_skip_headers` has found good."""
    count, position = _varint(buffer, position, end)
    if count == 0:
        return ()
    headers: list[tuple[str, bytes | None]] = []
    while count > 0:
        size, position = _varint(buffer, position, end)
        # Nobody checks that header keys are UTF-8; what is not must survive reading and writing.
        key = body[position : position + size].decode("utf-8", "surrogateescape")
        size, position = _varint(buffer, position + size, end)
        if size >= 0:
            headers.append((key, body[position : position + size]))
            position += size
        else:
            headers.append((key, None))
        count -= 1
    return tuple(headers)


def write_records(
    rows: Sequence[Row], base_timestamp: int, offset_deltas: Iterable[int]
) -> bytearray:
    """The body of a batch; the rows' own offsets do not count, `offset_deltas` do."""
    out = bytearray()
    record = bytearray()
    for row, offset_delta in zip(rows, offset_deltas, strict=True):
        _, timestamp, key, value, headers = row
        record.clear()
        record.append(0)
        _append_varint(record, timestamp - base_timestamp)
        _append_varint(record, offset_delta)
        _append_bytes(record, key)
        _append_bytes(record, value)
        _append_varint(record, len(headers))
        for header_key, header_value in headers:
            _append_bytes(record, header_key.encode("utf-8", "surrogateescape"))
            _append_bytes(record, header_value)
        _append_varint(out, len(record))
        out += record
    return out


def _append_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
    else:
        _append_varint(out, len(value))
        out += value


def _append_varint(out: bytearray, value: int) -> None:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def scan_batches(buffer: Buffer, position: int, end: int) -> list[BatchRow]:
    """A row for every whole batch, in order; stops before a torn one or one of another format.

    Rows: (position, size, base_offset, last_offset, max_timestamp, leader_epoch, producer_id,
    attributes). The next batch would stand at the last row's position + size.
    """
    _check_range(buffer, position, end)
    rows: list[BatchRow] = []
    while end - position >= _HEADER_BYTES and buffer[position + 16] == 2:
        size = _int32(buffer, position + 8) + 12
        if size < _HEADER_BYTES or size > end - position:
            break
        base_offset = _int64(buffer, position)
        rows.append(
            (
                position,
                size,
                base_offset,
                base_offset + _int32(buffer, position + 23),
                _int64(buffer, position + 35),
                _int32(buffer, position + 12),
                _int64(buffer, position + 43),
                buffer[position + 22],
            )
        )
        position += size
    return rows


def find_batch(buffer: Buffer, position: int, end: int, offset: int) -> tuple[bool, int]:
    """The first batch that ends at `offset` or later: (True, its position).

    Only headers are looked at, so bodies need not be there. (False, position) says where to read
    on: behind `end`, at a header that is not there in full, or at bytes that are no batch.
    """
    _check_range(buffer, position, end)
    while end - position >= _HEADER_BYTES and buffer[position + 16] == 2:
        size = _int32(buffer, position + 8) + 12
        if size < _HEADER_BYTES:
            break
        if _int64(buffer, position) + _int32(buffer, position + 23) >= offset:
            return True, position
        position += size
    return False, position


def intact_end(buffer: Buffer, view: memoryview, position: int, end: int) -> int:
    """Where the batches stop being whole with a right checksum: what recovery may keep.

    `buffer` and `view` are the same bytes: one to read numbers from, one to cut out of.
    """
    _check_range(buffer, position, end)
    while end - position >= _HEADER_BYTES and buffer[position + 16] == 2:
        size = _int32(buffer, position + 8) + 12
        if size < _HEADER_BYTES or size > end - position:
            break
        checksum = _int32(buffer, position + 17) & 0xFFFFFFFF
        if crc32c(view[position + 21 : position + size]) != checksum:
            break
        position += size
    return position


def _int32(buffer: Buffer, position: int) -> int:
    value = buffer[position]
    value = value << 8 | buffer[position + 1]
    value = value << 8 | buffer[position + 2]
    value = value << 8 | buffer[position + 3]
    return value - 0x100000000 if value > 0x7FFFFFFF else value


def _int64(buffer: Buffer, position: int) -> int:
    return _int32(buffer, position) * 0x100000000 + (_int32(buffer, position + 4) & 0xFFFFFFFF)
