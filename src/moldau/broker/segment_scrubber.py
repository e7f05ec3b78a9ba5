"""The scrubber of a running broker: now and then all closed segments are read again, at a pace.

Off unless `log.scrubber.bytes.per.second` says how fast it may read; until then nothing of it is
even loaded. What a pass does is in `segment_scrubber_pass.py`.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.background_jobs import Background
from moldau.config.broker_config import BrokerConfig
from moldau.model.clock import Clock
from moldau.replication.replicas import Replicas
from moldau.storage.compaction.compaction_scheduler import Cleaner
from moldau.storage.directories.log_store import LogStore

if TYPE_CHECKING:
    from moldau.net.peers import PeerCalls

LOOK_INTERVAL_MS = 1_000


class ScrubberParts(NamedTuple):
    logs: LogStore
    replicas: Replicas
    cleaner: Cleaner
    peers: PeerCalls | None
    """None where there are no other brokers."""
    config: Callable[[], BrokerConfig]
    clock: Clock
    loop: AbstractEventLoop


class Scrubber:
    def __init__(self, parts: ScrubberParts) -> None:
        self._parts = parts
        self._stopping = Event()
        self._next_ms = parts.clock.monotonic_ms() + parts.config().log_initial_task_delay_ms

    def look(self) -> Awaitable[None] | None:
        """Begin a pass if one is due."""
        if not self._parts.config().log_scrubber_bytes_per_second or self._stopping.is_set():
            return None
        if self._parts.clock.monotonic_ms() < self._next_ms:
            return None
        return self._pass()

    async def _pass(self) -> None:
        from moldau.broker.segment_scrubber_pass import ScrubberPass

        parts = self._parts
        try:
            await ScrubberPass(parts, self._stopping).run()
        finally:
            self._next_ms = parts.clock.monotonic_ms() + parts.config().log_scrubber_interval_ms

    def stop(self) -> None:
        """A pass under way ends within a moment; `Background.stop` waits for it."""
        self._stopping.set()


def plan_scrubber(background: Background, parts: ScrubberParts) -> Scrubber:
    scrubber = Scrubber(parts)
    background.every("kafka-log-scrubber", LOOK_INTERVAL_MS, scrubber.look)
    return scrubber
