"""Not more than so many records a second, spread evenly; a rate of 0 or less is no limit."""

from __future__ import annotations

import time

PAUSE_SECONDS_MIN = 0.002


class Throttle:
    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self.start = time.monotonic()

    def wait(self, count: int) -> None:
        """Called when `count` records were sent since the start."""
        if self.per_second <= 0:
            return
        ahead = count / self.per_second - (time.monotonic() - self.start)
        if ahead > PAUSE_SECONDS_MIN:
            time.sleep(ahead)
