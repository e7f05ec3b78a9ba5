"""From a logger to the queue of a thread: what stands between `logging` and the sinks."""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TextIO

from moldau.broker.broker_log.line_writer import LineWriter, Sink
from moldau.model.log_line_limit import LogLimit

OWN_NAME = "moldau.broker.log"
"""Of lines about the log itself."""


class Outlet(NamedTuple):
    layout: logging.Formatter
    threshold: int
    writer: LineWriter
    sink: Sink


class OneLimit(LogLimit):
    """The limit of lines of one kind, asked once for each line however many handlers have it."""

    def filter(self, record: logging.LogRecord) -> bool:
        known: bool | None = getattr(record, "is_within_limit", None)
        if known is None:
            known = record.is_within_limit = super().filter(record)
        return known


class OutletHandler(logging.Handler):
    def __init__(self, outlets: Sequence[Outlet], limit: OneLimit) -> None:
        super().__init__()
        self._outlets = outlets
        self.addFilter(limit)

    def emit(self, record: logging.LogRecord) -> None:
        layout, line = None, ""
        for outlet in self._outlets:
            if record.levelno < outlet.threshold:
                continue
            if outlet.layout is not layout:
                layout = outlet.layout
                try:
                    line = layout.format(record) + "\n"
                except (TypeError, ValueError) as fault:
                    # A message whose arguments do not fit it: its line is worth more than it.
                    line = f"{record.name}: {record.msg!r} {record.args!r} ({fault})\n"
            outlet.writer.put(outlet.sink, line)


class StreamSink:
    """Standard output, by its descriptor: whoever does not read it holds up one thread."""

    def __init__(self, stream: TextIO | None, layout: logging.Formatter) -> None:
        self._stream = stream or sys.stdout
        self._layout = layout
        self._descriptor = -1
        with suppress(OSError, ValueError):
            self._descriptor = self._stream.fileno()

    def write(self, lines: list[str]) -> None:
        # A log that cannot be written (a closed pipe, a full disk) must not end the broker.
        with suppress(OSError, ValueError):
            if self._descriptor < 0:
                self._stream.write("".join(lines))
                return
            rest = memoryview("".join(lines).encode(errors="backslashreplace"))
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def tell_lost(self, count: int) -> None:
        sentence = f"{count} lines are missing here: more came than could be written"
        self.write([remark_line(self._layout, sentence)])


def remark_line(layout: logging.Formatter, sentence: str, level: int = logging.WARNING) -> str:
    """A line about the log, made where `logging` itself must not be asked."""
    record = logging.LogRecord(OWN_NAME, level, __file__, 0, sentence, None, None)
    return layout.format(record) + "\n"


class FolderLock:
    """A folder of log files that is this process's alone: two would roll one another's files."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder if it is not there. Raises OSError; BlockingIOError if it is taken."""
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied", str(folder))
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        os.close(self._descriptor)
