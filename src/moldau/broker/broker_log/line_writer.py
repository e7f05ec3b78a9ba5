"""Lines on their way to disks and pipes: a bounded queue and the thread behind it.

Whoever logs only puts a text into the queue, so the loop never waits for a disk, nor for somebody
who does not read what it prints. What does not fit is dropped and counted; the number is told in
the place where the lines would have stood, as soon as there is room again.
"""

from __future__ import annotations

import threading
from typing import Protocol

LINES_MAX = 10_000
CHARACTERS_MAX = 8 * 1024 * 1024
"""Of all that waits for one thread."""


class Sink(Protocol):
    """Where lines end; only the thread of its writer calls it."""

    def write(self, lines: list[str]) -> None:
        """Each ends with a newline. Never raises for what a disk or a pipe does."""

    def tell_lost(self, count: int) -> None:
        """That many lines were dropped before those of the next call of `write`."""


class LineWriter:
    def __init__(
        self, name: str, lines_max: int = LINES_MAX, characters_max: int = CHARACTERS_MAX
    ) -> None:
        self._name = name
        self._lines_max = lines_max
        self._characters_max = characters_max
        self._changed = threading.Condition(threading.Lock())
        self._lines: list[tuple[Sink, str]] = []
        self._characters = 0
        self._lost: dict[Sink, int] = {}
        self._is_closed = False
        self._is_writing = False
        self._thread: threading.Thread | None = None

    def put(self, sink: Sink, line: str) -> None:
        with self._changed:
            if self._thread is None:
                self._start()
            room = self._characters_max - self._characters
            if self._is_closed or len(self._lines) >= self._lines_max or len(line) > room:
                self._lost[sink] = self._lost.get(sink, 0) + 1
                return
            self._lines.append((sink, line))
            self._characters += len(line)
            if len(self._lines) == 1:
                self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until what was put is written, but not longer; whether it is."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, seconds)

    def close(self, seconds: float) -> bool:
        """Write what is there, and take no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            return self._changed.wait_for(self._is_idle, seconds)

    def _is_idle(self) -> bool:
        return not self._lines and not self._is_writing

    def _start(self) -> None:
        # A daemon: a pipe that nobody reads must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines or self._is_closed)
                if not self._lines:
                    return
                lines, self._lines, self._characters = self._lines, [], 0
                lost, self._lost = self._lost, {}
                self._is_writing = True
            by_sink: dict[Sink, list[str]] = {}
            for sink, line in lines:
                by_sink.setdefault(sink, []).append(line)
            for sink, of_sink in by_sink.items():
                sink.write(of_sink)
            # They came when the queue was full: after the lines that filled it.
            for sink, count in lost.items():
                sink.tell_lost(count)
