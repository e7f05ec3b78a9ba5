"""Runs of batches for columns: opened, measured and added many at a time: the compiled part.

Brokers hold many small batches, and one call of Python for each would cost more than its records.
`batch_runs.pxd` beside this file gives the C types; without a compiler it runs as plain Python.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

from moldau.records.batch import CODEC_MASK, CRC_START, HEADER_BYTES, LOG_APPEND_TIME_FLAG, Buffer
from moldau.records.batch_kernel import BatchRow
from moldau.records.checksum import crc32c
from moldau.records.column_decoding import Columns, Measure, measure_records

COMPILED = not __file__.endswith(".py")
"""False where no C compiler was at hand when Moldau was installed."""

Part = tuple[int, int, int, int, int, int]
"""A batch of a run: position and end of its records in the run's bytes, base offset, base
timestamp, count, and the timestamp of all records or -1."""

_REST = struct.Struct(">I6xq22xi")
"""A batch's checksum, base timestamp and count, from byte 17 on."""


def open_batches(
    view: memoryview, batches: list[BatchRow], count: int, size_max: int, check_crcs: bool
) -> tuple[list[Part], int, BatchRow | None]:
    """Take batches that are not compressed off the end of `batches`.

    As many as hold `count` records or `size_max` bytes; one with a wrong checksum stays where it
    is and ends the run. Returns the run, the number of its records and the batch taken last.
    """
    parts: list[Part] = []
    records = size_bytes = 0
    taken = None
    while batches and records < count and size_bytes < size_max:
        batch = batches[len(batches) - 1]
        position, size, base_offset, _, stamp, _, _, attributes = batch
        if attributes & CODEC_MASK:
            break
        checksum, base_timestamp, record_count = _REST.unpack_from(view, position + 17)
        end = position + size
        if check_crcs and crc32c(view[position + CRC_START : end]) != checksum:
            break
        if not attributes & LOG_APPEND_TIME_FLAG:
            stamp = -1
        start = position + HEADER_BYTES
        parts.append((start, end, base_offset, base_timestamp, record_count, stamp))
        records += record_count
        size_bytes += size
        taken = batches.pop()
    return parts, records, taken


def measure_run(
    buffer: Buffer, parts: Sequence[Part], offset_first: int
) -> tuple[Measure, Part | None]:
    """How much the records of a run hold from an offset on; and a broken batch, if there is one.

    The first number is then the index of the broken record.
    """
    rows = key_bytes = value_bytes = headers = header_key_bytes = header_value_bytes = 0
    for part in parts:
        start, end, base_offset, _, count, _ = part
        measure = measure_records(buffer, start, end, count, max(offset_first - base_offset, 0))
        if measure[0] >= 0:
            return measure, part
        rows += measure[1]
        key_bytes += measure[2]
        value_bytes += measure[3]
        headers += measure[4]
        header_key_bytes += measure[5]
        header_value_bytes += measure[6]
    sums = (rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes)
    return (-1, *sums), None


def add_run(columns: Columns, buffer: Buffer, parts: Sequence[Part], offset_first: int) -> None:
    """Append a run that was measured."""
    for start, end, base_offset, base_timestamp, count, stamp in parts:
        known = columns.rows
        delta_first = max(offset_first - base_offset, 0)
        columns.add((buffer, start, end), count, delta_first, (base_offset, base_timestamp))
        if stamp >= 0:
            # The broker's time holds for the whole batch.
            stamps = memoryview(array("q", [stamp]) * (columns.rows - known))
            memoryview(columns.timestamps)[known : columns.rows] = stamps
