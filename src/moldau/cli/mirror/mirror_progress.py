"""How a mirror that runs goes on: one line that is always new on a terminal, a line now and then in
a pipe. Lag and rate are live."""

from __future__ import annotations

import sys
import time

from moldau.mirroring.topic_mirrors import TopicMirrors

LINE_S = 10.0
BAR_S = 0.5


class MirrorProgress:
    """On stderr, so that what is printed stays clean."""

    def __init__(self, mirrors: TopicMirrors) -> None:
        self._mirrors = mirrors
        self._is_terminal = sys.stderr.isatty()
        self._said = time.monotonic()
        self._bytes = self._records = 0
        self._has_line = False

    def look(self) -> None:
        now = time.monotonic()
        if now - self._said >= (BAR_S if self._is_terminal else LINE_S):
            self._show(now)

    def ends(self) -> None:
        if self._has_line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._has_line = False

    def _show(self, now: float) -> None:
        partitions = list(self._mirrors.partitions())
        total_bytes = sum(each.bytes for each in partitions)
        records = sum(each.records for each in partitions)
        seconds = now - self._said
        text = line(
            len(partitions),
            sum(each.lag for each in partitions if each.lag > 0),
            (total_bytes - self._bytes) / seconds,
            (records - self._records) / seconds,
            sum(bool(each.stopped) for each in partitions),
            next((each.trouble for each in partitions if each.trouble), ""),
        )
        self._said, self._bytes, self._records = now, total_bytes, records
        if self._is_terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._has_line = True
        else:
            print(text, file=sys.stderr, flush=True)


def line(
    partitions: int, lag: int, byte_rate: float, record_rate: float, stopped: int, trouble: str
) -> str:
    text = (
        f"{partitions} partitions, {lag} records behind, {byte_rate / 1e6:.1f} MB/s,"
        f" {record_rate:.0f} records/s"
    )
    if stopped:
        text += f", {stopped} stopped"
    return f"{text} ({trouble})" if trouble else text
