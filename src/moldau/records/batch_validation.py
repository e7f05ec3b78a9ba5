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

from moldau.model.errors import ApiError, Error
from moldau.records import batch_kernel
from moldau.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
    read_overhead,
)
from moldau.records.batch_codec import assemble, write_checksum
from moldau.records.checksum import crc32c
from moldau.records.compression import Codec, compress, decompress

TIMESTAMP_MAX = 0x7FFFFFFFFFFFFFFF
TIMESTAMP_MIN = -TIMESTAMP_MAX - 1
DECOMPRESSED_BYTES_FLOOR = 64 * 1024 * 1024
DECOMPRESSED_TIMES = 16
"""A compressed batch may hold the larger of the two: 64 MiB, 16 times `max.message.bytes`."""
INLINE_BYTES_MAX = 2 * 1024 * 1024
"""What is longer, or decompresses to more, is checked beside the event loop."""
COMPRESSED_INLINE_BYTES_MAX = 32 * 1024
"""So is what has to be compressed anew and is longer: the highest levels are slow."""
RECORD_ERRORS_MAX = 1000
"""A client is told about so many bad records of one batch; more would only swell the answer."""

ZSTD = int(Codec.ZSTD)
_NO_KEY = "a compacted topic takes no records without a key"
_LEGACY_OVERHEAD_BYTES = 14
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35

RecordError = tuple[int, str]
"""Index of the record in its batch, and what is wrong with it."""


CountedAs = Literal["", "invalid_checksums", "invalid_formats", "invalid_sequences", "keyless"]


class RecordsRefused(ApiError):
    """A batch that is not stored; `record_errors` names records where single ones are at fault."""

    def __init__(
        self,
        error: Error,
        message: str,
        record_errors: Sequence[RecordError] = (),
        counted_as: CountedAs = "",
    ) -> None:
        """`counted_as` is the cell of the topic that counts such batches."""
        super().__init__(error, message)
        self.record_errors = list(record_errors)
        self.counted_as = counted_as


class LongBatch(Exception):
    """It would take too long here; nothing has happened to it yet. Check it with `at_leisure`."""


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """What a topic's settings and the request's version ask of a batch."""

    max_message_bytes: int = 1048588
    log_append_time: bool = False
    before_max_ms: int = TIMESTAMP_MAX
    after_max_ms: int = 3600000
    compression: Codec | Literal["producer"] = "producer"
    level: int | None = None
    keys_required: bool = False
    zstd_allowed: bool = True
    """Produce requests before version 7 come from clients that could not read zstd back."""
    at_leisure: bool = True
    """False where everybody else waits for the check: then a long one raises LongBatch."""

    @property
    def decompressed_bytes_max(self) -> int:
        return max(DECOMPRESSED_BYTES_FLOOR, DECOMPRESSED_TIMES * self.max_message_bytes)


class ProducedBatch(NamedTuple):
    records: memoryview
    header: BatchHeader
    offset_delta_of_max_timestamp: int
    """-1 if no record carries a timestamp."""
    log_append_time_ms: int
    """-1 unless the topic stamps records when they arrive."""


def validate_produce(records: memoryview, rules: ProduceRules, now_ms: int) -> ProducedBatch:
    """The batch, made fit for the log in place where something had to change; or a refusal."""
    if len(records) < HEADER_BYTES or records[MAGIC_POSITION] != MAGIC_V2:
        raise _refusal_of_fragment(records)
    header = read_header(records)
    _, batch_length, _, _, _, attributes, _, base_timestamp, newest, _, _, _, count = header
    if batch_length != len(records) - LOG_OVERHEAD_BYTES:
        records = _only_batch(records)
    _check_batch(records, header, rules)
    codec = attributes & CODEC_MASK
    body, start = records, HEADER_BYTES
    if codec:
        body, start = _decompressed(records, codec, rules), 0
    fault, index, delta_min, delta_max, index_of_max, null_keys = batch_kernel.walk_records(
        body, start, len(body), count, NO_TIMESTAMP - base_timestamp
    )
    if fault:
        raise RecordsRefused(
            Error.INVALID_RECORD, f"record {index} is broken: {batch_kernel.FAULTS[fault]}"
        )
    if (null_keys and rules.keys_required) or (
        not rules.log_append_time
        and (
            base_timestamp + delta_max > min(now_ms + rules.after_max_ms, TIMESTAMP_MAX)
            or now_ms - base_timestamp - delta_min > rules.before_max_ms
        )
    ):
        raise _refusal_by_record(body, start, header, rules, now_ms)
    if rules.compression != "producer" and rules.compression != codec:
        records, header = _recompressed(body[start:], header, rules.compression, rules)
    if rules.log_append_time:
        header = _stamp_time(records, header.attributes | LOG_APPEND_TIME_FLAG, now_ms)
        return ProducedBatch(records, header, header.last_offset_delta, now_ms)
    max_timestamp = base_timestamp + delta_max
    if max_timestamp <= NO_TIMESTAMP:
        max_timestamp, index_of_max = NO_TIMESTAMP, -1
    if max_timestamp != newest:
        header = _stamp_time(records, attributes, max_timestamp)
    return ProducedBatch(records, header, index_of_max, NO_TIMESTAMP)


