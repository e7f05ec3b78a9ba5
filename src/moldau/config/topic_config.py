"""Topic settings. What a topic does not override it takes from the broker key beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moldau.config.broker_settings.storage_settings import CODECS
from moldau.config.setting_definition import (
    DAY,
    GIB,
    HOUR,
    LONG_MAX,
    MIB,
    MINUTE,
    ConfigError,
    Long,
    Names,
    Settings,
    UnknownKeyError,
    setting,
    suggestion,
)
from moldau.config.value_checks import throttled_replicas

if TYPE_CHECKING:
    from moldau.config.broker_config import BrokerConfig

NO_TIERING = "there is no tiered storage"
MIRROR_SOURCE = "mirror.source"
"""What the topic repeats; `mirror_source.py` reads it."""

# Rows stay compact, so that the table can be read as one.
# fmt: off


class TopicConfig(Settings):
    # Segments
    segment_bytes: int = setting(
        "segment.bytes", 1 * GIB, at_least=1 * MIB, synonym="log.segment.bytes",
        doc="Start a new segment when the current one would grow past this size.")
    internal_segment_bytes: int | None = setting(
        "internal.segment.bytes", at_least=14, hidden=True,
        doc="As segment.bytes, without its lower limit: for tests that want many segments.")
    segment_ms: Long = setting(
        "segment.ms", 7 * DAY, at_least=1, synonym="log.roll.ms",
        doc="Start a new segment when the current one is this old.")
    segment_jitter_ms: Long = setting(
        "segment.jitter.ms", 0, at_least=0, synonym="log.roll.jitter.ms",
        doc="Roll up to this much earlier, at random, so that segments do not all roll at once.")
    segment_index_bytes: int = setting(
        "segment.index.bytes", 10 * MIB, at_least=4, synonym="log.index.size.max.bytes",
        doc="Start a new segment when an index would grow past this size.")
    index_interval_bytes: int = setting(
        "index.interval.bytes", 4096, at_least=0, synonym="log.index.interval.bytes",
        doc="Bytes of records between two index entries.")
    preallocate: bool = setting(
        "preallocate", False, synonym="log.preallocate",
        doc="Reserve a new segment's full size on disk at once.")
    file_delete_delay_ms: Long = setting(
        "file.delete.delay.ms", 1 * MINUTE, at_least=0, synonym="log.segment.delete.delay.ms",
        doc="Keep a deleted segment's file this long, for readers that are still in it.")
    flush_messages: Long = setting(
        "flush.messages", LONG_MAX, at_least=1, synonym="log.flush.interval.messages",
        doc="Force a partition to disk after this many records.")
    flush_ms: Long = setting(
        "flush.ms", LONG_MAX, at_least=0, synonym="log.flush.interval.ms",
        doc="Force a partition to disk when records have waited this long.")

    # Retention and compaction
    cleanup_policy: Names = setting(
        "cleanup.policy", ("delete",), one_of=("compact", "delete"), synonym="log.cleanup.policy",
        doc="What happens to old records: delete them, compact to the newest per key, or both; "
            "empty keeps them all.")
    retention_ms: Long = setting(
        "retention.ms", 7 * DAY, at_least=-1, synonym="log.retention.ms",
        doc="Delete segments whose newest record is older; -1 keeps them for ever.")
    retention_bytes: Long = setting(
        "retention.bytes", -1, synonym="log.retention.bytes",
        doc="Delete the oldest segments of a partition while it is larger; -1 sets no limit.")
    delete_retention_ms: Long = setting(
        "delete.retention.ms", 1 * DAY, at_least=0, synonym="log.cleaner.delete.retention.ms",
        doc="How long a deletion marker stays readable in a compacted topic.")
    min_compaction_lag_ms: Long = setting(
        "min.compaction.lag.ms", 0, at_least=0, synonym="log.cleaner.min.compaction.lag.ms",
        doc="A record stays uncompacted for at least this long.")
    max_compaction_lag_ms: Long = setting(
        "max.compaction.lag.ms", LONG_MAX, at_least=1, synonym="log.cleaner.max.compaction.lag.ms",
        doc="A record stays uncompacted for at most this long.")
    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio", 0.5, at_least=0, at_most=1,
        synonym="log.cleaner.min.cleanable.ratio",
        doc="Share of a log that must be uncompacted before the cleaner takes it up.")

    # Records
    max_message_bytes: int = setting(
        "max.message.bytes", 1 * MIB + 12, at_least=0, synonym="message.max.bytes",
        aliases=("max.message.size",),
        doc="Largest batch of records a producer may send, after compression.")
    compression_type: str = setting(
        "compression.type", "producer", one_of=CODECS, synonym="compression.type",
        doc="Codec in which records are stored; producer keeps what the producer chose.")
    compression_gzip_level: int = setting(
        "compression.gzip.level", -1, at_least=1, at_most=9, or_value=-1,
        synonym="compression.gzip.level",
        doc="Effort of gzip when the broker compresses; -1 is the library's choice.")
    compression_lz4_level: int = setting(
        "compression.lz4.level", 9, at_least=1, at_most=17, synonym="compression.lz4.level",
        doc="Effort of lz4 when the broker compresses.")
    compression_zstd_level: int = setting(
        "compression.zstd.level", 3, at_least=-131072, at_most=22, synonym="compression.zstd.level",
        doc="Effort of zstd when the broker compresses.")
    message_timestamp_type: str = setting(
        "message.timestamp.type", "CreateTime", one_of=("CreateTime", "LogAppendTime"),
        synonym="log.message.timestamp.type",
        doc="Whether a record's time is the producer's or the time of its arrival.")
    message_timestamp_before_max_ms: Long = setting(
        "message.timestamp.before.max.ms", LONG_MAX, at_least=0,
        synonym="log.message.timestamp.before.max.ms",
        doc="A record may be stamped this much before its arrival; older ones are refused.")
    message_timestamp_after_max_ms: Long = setting(
        "message.timestamp.after.max.ms", 1 * HOUR, at_least=0,
        synonym="log.message.timestamp.after.max.ms",
        doc="A record may be stamped this much after its arrival; later ones are refused.")
    message_downconversion_enable: bool = setting(
        "message.downconversion.enable", True, synonym="log.message.downconversion.enable",
        hidden=True,
        doc="Write records again for consumers older than 0.11, which know other formats; without "
            "it they are refused.")

    # Replication
    min_insync_replicas: int = setting(
        "min.insync.replicas", 1, at_least=1, synonym="min.insync.replicas",
        doc="With acks=all, refuse writes while fewer replicas than this are in sync.")
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", False, synonym="unclean.leader.election.enable",
        doc="Let a replica that lags behind become leader when no other is left: the topic stays "
            "available and loses records.")
    leader_replication_throttled_replicas: Names = setting(
        "leader.replication.throttled.replicas", (), check=throttled_replicas,
        doc="Replicas whose replication is slowed down on the leader, as partition:broker pairs, "
            "or *.")
    follower_replication_throttled_replicas: Names = setting(
        "follower.replication.throttled.replicas", (), check=throttled_replicas,
        doc="Replicas whose replication is slowed down on the follower, as partition:broker "
            "pairs, or *.")

    mirror_source: str = setting(
        MIRROR_SOURCE, "", hidden=True,
        doc="The topic of another cluster that this one repeats, as cluster/id/name; it is written "
            "to by `moldau mirror` alone, which also sets and removes this.")

    # Tiered storage
    remote_storage_enable: bool = setting(
        "remote.storage.enable", False, no_effect=NO_TIERING,
        doc="Move old segments to a remote store; only false is possible.")
    remote_log_copy_disable: bool = setting(
        "remote.log.copy.disable", False, no_effect=NO_TIERING,
        doc="Stop moving segments to the remote store.")
    remote_log_delete_on_disable: bool = setting(
        "remote.log.delete.on.disable", False, no_effect=NO_TIERING,
        doc="Delete the remote segments when tiering is switched off.")
    local_retention_ms: Long = setting(
        "local.retention.ms", -2, at_least=-2, synonym="log.local.retention.ms",
        no_effect=NO_TIERING,
        doc="Time that tiered segments stay on the local disk too.")
    local_retention_bytes: Long = setting(
        "local.retention.bytes", -2, at_least=-2, synonym="log.local.retention.bytes",
        no_effect=NO_TIERING,
        doc="Size of tiered segments that stay on the local disk too.")

    # fmt: on

    @classmethod
    def of(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """What holds for a topic: its overrides, then the broker's values. Overrides are checked
        when they are made; a stored one that is not valid (any more) is passed over here, since
        a topic with a strange setting must not keep a broker from starting."""
        values: dict[str, Any] = {}
        for row in cls.rows.values():
            inherited = None if row.synonym is None else row.synonym.replace(".", "_")
            values[row.name] = row.default if inherited is None else getattr(broker, inherited)
        for key, text in overrides.items():
            own = cls.rows.get(cls.aliases.get(key, key))
            if own is not None and own.allows(text):
                values[own.name] = own.parse(text)
        if values["internal_segment_bytes"] is not None:
            values["segment_bytes"] = values["internal_segment_bytes"]
        return cls(values)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """A record that must be compacted in time has to be in a closed segment by then."""
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def deletes_old_segments(self) -> bool:
        return "delete" in self.cleanup_policy


def validate_topic_overrides(
    overrides: Mapping[str, str], broker: BrokerConfig | None = None
) -> None:
    """Raises ConfigError if a topic cannot have these overrides."""
    values: dict[str, Any] = {}
    for key, text in overrides.items():
        row = TopicConfig.rows.get(TopicConfig.aliases.get(key, key))
        if row is None:
            close = suggestion(key, TopicConfig.rows)
            raise UnknownKeyError(key, f"Unknown topic config name: {key}{close}")
        values[row.name] = row.parse(text)
    if values.get("remote_storage_enable"):
        raise ConfigError("remote.storage.enable", "true", NO_TIERING)
    lag_min = values.get(
        "min_compaction_lag_ms", broker and broker.log_cleaner_min_compaction_lag_ms
    )
    lag_max = values.get(
        "max_compaction_lag_ms", broker and broker.log_cleaner_max_compaction_lag_ms
    )
    if (lag_min or 0) > (LONG_MAX if lag_max is None else lag_max):
        limit = f"must be at most max.compaction.lag.ms, which is {lag_max}"
        raise ConfigError("min.compaction.lag.ms", lag_min, limit)
