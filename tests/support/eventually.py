"""Waiting for what a process in the background is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.02


def eventually(check: Callable[[], bool], seconds_max: float = SECONDS_MAX) -> None:
    """Ask again until it holds."""
    deadline = time.monotonic() + seconds_max
    while not check():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(PAUSE_SECONDS)
