"""Keeping compaction to so many bytes per second, by telling it when to wait and how long."""

from __future__ import annotations

from moldau.model.clock import Clock

SPAN_MS = 300
"""A pace is measured over this long: shorter waits are put off."""


class Pace:
    def __init__(self, clock: Clock, bytes_per_second: float) -> None:
        self._clock = clock
        self.bytes_per_second = max(1.0, bytes_per_second)
        self._since_ms = clock.monotonic_ms()
        self._bytes = 0

    def delay_ms(self, size_bytes: int) -> float:
        """How long to wait after having read or written so much."""
        self._bytes += size_bytes
        elapsed_ms = self._clock.monotonic_ms() - self._since_ms
        owed_ms = 1000 * self._bytes / self.bytes_per_second
        if max(elapsed_ms, owed_ms) < SPAN_MS:
            return 0.0
        self._since_ms += elapsed_ms
        self._bytes = 0
        delay_ms = max(0.0, owed_ms - elapsed_ms)
        self._since_ms += int(delay_ms)
        return delay_ms
