"""The time as a port: whoever needs it is given a clock, and tests give a virtual one."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from moldau.model.names import Millis


class Now(NamedTuple):
    """One moment, by both clocks: what a state machine is told of the time."""

    wall_ms: Millis
    """For what is stored and for what is counted from a stored time."""
    monotonic_ms: Millis
    """For timers and for whatever is counted from a moment in this process."""


class Clock(Protocol):
    def wall_ms(self) -> Millis:
        """Milliseconds since the epoch: what records and files are stamped with."""

    def monotonic_ms(self) -> Millis:
        """Milliseconds that never go back: what time-outs are measured with."""
