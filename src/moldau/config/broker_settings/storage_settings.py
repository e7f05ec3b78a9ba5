"""Broker settings: where the logs lie, when they roll, are flushed, cleaned and deleted.

Most of them are the defaults of topics; `config/topic_config.py` names the pairs.
"""

from __future__ import annotations

from moldau.config.setting_definition import (
    DAY,
    GIB,
    HOUR,
    KIB,
    LONG_MAX,
    MIB,
    MINUTE,
    SECOND,
    Long,
    Names,
    Scope,
    Settings,
    setting,
)

ONE_FORMAT = "records are stored in message format 2"
ONE_CHECKPOINT = "it is written together with the recovery points"
AT_ONCE = "a failed directory is taken out of use at once"
NOT_CORDONED = "directories cannot be cordoned yet; leave it out"
CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

# Rows stay compact, so that the table can be read as one.
# fmt: off


class LogSettings(Settings):
    # Places
    log_dirs: Names = setting(
        "log.dirs",
        doc="Directories that hold the partitions; without it, log.dir.")
    log_dir: Names = setting(
        "log.dir", ("/tmp/kafka-logs",),
        doc="The directory that holds the partitions when log.dirs is not set.")
    cordoned_log_dirs: Names = setting(
        "cordoned.log.dirs", (), scope=Scope.PER_BROKER, refused=NOT_CORDONED,
        doc="Directories that take no new partitions; * means all.")
    num_recovery_threads_per_data_dir: int = setting(
        "num.recovery.threads.per.data.dir", 2, at_least=1, scope=Scope.CLUSTER,
        doc="Threads per directory that check logs at start; at stop eight times as many flush.")
    log_dir_failure_timeout_ms: Long = setting(
        "log.dir.failure.timeout.ms", 30 * SECOND, at_least=1, no_effect=AT_ONCE,
        doc="The broker stops if it cannot report a failed directory within this time.")

    # Segments
    log_segment_bytes: int = setting(
        "log.segment.bytes", 1 * GIB, at_least=1 * MIB, scope=Scope.CLUSTER,
        aliases=("log.segment,bytes",),
        doc="Start a new segment when the current one would grow past this size.")
    log_roll_ms: Long = setting(
        "log.roll.ms", at_least=1, scope=Scope.CLUSTER,
        doc="Start a new segment when the current one is this old; without it, log.roll.hours.")
    log_roll_hours: int = setting(
        "log.roll.hours", 168, at_least=1,
        doc="Start a new segment after this many hours, when log.roll.ms is not set.")
    log_roll_jitter_ms: Long = setting(
        "log.roll.jitter.ms", at_least=0, scope=Scope.CLUSTER,
        doc="Roll up to this much earlier, at random, so that segments do not all roll at once; "
            "without it, log.roll.jitter.hours.")
    log_roll_jitter_hours: int = setting(
        "log.roll.jitter.hours", 0, at_least=0,
        doc="The same in hours, when log.roll.jitter.ms is not set.")
    log_index_size_max_bytes: int = setting(
        "log.index.size.max.bytes", 10 * MIB, at_least=4, scope=Scope.CLUSTER,
        doc="Start a new segment when an index would grow past this size.")
    log_index_interval_bytes: int = setting(
        "log.index.interval.bytes", 4096, at_least=0, scope=Scope.CLUSTER,
        doc="Bytes of records between two index entries: fewer make look-ups faster, indexes "
            "larger.")
    log_preallocate: bool = setting(
        "log.preallocate", False, scope=Scope.CLUSTER,
        doc="Reserve a new segment's full size on disk at once.")
    log_segment_delete_delay_ms: Long = setting(
        "log.segment.delete.delay.ms", 1 * MINUTE, at_least=0, scope=Scope.CLUSTER,
        doc="Keep a deleted segment's file this long, for readers that are still in it.")

    # Retention
    log_retention_ms: Long = setting(
        "log.retention.ms", scope=Scope.CLUSTER,
        doc="Delete segments whose newest record is older; -1 keeps them for ever; without it, "
            "log.retention.minutes.")
    log_retention_minutes: int | None = setting(
        "log.retention.minutes",
        doc="The same in minutes, when log.retention.ms is not set; without it, "
            "log.retention.hours.")
    log_retention_hours: int = setting(
        "log.retention.hours", 168,
        doc="The same in hours, when neither milliseconds nor minutes are set.")
    log_retention_bytes: Long = setting(
        "log.retention.bytes", -1, scope=Scope.CLUSTER, aliases=("log.retention.byte",),
        doc="Delete the oldest segments of a partition while it is larger than this; -1 sets no "
            "limit.")
    log_retention_check_interval_ms: Long = setting(
        "log.retention.check.interval.ms", 5 * MINUTE, at_least=1,
        doc="How often old segments are looked for.")
    log_cleanup_policy: Names = setting(
        "log.cleanup.policy", ("delete",), one_of=("compact", "delete"), scope=Scope.CLUSTER,
        doc="What happens to old records: delete them, compact to the newest per key, or both; "
            "empty keeps them all.")
    log_local_retention_ms: Long = setting(
        "log.local.retention.ms", -2, at_least=-2, scope=Scope.CLUSTER,
        no_effect="there is no tiered storage, everything is local",
        doc="Time that tiered segments stay on the local disk too.")
    log_local_retention_bytes: Long = setting(
        "log.local.retention.bytes", -2, at_least=-2, scope=Scope.CLUSTER,
        no_effect="there is no tiered storage, everything is local",
        doc="Size of tiered segments that stay on the local disk too.")

    # Flushing and checkpoints
    log_flush_interval_messages: Long = setting(
        "log.flush.interval.messages", LONG_MAX, at_least=1, scope=Scope.CLUSTER,
        doc="Force a partition to disk after this many records; the default leaves it to the "
            "operating system.")
    log_flush_interval_ms: Long = setting(
        "log.flush.interval.ms", at_least=0, scope=Scope.CLUSTER,
        doc="Force a partition to disk when records have waited this long; without it, "
            "log.flush.scheduler.interval.ms.")
    log_flush_scheduler_interval_ms: Long = setting(
        "log.flush.scheduler.interval.ms", LONG_MAX, at_least=1,
        doc="How often partitions are checked for records to force to disk.")
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms", 1 * MINUTE, at_least=0,
        doc="How often the recovery points are written: recovery after a crash starts there.")
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms", 1 * MINUTE, at_least=0,
        no_effect=ONE_CHECKPOINT,
        doc="How often the first offset of every partition is written down.")
    log_initial_task_delay_ms: Long = setting(
        "log.initial.task.delay.ms", 30 * SECOND, at_least=0, hidden=True,
        doc="How long after the start the periodic chores on logs begin.")

    # Records
    message_max_bytes: int = setting(
        "message.max.bytes", 1 * MIB + 12, at_least=0, scope=Scope.CLUSTER,
        doc="Largest batch of records a producer may send, after compression.")
    compression_type: str = setting(
        "compression.type", "producer", one_of=CODECS, scope=Scope.CLUSTER,
        doc="Codec in which records are stored; producer keeps what the producer chose.")
    compression_gzip_level: int = setting(
        "compression.gzip.level", -1, at_least=1, at_most=9, or_value=-1, scope=Scope.CLUSTER,
        doc="Effort of gzip when the broker compresses; -1 is the library's choice.")
    compression_lz4_level: int = setting(
        "compression.lz4.level", 9, at_least=1, at_most=17, scope=Scope.CLUSTER,
        doc="Effort of lz4 when the broker compresses.")
    compression_zstd_level: int = setting(
        "compression.zstd.level", 3, at_least=-131072, at_most=22, scope=Scope.CLUSTER,
        doc="Effort of zstd when the broker compresses.")
    log_message_timestamp_type: str = setting(
        "log.message.timestamp.type", "CreateTime", one_of=("CreateTime", "LogAppendTime"),
        scope=Scope.CLUSTER,
        doc="Whether a record's time is the producer's or the time of its arrival.")
    log_message_timestamp_before_max_ms: Long = setting(
        "log.message.timestamp.before.max.ms", LONG_MAX, at_least=0, scope=Scope.CLUSTER,
        doc="A record may be stamped this much before its arrival; older ones are refused.")
    log_message_timestamp_after_max_ms: Long = setting(
        "log.message.timestamp.after.max.ms", 1 * HOUR, at_least=0, scope=Scope.CLUSTER,
        doc="A record may be stamped this much after its arrival; later ones are refused.")
    log_message_timestamp_difference_max_ms: Long = setting(
        "log.message.timestamp.difference.max.ms", LONG_MAX, at_least=0,
        no_effect="set the before and after limits instead",
        doc="Kept from old releases: the largest distance between a record's time and its arrival.")
    log_message_format_version: str = setting(
        "log.message.format.version", "3.0-IV1", no_effect=ONE_FORMAT,
        doc="Kept from old releases: the format in which records are stored.")
    log_message_downconversion_enable: bool = setting(
        "log.message.downconversion.enable", True, scope=Scope.CLUSTER,
        doc="Write records again for consumers older than 0.11, which know other formats; without "
            "it they are refused.")

    # Compaction
    log_cleaner_enable: bool = setting(
        "log.cleaner.enable", True,
        doc="Run the cleaner that compacts topics whose cleanup.policy says so.")
    log_cleaner_threads: int = setting(
        "log.cleaner.threads", 1, at_least=0, scope=Scope.CLUSTER,
        doc="Threads that compact.")
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308, scope=Scope.CLUSTER,
        doc="Most bytes per second that compaction reads and writes.")
    log_cleaner_dedupe_buffer_size: Long = setting(
        "log.cleaner.dedupe.buffer.size", 128 * MIB, scope=Scope.CLUSTER,
        doc="Memory for the map of newest offsets per key, over all cleaner threads.")
    log_cleaner_io_buffer_size: int = setting(
        "log.cleaner.io.buffer.size", 512 * KIB, at_least=0, scope=Scope.CLUSTER,
        doc="Memory for reading and writing, over all cleaner threads.")
    log_cleaner_io_buffer_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor", 0.9, scope=Scope.CLUSTER,
        doc="How full the map of keys may get: more keys per pass against more collisions.")
    log_cleaner_backoff_ms: Long = setting(
        "log.cleaner.backoff.ms", 15 * SECOND, at_least=0, scope=Scope.CLUSTER,
        doc="How long the cleaner rests when nothing needs cleaning.")
    log_cleaner_min_cleanable_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio", 0.5, at_least=0, at_most=1, scope=Scope.CLUSTER,
        doc="Share of a log that must be uncompacted before the cleaner takes it up.")
    log_cleaner_delete_retention_ms: Long = setting(
        "log.cleaner.delete.retention.ms", 1 * DAY, at_least=0, scope=Scope.CLUSTER,
        doc="How long a deletion marker stays readable in a compacted topic.")
    log_cleaner_min_compaction_lag_ms: Long = setting(
        "log.cleaner.min.compaction.lag.ms", 0, at_least=0, scope=Scope.CLUSTER,
        doc="A record stays uncompacted for at least this long.")
    log_cleaner_max_compaction_lag_ms: Long = setting(
        "log.cleaner.max.compaction.lag.ms", LONG_MAX, at_least=1, scope=Scope.CLUSTER,
        doc="A record stays uncompacted for at most this long.")
    log_scrubber_bytes_per_second: Long = setting(
        "log.scrubber.bytes.per.second", 0, at_least=0, scope=Scope.CLUSTER,
        doc="Moldau's own: bytes per second at which closed segments are read again to find what "
            "the disk has damaged; damage is repaired from another replica in sync. 0 means never.")
    log_scrubber_interval_ms: Long = setting(
        "log.scrubber.interval.ms", 1 * DAY, at_least=0, scope=Scope.CLUSTER,
        doc="Moldau's own: rest between two passes of the scrubber over all closed segments.")
