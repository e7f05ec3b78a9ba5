"""What compaction does with every record, compiled: note keys in a table, judge, copy what stays.

The table is flat memory of three 64-bit numbers a slot: the key's MD5 in two halves, and its newest
offset plus one, so that 0 means free. `compaction_kernel.pxd` gives the C types and lets go of the
interpreter's lock; without a compiler the same code runs as plain Python. Positions are checked
against `end` whatever the bytes say.
"""

from __future__ import annotations

import struct
from typing import Any

from moldau.records.batch import Buffer

COMPILED = not __file__.endswith(".py")

SLOT_BYTES = 24
GROWTH_BYTES_MAX = 20
"""What a copied record may need more than the original: a longer timestamp, a longer size."""

_HALVES = struct.Struct("<QQ")


def note_keys(
    table: Any,
    buffer: Buffer,
    span: tuple[int, int],
    count: int,
    base_offset: int,
    offset_start: int,
    room: int,
) -> tuple[int, int]:
    """Note key and offset of the records of a batch's body, from `offset_start` on.

    Returns (keys that were new, records passed): fewer than `count` once `room` new keys are used
    up, and (-1, index) for a record that is broken.
    """
    _check(table, buffer, span)
    answer: tuple[int, int] = _note_unlocked(  # type: ignore[name-defined]  # noqa: F821
        table, buffer, span, count, (base_offset, offset_start), room
    )
    return answer


def judge_records(
    table: Any,
    keep: bytearray,
    buffer: Buffer,
    span: tuple[int, int],
    base_offset: int,
    offset_latest: int,
    tombstones_stay: bool,
) -> tuple[int, int, int, int, int]:
    """Set keep[i] for each of the batch's len(keep) records that compaction must keep.

    That is: everything after `offset_latest`, and before it the newest of each key, tombstones only
    if they stay; a record without a key goes. Returns (index of a broken record or -1, how many
    stay, how many of those are tombstones, timestamp delta of the first, greatest delta).
    """
    _check(table, buffer, span)
    answer: tuple[int, int, int, int, int] = _judge_unlocked(  # type: ignore[name-defined]  # noqa: F821
        table, keep, buffer, span, (base_offset, offset_latest), tombstones_stay
    )
    return answer


def copy_kept(
    out: bytearray,
    at: int,
    keep: bytearray,
    buffer: Buffer,
    span: tuple[int, int],
    shift: int,
    fixed: bool,
) -> int:
    """Copy the records that `judge_records` has let stay to out[at:], with every timestamp delta
    moved by `shift`, or set to it if `fixed`; the end of what was written."""
    if span[0] < 0 or span[1] > len(buffer):
        raise IndexError(f"{span[0]} to {span[1]} is not inside {len(buffer)} bytes")
    if len(out) - at < span[1] - span[0] + GROWTH_BYTES_MAX * len(keep):
        raise IndexError(f"{len(out) - at} bytes are not enough for {len(keep)} records")
    written: int = _copy_unlocked(  # type: ignore[name-defined]  # noqa: F821
        out, at, keep, buffer, span, (shift, fixed)
    )
    return written


def newest_offset(table: Any, key: bytes) -> int:
    """The offset noted for the key; -1 if there is none."""
    high, low = _digest(key, 0, len(key))  # type: ignore[name-defined]  # noqa: F821
    slot = _find(table, high, low)
    offset: int = table[slot + 2]
    return offset - 1


def _check(table: Any, buffer: Buffer, span: tuple[int, int]) -> None:
    """Everything below trusts these, and compiled code would read what is not there."""
    if len(table) < 3:
        raise IndexError("the table has no slot")
    if span[0] < 0 or span[1] > len(buffer):
        raise IndexError(f"{span[0]} to {span[1]} is not inside {len(buffer)} bytes")


def _varint(buffer: Buffer, position: int, end: int, shift_last: int) -> tuple[int, int]:
    """A zigzag number and the position behind it, which is -1 if it is torn. Reading at -1 fails
    again, so callers check once."""
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


def _put_varint(out: Any, at: int, value: int) -> int:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out[at] = zigzag & 0x7F | 0x80
        zigzag >>= 7
        at += 1
    out[at] = zigzag
    return at + 1


