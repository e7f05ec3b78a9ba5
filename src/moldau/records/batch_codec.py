"""Records to batches and back, for those who make or read records: clients, coordinators, tests.

The broker's hot path does not come here: it passes batches on as bytes. What this writes, the
broker's own validation accepts; what is broken is refused as CORRUPT_MESSAGE.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.records import batch_kernel
from moldau.records.batch import (
    CONTROL_FLAG,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    read_header,
    write_header,
)
from moldau.records.checksum import crc32c
from moldau.records.compression import Codec, compress, decompress

DECOMPRESSED_BYTES_MAX = 1 << 30
"""What a reader takes from one batch at most; brokers hold producers to far less."""

_CRC = struct.Struct(">I")
_CONTROL_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")


class Record(NamedTuple):
    offset: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: batch_kernel.Headers = ()


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1


class EndMarker(NamedTuple):
    """The control record that ends a transaction in one partition."""

    kind: ControlType
    coordinator_epoch: int


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
    log_append_time_ms: int | None = None,
    keep_offsets: bool = False,
) -> bytes:
    """One batch. Records are numbered from `base_offset` unless they are to keep their offsets."""
    rows = list(records)
    base_timestamp = rows[0].timestamp if rows else NO_TIMESTAMP
    max_timestamp = max((row.timestamp for row in rows), default=NO_TIMESTAMP)
    if keep_offsets:
        offset_deltas: Sequence[int] = [row.offset - base_offset for row in rows]
    else:
        offset_deltas = range(len(rows))
    body = batch_kernel.write_records(rows, base_timestamp, offset_deltas)
    payload = compress(codec, body, level)
    attributes = int(codec)
    if transactional:
        attributes |= TRANSACTIONAL_FLAG
    if control:
        attributes |= CONTROL_FLAG
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_FLAG
        max_timestamp = log_append_time_ms
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload),
        leader_epoch=leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=attributes,
        last_offset_delta=offset_deltas[-1] if rows else 0,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(rows),
    )
    return bytes(assemble(header, payload))


def assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    """The batch of this header and body, with length and checksum made to fit."""
    batch = bytearray(HEADER_BYTES + len(payload))
    batch[HEADER_BYTES:] = payload
    length = len(batch) - LOG_OVERHEAD_BYTES
    write_header(batch, 0, header._replace(batch_length=length))
    write_checksum(batch)
    return batch


def write_checksum(batch: bytearray | memoryview) -> None:
    """To be called when something from the attributes on has changed."""
    _CRC.pack_into(batch, CRC_START - _CRC.size, crc32c(memoryview(batch)[CRC_START:]))


def decode_batch(
    buffer: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """The records of the batch at `position`, checksum and structure checked."""
    header, batch = _cut_batch(buffer, position)
    if crc32c(batch[CRC_START:]) != header.crc:
        raise _corrupt(header, "its checksum is wrong")
    body = bytes(decompress(header.codec, batch[HEADER_BYTES:], limit_bytes))
    rows, fault_index = batch_kernel.read_records(
        body, body, header.base_offset, header.base_timestamp, header.record_count
    )
    if fault_index >= 0:
        raise _corrupt(header, f"record {fault_index} is broken")
    if header.has_log_append_time:
        stamp = header.max_timestamp
        return [Record(row[0], stamp, row[2], row[3], row[4]) for row in rows]
    return [Record._make(row) for row in rows]


def encode_marker(
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    record = Record(
        timestamp=timestamp,
        key=_CONTROL_KEY.pack(0, marker.kind),
        value=_MARKER_VALUE.pack(0, marker.coordinator_epoch),
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )


def decode_marker(record: Record) -> EndMarker | None:
    """None for control records of other kinds, which readers pass over."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _CONTROL_KEY.size:
        raise ApiError(
            Error.CORRUPT_MESSAGE, f"the control record at offset {record.offset} has no type"
        )
    kind = _CONTROL_KEY.unpack_from(key)[1]
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if len(value) < _MARKER_VALUE.size:
        raise ApiError(
            Error.CORRUPT_MESSAGE, f"the end marker at offset {record.offset} has no epoch"
        )
    # Versions after 0 only add fields at the end.
    return EndMarker(ControlType(kind), _MARKER_VALUE.unpack_from(value)[1])


def find_timestamp(
    buffer: Buffer, position: int, timestamp: int, offset_start: int = 0
) -> tuple[int, int] | None:
    """(timestamp, offset) of the batch's first record from both on, without making them all."""
    header, batch = _cut_batch(buffer, position)
    least = max(offset_start - header.base_offset, 0)
    if header.has_log_append_time:
        # All its records carry the same time.
        if header.max_timestamp < timestamp or least > header.last_offset_delta:
            return None
        return header.max_timestamp, header.base_offset + least
    delta_least = timestamp - header.base_timestamp
    if delta_least > batch_kernel.DELTA_HIGHEST or least > header.last_offset_delta:
        return None
    body = decompress(header.codec, batch[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
    offset_delta, delta = batch_kernel.find_record(
        body, 0, len(body), max(delta_least, -batch_kernel.DELTA_HIGHEST), least
    )
    if offset_delta < 0:
        return None
    return header.base_timestamp + delta, header.base_offset + offset_delta


def _cut_batch(buffer: Buffer, position: int) -> tuple[BatchHeader, memoryview]:
    batch = memoryview(buffer)[position:]
    if len(batch) < HEADER_BYTES:
        raise ApiError(Error.CORRUPT_MESSAGE, f"a batch header cannot be {len(batch)} bytes")
    header = read_header(batch)
    if header.magic != MAGIC_V2:
        raise _corrupt(header, f"its format is {header.magic}, not {MAGIC_V2}")
    if not HEADER_BYTES <= header.size_bytes <= len(batch):
        raise _corrupt(header, f"its size of {header.size_bytes} bytes does not fit")
    return header, batch[: header.size_bytes]


def _corrupt(header: BatchHeader, reason: str) -> ApiError:
    return ApiError(
        Error.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt: {reason}"
    )