def _check_batch(records: memoryview, header: BatchHeader, rules: ProduceRules) -> None:
    """What the header alone says, in Kafka's order."""
    base_offset, _, _, _, crc, attributes, last_delta, _, _, producer_id, _, sequence, count = (
        header
    )
    has_producer = producer_id != NO_PRODUCER_ID
    if attributes & CODEC_MASK == ZSTD and not rules.zstd_allowed:
        raise RecordsRefused(
            Error.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce requests of version 7 or later"
        )
    if base_offset != 0:
        fault = f"the base offset must be 0, not {base_offset}"
    elif len(records) > rules.max_message_bytes:
        raise _too_large(len(records), rules)
    elif len(records) > INLINE_BYTES_MAX and not rules.at_leisure:
        raise LongBatch
    elif crc32c(records[CRC_START:]) != crc:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE,
            f"the batch does not have its checksum of {crc}",
            counted_as="invalid_checksums",
        )
    elif count <= 0:
        fault = f"a batch cannot have {count} records"
    elif last_delta != count - 1:
        fault = f"last offset delta {last_delta} is wrong for {count} records"
    elif attributes & CONTROL_FLAG:
        fault = "clients may not write control records"
    elif has_producer and (sequence < 0 or producer_id < 0):
        fault = f"producer {producer_id} sent the sequence number {sequence}"
    elif attributes & TRANSACTIONAL_FLAG and not has_producer:
        fault = "a transactional batch needs a producer id"
    elif attributes & LOG_APPEND_TIME_FLAG:
        raise RecordsRefused(
            Error.INVALID_TIMESTAMP, "a producer may not mark its timestamps as log append time"
        )
    else:
        return
    raise RecordsRefused(Error.INVALID_RECORD, fault, counted_as="invalid_sequences")


def _only_batch(records: memoryview) -> memoryview:
    """The batch without what stands behind it, which must not be another batch.

    Kafka drops a fragment behind the batch too: old clients were known to send one.
    """
    size_bytes = _whole_batch_bytes(records)
    if size_bytes < HEADER_BYTES:
        raise _refusal_of_fragment(records)
    if _whole_batch_bytes(records[size_bytes:]):
        raise RecordsRefused(
            Error.INVALID_RECORD, "there must be exactly one record batch per partition"
        )
    return records[:size_bytes]


def _refusal_of_fragment(records: memoryview) -> RecordsRefused:
    if _whole_batch_bytes(records) == 0:
        return RecordsRefused(
            Error.INVALID_RECORD, "there must be one whole record batch per partition"
        )
    magic = records[MAGIC_POSITION]
    if magic != MAGIC_V2:
        return RecordsRefused(
            Error.INVALID_RECORD,
            f"record batches must be of format {MAGIC_V2}, not {magic}",
            counted_as="invalid_formats",
        )
    return RecordsRefused(Error.CORRUPT_MESSAGE, f"a batch is at least {HEADER_BYTES} bytes")


