"""The time as a port: whoever needs it is given a clock, and tests give a virtual one."""

from __future__ import annotations

from typing import Protocol

from moldau.model.names import Millis


class Clock(Protocol):
    def wall_ms(self) -> Millis:
        """Milliseconds since the epoch: what records and files are stamped with."""

    def monotonic_ms(self) -> Millis:
        """Milliseconds that never go back: what time-outs are measured with."""
