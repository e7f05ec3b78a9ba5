"""The topic settings that a log reads. `config.topic.TopicConfig` has them all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

INDEX_INTERVAL_BYTES_MAX = 1024 * 1024
"""A reader walks over as much while everybody waits, so no topic's setting makes it more."""


class LogSettings(Protocol):
    @property
    def segment_bytes(self) -> int: ...
    @property
    def internal_segment_bytes(self) -> int | None:
        """Overrides `segment_bytes`, without its lower limit."""

    @property
    def roll_ms(self) -> int:
        """The age at which the segment being written is closed."""

    @property
    def segment_jitter_ms(self) -> int: ...
    @property
    def segment_index_bytes(self) -> int: ...
    @property
    def index_interval_bytes(self) -> int: ...
    @property
    def retention_ms(self) -> int:
        """-1: for ever."""

    @property
    def retention_bytes(self) -> int:
        """-1: any size."""

    @property
    def flush_messages(self) -> int: ...
    @property
    def flush_ms(self) -> int: ...
    @property
    def file_delete_delay_ms(self) -> int: ...
    @property
    def cleanup_policy(self) -> Collection[str]: ...
    @property
    def preallocate(self) -> bool: ...
    @property
    def delete_retention_ms(self) -> int:
        """How long compaction keeps tombstones."""

    @property
    def min_compaction_lag_ms(self) -> int: ...
    @property
    def max_compaction_lag_ms(self) -> int: ...
    @property
    def min_cleanable_dirty_ratio(self) -> float: ...
