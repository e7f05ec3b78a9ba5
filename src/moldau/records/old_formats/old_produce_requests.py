"""What old producers send, checked and made into one batch as Apache Kafka 3.9 does it.

Produce requests before version 3 carry messages of magic 0 or 1: many plain ones, or one that
holds the others compressed. Logs hold record batches only, so that is what becomes of them, with
the codec that the producer chose unless the topic names another.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from moldau.model.errors import ApiError, Error
from moldau.records.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME_FLAG,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_TIMESTAMP,
    read_overhead,
)
from moldau.records.batch_codec import assemble
from moldau.records.batch_validation import (
    INLINE_BYTES_MAX,
    LongBatch,
    ProducedBatch,
    ProduceRules,
    RecordsRefused,
    not_opened,
    output_bytes_max,
    validate_produce,
)
from moldau.records.compression import Codec
from moldau.records.old_formats.old_messages import (
    BAD_CHECKSUM,
    BAD_SIZE,
    BAD_TIMESTAMP,
    FAULTS,
    OLD_BYTES_MIN,
    survey_messages,
    upgrade_messages,
)
from moldau.records.old_formats.up_conversion import (
    STAMP_POSITION,
    header_of,
    inner_messages,
)

_HEAD_BYTES = MAGIC_POSITION + 1
_INT32_MAX = 0x7FFFFFFF
_INT64 = struct.Struct(">q")
_CORRUPT = (BAD_SIZE, BAD_CHECKSUM)
"""What clients may mend by sending the same once more."""


def validate_old_produce(
    records: memoryview, rules: ProduceRules, now_ms: int
) -> ProducedBatch | None:
    """As `validate_produce`, for any format; None if there is not one whole message."""
    if len(records) > INLINE_BYTES_MAX and not rules.at_leisure:
        raise LongBatch
    count, end, size_max, attributes, offset = survey_messages(
        records, records, 0, len(records), True
    )
    if size_max > rules.max_message_bytes:
        raise _too_large(size_max, rules)
    size = _rest(records, end, rules)
    if not count:
        return validate_produce(records[:size], rules, now_ms) if size else None
    if size:
        raise _invalid("all messages of a partition must have one format")
    messages, magic = records[:end], records[MAGIC_POSITION]
    codec = attributes & CODEC_MASK
    if codec:
        if count > 1:
            raise _invalid("a compressed message must be the only one of its partition")
        messages = _opened(messages, codec, rules)
        last = survey_messages(messages, messages, 0, len(messages), False)[4]
        # Some clients did not care and sent 0.
        if magic == 1 and 0 != offset < last:
            raise _invalid(f"a compressed message of offset {offset} holds one of {last}")
    return _as_batch(messages, magic, codec, rules, now_ms)


def _rest(records: memoryview, position: int, rules: ProduceRules) -> int:
    """The size of the batch where old messages stop, 0 if a fragment is all: that is dropped, as
    Kafka does. Raises if it is neither."""
    if len(records) - position < _HEAD_BYTES:
        return 0
    _, size = read_overhead(records, position)
    if size < OLD_BYTES_MIN:
        raise _corrupt(f"a message cannot have {size} bytes")
    magic = records[position + MAGIC_POSITION]
    if magic > MAGIC_V2:
        raise _corrupt(f"message format {magic} is unknown")
    if size > len(records) - position:
        return 0
    if magic != MAGIC_V2:
        if size > rules.max_message_bytes:
            raise _too_large(size, rules)
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE,
            "a message does not have its checksum",
            counted_as="invalid_checksums",
        )
    behind = records[position + size :]
    if len(behind) >= _HEAD_BYTES and read_overhead(behind)[1] <= len(behind):
        raise _invalid("there must be exactly one record batch per partition")
    return size


def _opened(message: memoryview, codec: int, rules: ProduceRules) -> memoryview:
    if codec > Codec.LZ4:
        raise _invalid(f"messages of the formats before 2 cannot have the codec {codec}")
    try:
        return inner_messages(message, output_bytes_max(rules))
    except ApiError as refusal:
        raise not_opened(refusal, rules) from None


def _as_batch(
    messages: memoryview, magic: int, codec: int, rules: ProduceRules, now_ms: int
) -> ProducedBatch:
    base_timestamp = NO_TIMESTAMP
    if magic == 1 and len(messages) >= STAMP_POSITION + 8:
        base_timestamp = max(_INT64.unpack_from(messages, STAMP_POSITION)[0], NO_TIMESTAMP)
    body = bytearray()
    run = (magic, False, 0, base_timestamp)
    fault, count, delta, latest = upgrade_messages(messages, messages, 0, len(messages), body, run)
    if fault:
        text = f"message {count} is broken: {FAULTS[fault]}"
        if fault in _CORRUPT:
            raise _corrupt(text)
        if fault == BAD_TIMESTAMP:
            raise RecordsRefused(Error.INVALID_TIMESTAMP, text)
        raise _invalid(text)
    if not count:
        raise _invalid("a compressed message holds no others")
    attributes = survey_messages(messages, messages, 0, len(messages), False)[3]
    if magic == 1 and rules.log_append_time and attributes & LOG_APPEND_TIME_FLAG:
        raise RecordsRefused(
            Error.INVALID_TIMESTAMP, "a producer may not mark its timestamps as log append time"
        )
    header = header_of(0, count, delta, base_timestamp, latest, NO_TIMESTAMP)
    batch = memoryview(assemble(header, body))
    target = Codec(codec) if rules.compression == "producer" else rules.compression
    # The limit holds for what is stored, which may be smaller than this.
    unlimited = replace(rules, compression=target, max_message_bytes=_INT32_MAX)
    produced = validate_produce(batch, unlimited, now_ms)
    if len(produced.records) > rules.max_message_bytes:
        raise _too_large(len(produced.records), rules)
    return produced


def _invalid(reason: str) -> RecordsRefused:
    return RecordsRefused(Error.INVALID_RECORD, reason)


def _corrupt(reason: str) -> RecordsRefused:
    return RecordsRefused(Error.CORRUPT_MESSAGE, reason)


def _too_large(size_bytes: int, rules: ProduceRules) -> RecordsRefused:
    return RecordsRefused(
        Error.MESSAGE_TOO_LARGE,
        f"a message is {size_bytes} bytes; max.message.bytes is {rules.max_message_bytes}",
    )
