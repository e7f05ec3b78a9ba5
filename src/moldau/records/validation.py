"""What a broker checks before it takes a batch from a producer, with Kafka's own answers.

`validate_produce` is the one way in. An uncompressed batch is neither copied nor looked at in
Python record by record: one checksum, one walk by the kernel. What comes out may be appended
after its offset and epoch have been stamped.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from crc32c import crc32c

from moldau.model.errors import ApiError, Error
from moldau.records import kernel
from moldau.records.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
    read_overhead,
)
from moldau.records.codec import assemble, write_checksum
from moldau.records.compression import Codec, compress, decompress

TIMESTAMP_LIMIT_NONE = 0x7FFFFFFFFFFFFFFF
DECOMPRESSED_BYTES_FLOOR = 64 * 1024 * 1024
DECOMPRESSED_TIMES = 16
"""A compressed batch may hold the larger of the two: 64 MiB, 16 times `max.message.bytes`."""
RECORD_ERRORS_MAX = 1000
"""A client is told about so many bad records of one batch; more would only swell the answer."""

_LEGACY_OVERHEAD_BYTES = 14
_ATTRIBUTES_AND_MAX_TIMESTAMP = (struct.Struct(">h"), struct.Struct(">q"))
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35

RecordError = tuple[int, str]
"""Index of the record in its batch, and what is wrong with it."""


class RecordsRefused(ApiError):
    """A batch that is not stored; `record_errors` names records where single ones are at fault."""

    def __init__(
        self, error: Error, message: str, record_errors: Sequence[RecordError] = ()
    ) -> None:
        super().__init__(error, message)
        self.record_errors = list(record_errors)


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """What a topic's settings and the request's version ask of a batch."""

    max_message_bytes: int = 1048588
    log_append_time: bool = False
    before_max_ms: int = TIMESTAMP_LIMIT_NONE
    after_max_ms: int = 3600000
    compression: Codec | Literal["producer"] = "producer"
    level: int | None = None
    keys_required: bool = False
    zstd_allowed: bool = True
    """Produce requests before version 7 come from clients that could not read zstd back."""

    @property
    def decompressed_bytes_max(self) -> int:
        return max(DECOMPRESSED_BYTES_FLOOR, DECOMPRESSED_TIMES * self.max_message_bytes)


class ProducedBatch(NamedTuple):
    records: memoryview
    header: BatchHeader
    max_timestamp: int
    offset_delta_of_max_timestamp: int
    """-1 if no record carries a timestamp."""
    log_append_time_ms: int
    """-1 unless the topic stamps records when they arrive."""


class _Walk(NamedTuple):
    fault: int
    record_index: int
    delta_min: int
    delta_max: int
    index_of_max: int
    null_keys: int


def validate_produce(records: memoryview, rules: ProduceRules, now_ms: int) -> ProducedBatch:
    """The batch, made fit for the log in place where something had to change; or a refusal."""
    header = _frame(records, rules)
    if len(records) > header.size_bytes:
        records = records[: header.size_bytes]
    _check_batch(records, header, rules)
    codec = header.attributes & CODEC_MASK
    target = codec if rules.compression == "producer" else rules.compression
    if codec == Codec.NONE:
        body, start = records, HEADER_BYTES
    else:
        body, start = _decompressed(records, codec, rules), 0
    walk = _Walk._make(
        kernel.walk_records(
            body, start, len(body), header.record_count, NO_TIMESTAMP - header.base_timestamp
        )
    )
    if walk.fault:
        raise RecordsRefused(
            Error.INVALID_RECORD,
            f"record {walk.record_index} is broken: {kernel.FAULTS[walk.fault]}",
        )
    _check_records(body, start, header, walk, rules, now_ms)
    if target != codec:
        records, header = _recompressed(memoryview(body)[start:], header, target, rules)
    if rules.log_append_time:
        header = _rewrite_time(records, header, header.attributes | LOG_APPEND_TIME_FLAG, now_ms)
        return ProducedBatch(records, header, now_ms, header.last_offset_delta, now_ms)
    max_timestamp = max(header.base_timestamp + walk.delta_max, NO_TIMESTAMP)
    if max_timestamp != header.max_timestamp:
        header = _rewrite_time(records, header, header.attributes, max_timestamp)
    index_of_max = walk.index_of_max if max_timestamp > NO_TIMESTAMP else -1
    return ProducedBatch(records, header, max_timestamp, index_of_max, NO_TIMESTAMP)


def _frame(records: memoryview, rules: ProduceRules) -> BatchHeader:
    """The header of the one whole batch that must be there."""
    if _whole_batch_bytes(records) == 0:
        raise RecordsRefused(Error.INVALID_RECORD, "there must be one record batch per partition")
    if records[MAGIC_POSITION] != MAGIC_V2:
        raise RecordsRefused(
            Error.INVALID_RECORD,
            f"record batches must be of format {MAGIC_V2}, not {records[MAGIC_POSITION]}",
        )
    if len(records) < HEADER_BYTES:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE,
            f"a batch cannot be {len(records)} bytes; its header is {HEADER_BYTES}",
        )
    header = read_header(records)
    if header.codec == Codec.ZSTD and not rules.zstd_allowed:
        raise RecordsRefused(
            Error.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce requests of version 7 or later"
        )
    if len(records) > header.size_bytes and _whole_batch_bytes(records[header.size_bytes :]):
        raise RecordsRefused(
            Error.INVALID_RECORD, "there must be exactly one record batch per partition"
        )
    return header


def _whole_batch_bytes(records: memoryview) -> int:
    """Size of the batch at the start, of any format; 0 if none is there in full."""
    if len(records) <= MAGIC_POSITION:
        return 0
    size_bytes = read_overhead(records)[1]
    if size_bytes < LOG_OVERHEAD_BYTES + _LEGACY_OVERHEAD_BYTES:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE,
            f"a batch length of {size_bytes - LOG_OVERHEAD_BYTES} is less than the least,"
            f" {_LEGACY_OVERHEAD_BYTES}",
        )
    if records[MAGIC_POSITION] > MAGIC_V2:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE, f"record batch format {records[MAGIC_POSITION]} is unknown"
        )
    return size_bytes if size_bytes <= len(records) else 0


def _check_batch(records: memoryview, header: BatchHeader, rules: ProduceRules) -> None:
    """What the header alone says, in Kafka's order."""
    if header.base_offset != 0:
        fault = f"the base offset must be 0, not {header.base_offset}"
    elif len(records) > rules.max_message_bytes:
        raise RecordsRefused(
            Error.MESSAGE_TOO_LARGE,
            f"the batch is {len(records)} bytes; max.message.bytes is {rules.max_message_bytes}",
        )
    elif len(records) < HEADER_BYTES or crc32c(records[CRC_START:]) != header.crc:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE, f"the batch does not have its checksum of {header.crc}"
        )
    elif header.record_count <= 0:
        fault = f"a batch cannot have {header.record_count} records"
    elif header.last_offset_delta != header.record_count - 1:
        fault = (
            f"a last offset delta of {header.last_offset_delta} does not fit"
            f" {header.record_count} records"
        )
    elif header.is_control:
        fault = "clients may not write control records"
    elif header.producer_id < NO_PRODUCER_ID:
        fault = f"{header.producer_id} is no producer id"
    elif header.has_producer and header.base_sequence < 0:
        fault = f"producer {header.producer_id} sent the sequence number {header.base_sequence}"
    elif header.is_transactional and not header.has_producer:
        fault = "a transactional batch needs a producer id"
    else:
        return
    raise RecordsRefused(Error.INVALID_RECORD, fault)


