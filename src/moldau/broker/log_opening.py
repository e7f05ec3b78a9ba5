"""The logs of a broker that starts: locked first, loaded when the topics' settings are known."""

from __future__ import annotations

import os
from collections.abc import Callable

from moldau.config.broker_config import BrokerConfig
from moldau.config.topic_config import TopicConfig
from moldau.model.clock import Clock
from moldau.storage.directories.log_directory import CLEAN_SHUTDOWN_FILE
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.meta_properties import FILE_NAME as META_FILE
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log_state.producer_room import ProducerLimits


def logs_of(
    current: Callable[[], BrokerConfig],
    clock: Clock,
    threads: tuple[Threads, Threads],
    settings_for: Callable[[str], TopicConfig],
) -> LogStore:
    """Neither locked nor loaded yet. One of the threads flushes, the other loads logs at rest."""
    config = current()
    return LogStore(
        config.log_dirs,
        node_id=config.node_id,
        settings_for=settings_for,
        clock=clock,
        threads=threads[0],
        recovery_threads=config.num_recovery_threads_per_data_dir,
        producer_limits=lambda: producer_limits(current()),
        loading_threads=threads[1],
    )


def producer_limits(config: BrokerConfig) -> ProducerLimits:
    return ProducerLimits(config.producer_id_expiration_ms, config.producer_state_max_bytes)


def was_left_uncleanly(directory: str) -> bool:
    """Whether a broker used the log directory and did not get to stop in order."""
    # Not by Path.exists, which raises where the directory may not be looked into.
    used = os.path.exists(os.path.join(directory, META_FILE))
    return used and not os.path.exists(os.path.join(directory, CLEAN_SHUTDOWN_FILE))
