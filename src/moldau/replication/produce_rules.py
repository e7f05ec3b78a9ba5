"""What a topic's settings and the age of a producer mean for the batches that it sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moldau.config.topic_config import TopicConfig
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.records.batch_validation import ProducedBatch, ProduceRules, validate_produce
from moldau.records.compression import Codec

BATCHES_SINCE: Final = 3
"""The version of Produce from which there are only record batches; earlier ones may carry older
messages too, and are not looked at as closely."""
ZSTD_SINCE: Final = 7


def validate(
    records: memoryview, rules: ProduceRules, now_ms: Millis, version: int
) -> ProducedBatch:
    if version >= ZSTD_SINCE:
        return validate_produce(records, rules, now_ms)
    return validate_early(records, rules, now_ms, version)


def validate_early(
    records: memoryview, rules: ProduceRules, now_ms: Millis, version: int
) -> ProducedBatch:
    """As `validate_produce`, for requests of a version before ZSTD_SINCE."""
    if version >= BATCHES_SINCE:
        return validate_produce(records, replace(rules, zstd_allowed=False), now_ms)
    from moldau.records.old_formats.old_produce_requests import validate_old_produce

    batch = validate_old_produce(records, rules, now_ms)
    if batch is None:
        # Kafka calls it a success, at no offset.
        raise ApiError(Error.NONE, "there is no whole message to store")
    return batch


def produce_rules(settings: TopicConfig) -> ProduceRules:
    codec = settings.compression_type
    levels = {
        "gzip": settings.compression_gzip_level,
        "lz4": settings.compression_lz4_level,
        "zstd": settings.compression_zstd_level,
    }
    level = levels.get(codec)
    return ProduceRules(
        max_message_bytes=settings.max_message_bytes,
        log_append_time=settings.message_timestamp_type == "LogAppendTime",
        before_max_ms=settings.message_timestamp_before_max_ms,
        after_max_ms=settings.message_timestamp_after_max_ms,
        compression="producer" if codec == "producer" else CODECS[codec],
        level=None if codec == "gzip" and level == -1 else level,
        keys_required=settings.is_compacted,
        at_leisure=False,
    )


CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
