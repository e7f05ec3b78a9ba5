"""The time as a port: whoever needs it is given a clock, and tests give a virtual one."""

from __future__ import annotations

import sys
from typing import NamedTuple, Protocol

from moldau.model.names import Millis


class Now(NamedTuple):
    """One moment, as a state machine is told of it: by both clocks, and how much may be kept."""

    wall_ms: Millis
    """For what is stored and for what is counted from a stored time."""
    monotonic_ms: Millis
    """For timers and for whatever is counted from a moment in this process."""
    room_bytes: int = sys.maxsize
    """What the states of all machines of a kind may still take together. Told with the commands by
    which a state may grow: a number of an earlier moment would let many machines pass the bound."""


class Clock(Protocol):
    def wall_ms(self) -> Millis:
        """Milliseconds since the epoch: what records and files are stamped with."""

    def monotonic_ms(self) -> Millis:
        """Milliseconds that never go back: what time-outs are measured with."""
