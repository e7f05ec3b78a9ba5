"""Keeps a client from flooding the log: the same kind of line is written a few times, then counted.

Lines are of one kind if they were logged with the same format string, so a hostile client gains
nothing by varying the values; a line that says whose it is (`extra=of_caller(...)`) is of a kind
with that caller's alone. The first line after a silence says how many were left out.
"""

from __future__ import annotations

import logging

LINES_PER_WINDOW = 20
WINDOW_SECONDS = 10.0
KINDS_MAX = 1000
CALLER = "caller"


class LogLimit(logging.Filter):
    def __init__(
        self, lines_per_window: int = LINES_PER_WINDOW, window_seconds: float = WINDOW_SECONDS
    ) -> None:
        super().__init__()
        self._lines_per_window = lines_per_window
        self._window_seconds = window_seconds
        self._windows: dict[tuple[str, str, object], tuple[float, int]] = {}
        """When the window of a kind began and how many lines it has had."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG:
            return True  # somebody asked for every line
        kind = (record.name, str(record.msg), getattr(record, CALLER, None))
        begun, lines = self._windows.get(kind, (record.created, 0))
        if record.created - begun >= self._window_seconds:
            left_out = lines - self._lines_per_window
            if left_out > 0:
                record.msg = f"{record.msg} ({left_out} lines like this were left out)"
            begun, lines = record.created, 0
        if len(self._windows) >= KINDS_MAX:
            self._windows.clear()
        self._windows[kind] = (begun, lines + 1)
        return lines < self._lines_per_window


def of_caller(*caller: str) -> dict[str, object]:
    """Who it is that a line is about: nobody's lines are left out because of somebody else's."""
    return {CALLER: caller}
