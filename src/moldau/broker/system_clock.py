"""The machine's own time, behind the port that everybody is given."""

from __future__ import annotations

import time

from moldau.model.names import Millis


class SystemClock:
    __slots__ = ()

    def wall_ms(self) -> Millis:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> Millis:
        return time.monotonic_ns() // 1_000_000