def _decompressed(records: memoryview, codec: int, rules: ProduceRules) -> memoryview:
    try:
        body = decompress(codec, records[HEADER_BYTES:], rules.decompressed_bytes_max)
    except ApiError as refusal:
        # The checksum was right: sending the same bytes again, which clients do after
        # CORRUPT_MESSAGE, would not help.
        corrupt = refusal.error == Error.CORRUPT_MESSAGE
        error = Error.INVALID_RECORD if corrupt else refusal.error
        raise RecordsRefused(error, refusal.message) from None
    return memoryview(body)


def _check_records(
    body: memoryview,
    start: int,
    header: BatchHeader,
    walk: _Walk,
    rules: ProduceRules,
    now_ms: int,
) -> None:
    """Keys and timestamps; the walk says whether all is well, else each record is looked at."""
    keys_missing = rules.keys_required and walk.null_keys > 0
    if rules.log_append_time:
        times_wrong = header.has_log_append_time
    else:
        earliest = header.base_timestamp + walk.delta_min
        latest = header.base_timestamp + walk.delta_max
        times_wrong = (
            header.has_log_append_time
            or latest - now_ms > rules.after_max_ms
            or (walk.delta_min != kernel.DELTA_HIGHEST and now_ms - earliest > rules.before_max_ms)
        )
    if keys_missing or times_wrong:
        raise _refusal_by_record(bytes(body[start:]), header, rules, now_ms)


def _refusal_by_record(
    body: bytes, header: BatchHeader, rules: ProduceRules, now_ms: int
) -> RecordsRefused:
    rows, _ = kernel.read_records(body, body, 0, header.base_timestamp, header.record_count)
    errors: list[RecordError] = []
    error = Error.INVALID_RECORD
    for index, (_, timestamp, key, _, _) in enumerate(rows):
        if rules.keys_required and key is None:
            errors.append((index, "a compacted topic takes no records without a key"))
        elif fault := _timestamp_fault(timestamp, header, rules, now_ms):
            errors.append((index, fault))
            error = Error.INVALID_TIMESTAMP
    message = (
        f"{len(errors)} of {header.record_count} records were refused; the first: {errors[0][1]}"
    )
    return RecordsRefused(error, message, errors[:RECORD_ERRORS_MAX])


def _timestamp_fault(
    timestamp: int, header: BatchHeader, rules: ProduceRules, now_ms: int
) -> str | None:
    if header.has_log_append_time:
        return "a producer may not mark its timestamps as log append time"
    if rules.log_append_time or timestamp == NO_TIMESTAMP:
        return None
    if timestamp - now_ms > rules.after_max_ms or now_ms - timestamp > rules.before_max_ms:
        earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
        return f"timestamp {timestamp} is out of range: it should be within [{earliest}, {latest}]"
    return None


def _recompressed(
    body: memoryview, header: BatchHeader, target: int, rules: ProduceRules
) -> tuple[memoryview, BatchHeader]:
    attributes = header.attributes & ~CODEC_MASK | target
    payload = compress(target, body, rules.level)
    batch = assemble(header._replace(attributes=attributes), payload)
    if len(batch) > rules.max_message_bytes:
        raise RecordsRefused(
            Error.MESSAGE_TOO_LARGE,
            f"the batch is {len(batch)} bytes in the topic's compression;"
            f" max.message.bytes is {rules.max_message_bytes}",
        )
    return memoryview(batch), read_header(batch)


def _rewrite_time(
    records: memoryview, header: BatchHeader, attributes: int, max_timestamp: int
) -> BatchHeader:
    attributes_field, timestamp_field = _ATTRIBUTES_AND_MAX_TIMESTAMP
    attributes_field.pack_into(records, _ATTRIBUTES_POSITION, attributes)
    timestamp_field.pack_into(records, _MAX_TIMESTAMP_POSITION, max_timestamp)
    write_checksum(records)
    return read_header(records)