def _whole_batch_bytes(records: memoryview) -> int:
    """Size of the batch at the start, of any format; 0 if none is there in full."""
    if len(records) <= MAGIC_POSITION:
        return 0
    size_bytes = read_overhead(records)[1]
    if size_bytes < LOG_OVERHEAD_BYTES + _LEGACY_OVERHEAD_BYTES:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE,
            f"batch length {size_bytes - LOG_OVERHEAD_BYTES} is below {_LEGACY_OVERHEAD_BYTES}",
        )
    if records[MAGIC_POSITION] > MAGIC_V2:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE,
            f"record batch format {records[MAGIC_POSITION]} is unknown",
            counted_as="invalid_formats",
        )
    return size_bytes if size_bytes <= len(records) else 0


def _decompressed(records: memoryview, codec: int, rules: ProduceRules) -> memoryview:
    try:
        return memoryview(decompress(codec, records[HEADER_BYTES:], output_bytes_max(rules)))
    except ApiError as refusal:
        raise not_opened(refusal, rules) from None


def output_bytes_max(rules: ProduceRules) -> int:
    return rules.decompressed_bytes_max if rules.at_leisure else INLINE_BYTES_MAX


def not_opened(refusal: ApiError, rules: ProduceRules) -> RecordsRefused | LongBatch:
    """What it means that records do not decompress to at most `output_bytes_max`."""
    if refusal.error == Error.MESSAGE_TOO_LARGE and not rules.at_leisure:
        return LongBatch()
    # The checksum was right: sending the same bytes again, which clients do after
    # CORRUPT_MESSAGE, would not help.
    corrupt = refusal.error == Error.CORRUPT_MESSAGE
    error = Error.INVALID_RECORD if corrupt else refusal.error
    return RecordsRefused(error, refusal.message)


def _refusal_by_record(
    body: memoryview, start: int, header: BatchHeader, rules: ProduceRules, now_ms: int
) -> RecordsRefused:
    """Names the records at fault without making objects of the others: there may be millions."""
    base = header.base_timestamp
    earliest, latest = TIMESTAMP_MIN, TIMESTAMP_MAX
    if not rules.log_append_time:
        earliest = now_ms - rules.before_max_ms
        latest = min(now_ms + rules.after_max_ms, TIMESTAMP_MAX)
    bounds = (
        rules.keys_required,
        max(earliest - base, TIMESTAMP_MIN),
        min(latest - base, TIMESTAMP_MAX),
        NO_TIMESTAMP - base,
    )
    refused, keyless, untimely = batch_kernel.list_refused(
        body, start, len(body), header.record_count, bounds, RECORD_ERRORS_MAX
    )
    record_errors: list[RecordError] = [
        (index, _NO_KEY)
        if is_keyless
        else (
            index,
            f"timestamp {base + delta} is out of range: it should be in [{earliest}, {latest}]",
        )
        for index, delta, is_keyless in refused
    ]
    return RecordsRefused(
        Error.INVALID_TIMESTAMP if untimely else Error.INVALID_RECORD,
        f"{keyless + untimely} of {header.record_count} records were refused;"
        f" the first: {record_errors[0][1]}",
        record_errors,
        "keyless" if keyless else "",
    )


def _recompressed(
    body: memoryview, header: BatchHeader, target: Codec, rules: ProduceRules
) -> tuple[memoryview, BatchHeader]:
    if len(body) > COMPRESSED_INLINE_BYTES_MAX and target and not rules.at_leisure:
        raise LongBatch
    attributes = header.attributes & ~CODEC_MASK | target
    payload = compress(target, body, rules.level)
    batch = memoryview(assemble(header._replace(attributes=attributes), payload))
    if len(batch) > rules.max_message_bytes:
        raise _too_large(len(batch), rules)
    return batch, read_header(batch)


def _stamp_time(records: memoryview, attributes: int, max_timestamp: int) -> BatchHeader:
    _ATTRIBUTES.pack_into(records, CRC_START, attributes)
    _TIMESTAMP.pack_into(records, _MAX_TIMESTAMP_POSITION, max_timestamp)
    write_checksum(records)
    return read_header(records)


def _too_large(size_bytes: int, rules: ProduceRules) -> RecordsRefused:
    return RecordsRefused(
        Error.MESSAGE_TOO_LARGE,
        f"the batch is {size_bytes} bytes; max.message.bytes is {rules.max_message_bytes}",
    )
