"""Checking batches that another replica stamped, before they go into the log as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.model.errors import ApiError, Error
from moldau.records.batch import (
    CRC_START,
    HEADER_BYTES,
    MAGIC_V2,
    BatchHeader,
    Buffer,
    read_header,
    read_overhead,
)
from moldau.records.checksum import crc32c
from moldau.records.old_formats.old_messages import OLD_BYTES_MIN
from moldau.records.old_formats.up_conversion import is_old

if TYPE_CHECKING:
    from moldau.storage.log.partition_log import PartitionLog


def checked_batches(records: Buffer, offset_next: int) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Every whole batch and its header; raises before the first that must not be stored."""
    view = memoryview(records)
    while len(view) >= OLD_BYTES_MIN:
        base_offset, size = read_overhead(view)
        if is_old(view):
            from moldau.storage.log.old_message_offsets import checked_header

            if size > len(view):
                return
            header = checked_header(view[:size])
        else:
            if not HEADER_BYTES <= size <= len(view):
                return
            header = read_header(view)
            if header.magic != MAGIC_V2 or crc32c(view[CRC_START:size]) != header.crc:
                raise ApiError(
                    Error.CORRUPT_MESSAGE, f"the batch for offset {base_offset} is damaged"
                )
        if base_offset < offset_next:
            raise ApiError(
                Error.OFFSET_OUT_OF_RANGE,
                f"the batch for offset {base_offset} comes after offset {offset_next - 1}",
            )
        rest = view[size:]
        if base_offset > offset_next and len(rest) >= OLD_BYTES_MIN:
            # No checksum covers the offset. Compaction leaves gaps, but nothing before their end.
            following, _ = read_overhead(rest)
            if following < header.offset_end:
                raise ApiError(
                    Error.CORRUPT_MESSAGE,
                    f"the batch for offset {base_offset} is damaged: {following} comes after it",
                )
        offset_next = header.offset_end
        yield view[:size], header
        view = rest


def start_in_batch(log: PartitionLog, records: Buffer) -> None:
    """An empty log may be told to start in the middle of a batch: where the leader's records were
    deleted up to there. Batches are whole, so it starts with this one."""
    if is_old(records) or len(records) < HEADER_BYTES:
        return
    first = read_header(records)
    is_empty = log.log_start_offset == log.offset_end
    if is_empty and first.base_offset < log.offset_end <= first.last_offset:
        log.truncate_fully(first.base_offset)
