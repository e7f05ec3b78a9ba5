"""Of a partition's batches those that readers of committed records see: without markers and without
what was aborted; and such a batch as a producer sends it."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from moldau.records import batch_kernel
from moldau.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    whole_headers,
)
from moldau.records.batch_codec import ControlType, assemble, decode_batch, decode_marker
from moldau.records.checksum import crc32c
from moldau.records.compression import compress, decompress

BODY_BYTES_MAX = 1 << 30


class AbortedRanges:
    """From a first reading: what was aborted, by producer."""

    def __init__(self, chunks: Iterable[Buffer]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        opened: dict[int, int] = {}
        for chunk in chunks:
            for position, header in whole_headers(chunk):
                if header.is_control:
                    first = opened.pop(header.producer_id, None)
                    if first is not None and _is_abort(chunk, position):
                        own = self._ranges.setdefault(header.producer_id, [])
                        own.append((first, header.base_offset))
                elif header.is_transactional:
                    opened.setdefault(header.producer_id, header.base_offset)

    def has(self, header: BatchHeader) -> bool:
        own = self._ranges.get(header.producer_id) if header.is_transactional else None
        if own is None:
            return False
        index = bisect.bisect_right(own, (header.base_offset, 1 << 63)) - 1
        return index >= 0 and own[index][0] <= header.base_offset < own[index][1]


def _is_abort(chunk: Buffer, position: int) -> bool:
    records = decode_batch(chunk, position)
    marker = decode_marker(records[0]) if records else None
    return marker is not None and marker.kind is ControlType.ABORT


def committed(
    chunks: Iterable[Buffer], aborted: AbortedRanges
) -> Iterator[tuple[memoryview, BatchHeader]]:
    for chunk in chunks:
        view = memoryview(chunk)
        for position, header in whole_headers(view):
            is_seen = not header.is_control and not aborted.has(header)
            if is_seen and header.record_count:
                yield view[position : position + header.size_bytes], header


def offsets_of(batch: memoryview, header: BatchHeader) -> list[tuple[int, int]]:
    """Its records' offsets, as (first, how many in a row)."""
    if header.record_count == header.last_offset_delta + 1:
        return [(header.base_offset, header.record_count)]
    runs: list[tuple[int, int]] = []
    for record in decode_batch(batch):
        if runs and sum(runs[-1]) == record.offset:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((record.offset, 1))
    return runs


def as_produced(
    batch: memoryview, header: BatchHeader, producer_id: int, epoch: int, sequence: int
) -> bytes:
    """With another producer, outside of transactions. Records keep their times, and stand without
    gaps: a broker takes no others from a producer."""
    body: Buffer = batch[HEADER_BYTES:]
    times = header.base_timestamp, header.max_timestamp
    if header.has_log_append_time or header.record_count != header.last_offset_delta + 1:
        rows = decode_batch(batch)
        times = rows[0].timestamp, max(row.timestamp for row in rows)
        plain = batch_kernel.write_records(rows, times[0], range(len(rows)))
        body = compress(header.codec, plain)
    changed = header._replace(
        base_offset=0,
        leader_epoch=NO_LEADER_EPOCH,
        attributes=header.attributes & ~(TRANSACTIONAL_FLAG | LOG_APPEND_TIME_FLAG) & 0x3F,
        last_offset_delta=header.record_count - 1,
        base_timestamp=times[0],
        max_timestamp=times[1],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return bytes(assemble(changed, body))


class RecordSum:
    """What records are, whatever batches they are in: keys, values, headers and times."""

    def __init__(self) -> None:
        self.records = 0
        self.value = 0

    def take(self, batch: Buffer, header: BatchHeader) -> None:
        """As they are in one batch; batches are not split or joined on their way."""
        body = decompress(header.codec, memoryview(batch)[HEADER_BYTES:], BODY_BYTES_MAX)
        own = f"{self.value} {header.base_timestamp} {header.record_count} {crc32c(body)}"
        self.value = crc32c(own.encode())
        self.records += header.record_count

    def __str__(self) -> str:
        return f"{self.records} records, sum {self.value:08x}"