def _find(table: Any, high: int, low: int) -> int:
    """Where the key is in the table, or where it would go. Some slot is always free."""
    length = len(table)
    slot = high % (length // 3) * 3
    while table[slot + 2] != 0 and (table[slot] != high or table[slot + 1] != low):
        slot += 3
        if slot + 3 > length:
            slot = 0
    return slot


def _note(
    table: Any,
    buffer: Buffer,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    offset_start: int,
    room: int,
) -> tuple[int, int]:
    added = 0
    index = 0
    while index < count:
        size, position = _varint(buffer, position, end, 28)
        if position < 0 or size < 1 or size > end - position:
            return -1, index
        record_end = position + size
        _, position = _varint(buffer, position + 1, record_end, 63)
        delta, position = _varint(buffer, position, record_end, 28)
        size, position = _varint(buffer, position, record_end, 28)
        if position < 0 or delta < 0 or size > record_end - position:
            return -1, index
        if size >= 0 and base_offset + delta >= offset_start:
            if added >= room:
                return added, index
            high, low = _digest(buffer, position, size)  # type: ignore[name-defined]  # noqa: F821
            slot = _find(table, high, low)
            if table[slot + 2] == 0:
                table[slot] = high
                table[slot + 1] = low
                added += 1
            table[slot + 2] = base_offset + delta + 1
        position = record_end
        index += 1
    return added, index


def _judge(
    table: Any,
    keep: Any,
    buffer: Buffer,
    position: int,
    end: int,
    base_offset: int,
    offset_latest: int,
    tombstones_stay: bool,
) -> tuple[int, int, int, int, int]:
    kept = 0
    tombstones = 0
    delta_first = 0
    delta_max = 0
    index = 0
    count = len(keep)
    while index < count:
        size, position = _varint(buffer, position, end, 28)
        if position < 0 or size < 1 or size > end - position:
            return index, kept, tombstones, delta_first, delta_max
        record_end = position + size
        time_delta, position = _varint(buffer, position + 1, record_end, 63)
        delta, position = _varint(buffer, position, record_end, 28)
        key_size, position = _varint(buffer, position, record_end, 28)
        if position < 0 or delta < 0 or key_size > record_end - position:
            return index, kept, tombstones, delta_first, delta_max
        key_start = position
        if key_size > 0:
            position += key_size
        size, position = _varint(buffer, position, record_end, 28)
        if position < 0:
            return index, kept, tombstones, delta_first, delta_max
        stays = base_offset + delta > offset_latest
        if not stays and key_size >= 0 and (size >= 0 or tombstones_stay):
            high, low = _digest(buffer, key_start, key_size)  # type: ignore[name-defined]  # noqa: F821
            slot = _find(table, high, low)
            stays = base_offset + delta + 1 >= table[slot + 2]
        keep[index] = stays
        if stays:
            if kept == 0 or time_delta > delta_max:
                delta_max = time_delta
            if kept == 0:
                delta_first = time_delta
            kept += 1
            if size < 0:
                tombstones += 1
        position = record_end
        index += 1
    return -1, kept, tombstones, delta_first, delta_max


def _copy_records(
    out: Any, at: int, keep: Any, buffer: Buffer, position: int, end: int, shift: int, fixed: bool
) -> int:
    index = 0
    count = len(keep)
    while index < count:
        size, position = _varint(buffer, position, end, 28)
        if position < 0 or size < 1 or size > end - position:
            return -1
        record_end = position + size
        if keep[index]:
            delta, rest = _varint(buffer, position + 1, record_end, 63)
            if rest < 0:
                return -1
            time_at = at + 11
            # The size comes first and depends on the timestamp: measure that where nothing is yet.
            time_bytes = _put_varint(out, time_at, shift if fixed else delta + shift) - time_at
            at = _put_varint(out, at, 1 + time_bytes + record_end - rest)
            out[at] = buffer[position]
            at = _put_varint(out, at + 1, shift if fixed else delta + shift)
            _copy(out, at, buffer, rest, record_end - rest)  # type: ignore[name-defined]  # noqa: F821
            at += record_end - rest
        position = record_end
        index += 1
    return at


def _digest_slowly(buffer: Buffer, start: int, size: int) -> tuple[int, int]:
    import hashlib  # costs a start of the broker milliseconds, and compiled it is not needed

    digest = hashlib.md5(buffer[start : start + size], usedforsecurity=False).digest()
    high, low = _HALVES.unpack(digest)
    return high, low


def _copy_slice(out: Any, at: int, buffer: Buffer, start: int, size: int) -> None:
    out[at : at + size] = buffer[start : start + size]


def _note_locked(
    table: Any,
    buffer: Buffer,
    span: tuple[int, int],
    count: int,
    offsets: tuple[int, int],
    room: int,
) -> tuple[int, int]:
    return _note(table, buffer, span[0], span[1], count, offsets[0], offsets[1], room)


def _judge_locked(
    table: Any,
    keep: bytearray,
    buffer: Buffer,
    span: tuple[int, int],
    offsets: tuple[int, int],
    tombstones_stay: bool,
) -> tuple[int, int, int, int, int]:
    return _judge(table, keep, buffer, span[0], span[1], offsets[0], offsets[1], tombstones_stay)


def _copy_locked(
    out: bytearray,
    at: int,
    keep: bytearray,
    buffer: Buffer,
    span: tuple[int, int],
    times: tuple[int, bool],
) -> int:
    return _copy_records(out, at, keep, buffer, span[0], span[1], times[0], times[1])


# The C versions stand in the .pxd.
globals().setdefault("_digest", _digest_slowly)
globals().setdefault("_copy", _copy_slice)
globals().setdefault("_note_unlocked", _note_locked)
globals().setdefault("_judge_unlocked", _judge_locked)
globals().setdefault("_copy_unlocked", _copy_locked)
