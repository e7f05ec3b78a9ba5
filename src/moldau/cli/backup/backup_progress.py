"""How far a backup or a restore is: a bar on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import sys
import time

LINE_S = 5.0
BAR_S = 0.1
BAR_WIDTH = 30


class ByteProgress:
    """On stderr, so that what is printed stays clean."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._is_terminal = sys.stderr.isatty()
        self._started = self._said = time.monotonic()
        self._bytes = self._offsets = self._total = 0
        self._has_bar = False

    def begins(self, total_offsets: int) -> None:
        self._total, self._offsets, self._bytes = total_offsets, 0, 0
        self._started = self._said = time.monotonic()

    def copied(self, raw_bytes: int, offsets: int = 0) -> None:
        self._bytes += raw_bytes
        self._offsets += offsets
        now = time.monotonic()
        if now - self._said >= (BAR_S if self._is_terminal else LINE_S):
            self._said = now
            self._show(now)

    def ends(self) -> None:
        if self._has_bar:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._has_bar = False

    def _show(self, now: float) -> None:
        rate = self._bytes / max(now - self._started, 0.001) / 1e6
        share = min(1.0, self._offsets / self._total) if self._total else 1.0
        text = f"{self._verb} {self._bytes / 1e6:.0f} MB, {rate:.0f} MB/s, {100 * share:.0f} %"
        if self._is_terminal:
            full = int(share * BAR_WIDTH)
            bar = "█" * full + "░" * (BAR_WIDTH - full)
            print(f"\r\x1b[K{bar} {text}", end="", file=sys.stderr, flush=True)
            self._has_bar = True
        else:
            print(text, file=sys.stderr, flush=True)
