"""Checking batches that another replica stamped, before they go into the log as they are."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.model.errors import ApiError, Error
from moldau.records.batch import CRC_START, MAGIC_V2, BatchHeader, Buffer, whole_headers
from moldau.records.checksum import crc32c


def checked_batches(records: Buffer, offset_next: int) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Every whole batch and its header; raises before the first that must not be stored."""
    view = memoryview(records)
    for position, header in whole_headers(view):
        batch = view[position : position + header.size_bytes]
        if header.magic != MAGIC_V2 or crc32c(batch[CRC_START:]) != header.crc:
            raise ApiError(
                Error.CORRUPT_MESSAGE, f"the batch for offset {header.base_offset} is damaged"
            )
        if header.base_offset < offset_next:
            raise ApiError(
                Error.OFFSET_OUT_OF_RANGE,
                f"the batch for offset {header.base_offset} comes after offset {offset_next - 1}",
            )
        offset_next = header.offset_end
        yield batch, header
