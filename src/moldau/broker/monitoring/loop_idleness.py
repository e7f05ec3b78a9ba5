"""How much of the last minute the event loop had nothing to do, by its thread's processor time.

Nothing is measured while requests are served: a job notes now and then how long the thread ran.
"""

from __future__ import annotations

import time
from collections import deque

NOTES = 7


class LoopIdleness:
    def __init__(self) -> None:
        self._notes: deque[tuple[int, int]] = deque(maxlen=NOTES)
        self.note()

    def note(self) -> None:
        """Called on the loop."""
        self._notes.append((time.monotonic_ns(), time.thread_time_ns()))

    def share(self) -> float:
        """0 to 1; called on the loop."""
        at_ns, ran_ns = self._notes[0]
        passed_ns = time.monotonic_ns() - at_ns
        if passed_ns <= 0:
            return 1.0
        busy = (time.thread_time_ns() - ran_ns) / passed_ns
        return round(min(1.0, max(0.0, 1.0 - busy)), 4)
