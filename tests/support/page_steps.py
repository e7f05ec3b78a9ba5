"""Runs the `moldau` command, and notes how long each step of the broker's HTTP pages works.

    PAGE_STEPS=FILE python -m tests.support.page_steps server-start ...

The listener lets others have their turn between steps, so the longest one says how long a page may
hold the loop. Each page adds a line to FILE: its path, and the processor time of the longest step
in milliseconds, of every step the least that it took in all pages of that path so far. So the
machine's own pauses do not count, and work that is long is long each time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator

from moldau.broker.monitoring.http_listener import Asked, Page
from moldau.broker.monitoring.monitoring_pages import MonitoringPages

VARIABLE = "PAGE_STEPS"


class Steps:
    def __init__(self) -> None:
        self._least: dict[str, list[int]] = {}

    def of(self, path: str, pieces: Iterable[str]) -> Iterator[str]:
        took: list[int] = []
        begun = time.thread_time_ns()
        for piece in pieces:
            took.append(time.thread_time_ns() - begun)
            yield piece
            begun = time.thread_time_ns()
        before = self._least.get(path, took)
        self._least[path] = least = [min(both) for both in zip(before, took, strict=False)]
        with open(os.environ[VARIABLE], "a") as file:
            file.write(json.dumps([path, len(took), max(least) / 1e6]) + "\n")


if __name__ == "__main__":
    steps, page_at = Steps(), MonitoringPages.at

    def at(self: MonitoringPages, asked: Asked) -> Page:
        page = page_at(self, asked)
        return page._replace(pieces=steps.of(asked.path, page.pieces))

    MonitoringPages.at = at  # type: ignore[method-assign]
    from moldau.main import main

    sys.exit(main())
