"""What has to be done to the logs again and again, and how often."""

from __future__ import annotations

from moldau.broker.background import Background
from moldau.config.broker import BrokerConfig
from moldau.replication.replicas import Replicas
from moldau.storage.log_store import LogStore

DELETED_FILES_INTERVAL_MS = 1_000
NEVER_MS = 365 * 86_400_000
"""An interval this long means that the job is not wanted."""


def plan_log_jobs(
    background: Background, logs: LogStore, replicas: Replicas, config: BrokerConfig
) -> None:
    delay_ms = config.log_initial_task_delay_ms
    background.every(
        "kafka-log-retention",
        config.log_retention_check_interval_ms,
        lambda: void(logs.delete_old_segments(replicas.high_watermark)),
        first_ms=min(delay_ms, config.log_retention_check_interval_ms),
    )
    if config.log_flush_scheduler_interval_ms < NEVER_MS:
        background.every(
            "kafka-log-flusher", config.log_flush_scheduler_interval_ms, logs.flush_due
        )
    background.every(
        "kafka-recovery-point-checkpoint",
        max(1, config.log_flush_offset_checkpoint_interval_ms),
        lambda: logs.write_checkpoints(replicas.high_watermarks()),
    )
    background.every(
        "producer-id-expiration",
        config.producer_id_expiration_check_interval_ms,
        lambda: void(logs.expire_producers()),
    )
    background.every("kafka-delete-logs", DELETED_FILES_INTERVAL_MS, logs.remove_deleted_files)


def void(_: int) -> None:
    """A job's count of what it did is of no interest here."""
