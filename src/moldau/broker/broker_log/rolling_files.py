"""A log file that begins anew every hour, and the bound on all that were written before.

As in Apache Kafka the full hour's file is renamed when the first line after it comes: server.log
becomes server.log.2026-11-16-07. What Kafka lacks: the rolled files of a folder are bounded in
number and in size, so an hour that gets too long is cut too (….07.1, ….07.2), and a disk that is
full costs lines, never the broker. Only the thread of a LineWriter works here.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from moldau.broker.broker_log.log_plan import HOURLY

RETRY_SECONDS = 10.0
LINES_AT_ONCE = 50
PARTS = 16
"""A file is cut when it holds that part of what all may hold: the six that are written into never
fill the bound by themselves."""
_SUFFIX = re.compile(r"\.[0-9][0-9-]*(\.[0-9]+)?")


class RolledFiles:
    """What was written before, in one folder. Removes the oldest beyond the bounds; touches only
    regular files that are called as one of its own with a date behind it."""

    def __init__(self, folder: Path, files_max: int, bytes_max: int) -> None:
        self.folder = folder
        self.part_bytes = max(1, bytes_max // PARTS)
        self._files_max = files_max
        self._bytes_max = bytes_max
        self.names: set[str] = set()

    def tidy(self) -> None:
        rolled: list[tuple[int, str, int]] = []
        # What is written into now may grow to a part each before this is called again.
        rolled_bytes_max = self._bytes_max - self.part_bytes * len(self.names)
        rolled_bytes = 0
        counts = dict.fromkeys(self.names, 0)
        for entry in os.scandir(self.folder):
            name = self._name_of(entry.name)
            if name is None or entry.name == name:
                continue
            with suppress(FileNotFoundError):
                seen = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(seen.st_mode):
                    rolled_bytes += seen.st_size
                    rolled.append((seen.st_mtime_ns, entry.name, seen.st_size))
                    counts[name] += 1
        for _, file, size in sorted(rolled):
            name = self._name_of(file)
            assert name is not None
            if rolled_bytes <= rolled_bytes_max and counts[name] <= self._files_max:
                continue
            with suppress(FileNotFoundError):
                (self.folder / file).unlink()
            rolled_bytes -= size
            counts[name] -= 1

    def _name_of(self, file: str) -> str | None:
        """Whose file it is: its own, or rolled by it."""
        if file in self.names:
            return file
        for name in self.names:
            if file.startswith(name) and _SUFFIX.fullmatch(file, len(name)):
                return name
        return None


class RollingFile:
    def __init__(
        self,
        path: Path,
        before: RolledFiles,
        alarm: Callable[[str], None],
        remark: Callable[[str], str],
        *,
        suffix: str | None = HOURLY,
        now: Callable[[], float] = time.time,
        on_open: Callable[[int], None] | None = None,
    ) -> None:
        """`alarm` is told of a disk that fails; `remark` makes a sentence a line of this file.
        `suffix` is a pattern of strftime, None for a file that is cut by size alone."""
        self.path = path
        self._before = before
        self._alarm = alarm
        self._remark = remark
        self._suffix = suffix
        self._now = now
        self._on_open = on_open
        self._file = -1
        self._inode = -1
        self._size_bytes = 0
        self._period = ""
        self._last_period: str | None = None
        self._last_number = 0
        self._lost = 0
        self._fault: OSError | None = None
        self._retry_at = 0.0
        before.names.add(path.name)

    # As a sink

    def write(self, lines: list[str]) -> None:
        if self._fault is not None and time.monotonic() < self._retry_at:
            self._lost += len(lines)
            return
        written = 0
        try:
            while written < len(lines):
                self._make_ready()
                some = lines[written : written + LINES_AT_ONCE]
                self._append([self._remark(self._loss()), *some] if self._lost else some)
                written += len(some)
                self._lost = 0
                self._fault = None
        except OSError as fault:
            self._failed(fault, len(lines) - written)

    def tell_lost(self, count: int) -> None:
        self._lost += count

    def _loss(self) -> str:
        if self._fault is None:
            return f"{self._lost} lines are missing here: more came than could be written"
        return f"{self._lost} lines are missing here: {self._fault.strerror}"

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # The file

    def _make_ready(self) -> None:
        """Have the file of this hour open, also if somebody has moved it away."""
        period = self._period_at(self._now())
        if self._file >= 0:
            try:
                is_there = os.stat(self.path).st_ino == self._inode
            except FileNotFoundError:
                is_there = False
            if not is_there:
                self.close()
        if self._file < 0:
            self._open()
        if self._period != period or self._size_bytes >= self._before.part_bytes:
            self._roll(period)

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        seen = os.fstat(self._file)
        self._inode, self._size_bytes = seen.st_ino, seen.st_size
        self._period = self._period_at(seen.st_mtime if seen.st_size else self._now())
        if self._on_open is not None:
            self._on_open(self._file)
        self._before.tidy()

    def _roll(self, period: str) -> None:
        if self._size_bytes:
            os.rename(self.path, self._free_name())
            self.close()
            self._open()
        self._period = period

    def _free_name(self) -> Path:
        """Of a full hour: numbered if the hour was cut, or if the clock was set back. Numbers only
        grow, also when the first of them are gone already."""
        plain = self.path.name + (self._period or ".0")
        numbers = [self._last_number] if self._last_period == self._period else []
        for name in os.listdir(self.path.parent):
            if name == plain:
                numbers.append(0)
            elif name.startswith(f"{plain}.") and name[len(plain) + 1 :].isdecimal():
                numbers.append(int(name[len(plain) + 1 :]))
        number = max(numbers, default=-1) + 1
        self._last_period, self._last_number = self._period, number
        return self.path.with_name(f"{plain}.{number}" if number else plain)

    def _period_at(self, seconds: float) -> str:
        return time.strftime(self._suffix, time.localtime(seconds)) if self._suffix else ""

    def _append(self, lines: list[str]) -> None:
        """All or nothing: what a full disk has taken of it is cut off again."""
        data = "".join(lines).encode(errors="backslashreplace")
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size_bytes)
            raise
        self._size_bytes += len(data)

    def _failed(self, fault: OSError, lines: int) -> None:
        self._lost += lines
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if self._fault is None:
            self._alarm(
                f"The log file {self.path} cannot be written: {fault.strerror}. Its lines are "
                f"counted, and it is tried again every {RETRY_SECONDS:.0f} seconds"
            )
        self._fault = fault
