"""Waiting for what a broker may take a moment to show."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.compat.clients.port import Refused

SECONDS_MAX = 15


def eventually(check: Callable[[], bool], seconds_max: float = SECONDS_MAX) -> None:
    """Ask again until it holds: a broker may answer from metadata that is a moment old."""
    deadline = time.monotonic() + seconds_max
    while True:
        try:
            if check():
                return
        except Refused:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
