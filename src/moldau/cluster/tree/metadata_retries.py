"""Asking the metadata store again while it cannot answer.

An ensemble that elects a leader answers nobody for a moment. A broker that starts just then waits,
instead of giving up; what is asked here may be asked twice, since the outcome may be unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from moldau.engine.timers import Timers
from moldau.metadata.store import StoreUnavailable
from moldau.model.clock import Clock
from moldau.model.names import Millis

log = logging.getLogger("kafka.zookeeper.ZooKeeperClient")

RETRY_MS = 200

T = TypeVar("T")


async def patiently(
    ask: Callable[[], Awaitable[T]], *, clock: Clock, timers: Timers, timeout_ms: Millis
) -> T:
    """The answer; raises StoreUnavailable if there is none in time. It counts from the first
    refusal on: what takes long by itself has not waited yet."""
    deadline_ms: Millis | None = None
    while True:
        try:
            return await ask()
        except StoreUnavailable as fault:
            if deadline_ms is None:
                deadline_ms = clock.monotonic_ms() + timeout_ms
            elif clock.monotonic_ms() > deadline_ms:
                raise
            log.warning("[ZooKeeperClient Kafka server] %s. It is asked again.", fault)
            await timers.pause(RETRY_MS)
