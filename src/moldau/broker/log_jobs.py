"""What has to be done to the logs again and again, and how often."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from moldau.broker.background_jobs import Background
from moldau.config.broker_config import BrokerConfig
from moldau.model.clock import Clock
from moldau.model.names import TopicPartition
from moldau.replication.replicas import Replicas
from moldau.storage.compaction.compaction_scheduler import Cleaner, CleanerSettings
from moldau.storage.directories.log_directory import LogDirectory
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.storage_threads import OneThread

if TYPE_CHECKING:
    from moldau.storage.compaction.compaction_job import RoundRunner

log = logging.getLogger("kafka.log.LogManager")

DELETED_FILES_INTERVAL_MS = 1_000
DIRECTORIES_INTERVAL_MS = 1_000
FUTURE_LOGS_INTERVAL_MS = 5_000
NEW_LOGS_INTERVAL_MS = 1_000
"""How soon a log that could not be made for want of descriptors or room is tried again."""
CLEANER_INTERVAL_MS_MIN = 10
PRODUCERS_INTERVAL_MS = 60_000
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
    background.every(
        "kafka-producer-room", PRODUCERS_INTERVAL_MS, lambda: in_turns(logs.bound_producers())
    )
    background.every("kafka-future-logs", FUTURE_LOGS_INTERVAL_MS, replicas.moves.look)
    background.every("kafka-new-logs", NEW_LOGS_INTERVAL_MS, replicas.pending.try_again)
    background.every("kafka-regained-logs", NEW_LOGS_INTERVAL_MS, replicas.regained.try_again)
    background.every("kafka-delete-logs", DELETED_FILES_INTERVAL_MS, logs.remove_deleted_files)
    background.every("kafka-log-dirs", DIRECTORIES_INTERVAL_MS, logs.look_at_directories)


def follow_failures(
    logs: LogStore,
    listeners: Sequence[Callable[[], None]],
    has_failed: asyncio.Event,
    metadata: LogDirectory | None,
) -> None:
    """Tell `listeners` when a log directory has failed and its replicas are offline; set
    `has_failed` when none is left, or when it is the one that holds the `metadata`: a broker that
    can neither change nor keep what it knows of its topics must not go on by half."""

    def failed(directory: LogDirectory, _lost: list[TopicPartition]) -> None:
        for listener in listeners:
            listener()
        if not logs.online:
            paths = ", ".join(each.path for each in logs.directories)
            log.critical("Shutdown broker because all log dirs in %s have failed", paths)
            has_failed.set()
        elif directory is metadata:
            log.critical(
                "Shutdown broker because the log dir %s, which has the metadata, has failed",
                directory.path,
            )
            has_failed.set()

    logs.on_failure.append(failed)


def plan_cleaner(
    background: Background,
    logs: LogStore,
    replicas: Replicas,
    config: Callable[[], BrokerConfig],
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
) -> Cleaner:
    """Compaction; whoever stops the broker stops the cleaner before the logs are closed."""
    cleaner = Cleaner(
        logs,
        high_watermark=replicas.high_watermark,
        settings=lambda: cleaner_settings(config()),
        clock=clock,
        new_thread=lambda: OneThread(loop.call_soon_threadsafe, "kafka-log-cleaner"),
        new_runner=_in_process,
    )
    if config().log_cleaner_enable:

        def backoff_ms() -> int:
            return max(CLEANER_INTERVAL_MS_MIN, config().log_cleaner_backoff_ms)

        background.every("kafka-log-cleaner", backoff_ms, cleaner.look)
    return cleaner


def _in_process() -> RoundRunner:
    from moldau.storage.compaction.compaction_process import InProcess

    return InProcess()


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    return CleanerSettings(
        threads=config.log_cleaner_threads,
        map_bytes=config.log_cleaner_dedupe_buffer_size,
        map_load_factor=config.log_cleaner_io_buffer_load_factor,
        buffer_bytes=config.log_cleaner_io_buffer_size,
        bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )


async def in_turns(steps: Iterator[None]) -> None:
    """Others are served between the steps of a long job."""
    for _ in steps:
        await asyncio.sleep(0)


def void(_: int) -> None:
    """A job's count of what it did is of no interest here."""
