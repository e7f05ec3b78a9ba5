"""The logs of a broker without the broker: built by the same calls, from the same tables of
settings, with the topics' own known before they are loaded. Work is done where it stands."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.log_opening import logs_of
from moldau.broker.topic_settings import TopicSettings
from moldau.config.broker_config import BrokerConfig
from moldau.config.topic_config import TopicConfig
from moldau.model.clock import Clock
from moldau.storage.directories.log_store import LogStore
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings

INT_MAX = 2**31 - 1


def config_for(directory: str) -> BrokerConfig:
    config, _ = BrokerConfig.parse(
        {
            "node.id": "1",
            "log.dirs": directory,
            "producer.id.expiration.ms": f"{INT_MAX}",
            "num.recovery.threads.per.data.dir": "1",
        }
    )
    return config


def broker_logs(directory: str, topics: Mapping[str, SmallSettings], clock: Clock) -> LogStore:
    """To be opened by the caller."""
    config = config_for(directory)
    overrides = {name: overrides_of(settings) for name, settings in topics.items()}
    return logs_of(
        lambda: config, clock, (AtOnce(), AtOnce()), TopicSettings(config, overrides, {}).of
    )


def topic_config(settings: SmallSettings) -> TopicConfig:
    """What a replica gives its log, as it is placed and whenever the settings change."""
    return TopicConfig.of(config_for("/nowhere"), overrides_of(settings))


def overrides_of(settings: SmallSettings) -> dict[str, str]:
    overrides = {
        "internal.segment.bytes": settings.internal_segment_bytes or settings.segment_bytes,
        "segment.ms": settings.segment_ms,
        "segment.jitter.ms": settings.segment_jitter_ms,
        "segment.index.bytes": settings.segment_index_bytes,
        "index.interval.bytes": settings.index_interval_bytes,
        "retention.ms": settings.retention_ms,
        "retention.bytes": settings.retention_bytes,
        "flush.messages": settings.flush_messages,
        "flush.ms": settings.flush_ms,
        "file.delete.delay.ms": settings.file_delete_delay_ms,
        "cleanup.policy": ",".join(settings.cleanup_policy),
        "preallocate": str(settings.preallocate).lower(),
        "delete.retention.ms": settings.delete_retention_ms,
        "min.compaction.lag.ms": settings.min_compaction_lag_ms,
        "max.compaction.lag.ms": settings.max_compaction_lag_ms,
        "min.cleanable.dirty.ratio": settings.min_cleanable_dirty_ratio,
    }
    for key, value in overrides.items():
        assert TopicConfig.rows[key].allows(str(value)), f"a topic cannot have {key}={value}"
    return {key: str(value) for key, value in overrides.items()}
