"""What a topic's settings mean for the batches that producers send."""

from __future__ import annotations

from moldau.config.topic import TopicConfig
from moldau.records.compression import Codec
from moldau.records.validation import ProduceRules


def produce_rules(settings: TopicConfig, *, zstd_allowed: bool = True) -> ProduceRules:
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
        zstd_allowed=zstd_allowed,
    )


CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
