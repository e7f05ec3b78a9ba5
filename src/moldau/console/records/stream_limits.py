"""How many streams a console keeps open: searches, live tails and downloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.console.page import PageFault

STREAMS_MAX = 32
STREAMS_OF_ONE_MAX = 6


class StreamLimits:
    def __init__(self) -> None:
        self._open: Counter[int] = Counter()

    def check(self, whose: object) -> None:
        """PageFault if there is no room for another."""
        if self._open.total() >= STREAMS_MAX or self._open[id(whose)] >= STREAMS_OF_ONE_MAX:
            raise PageFault(
                429,
                f"Too many searches, live views and downloads are open ({STREAMS_OF_ONE_MAX} of"
                f" one session and {STREAMS_MAX} in all may be): close one, then try again.",
            )

    @contextmanager
    def place(self, whose: object) -> Iterator[None]:
        self.check(whose)
        self._open[id(whose)] += 1
        try:
            yield
        finally:
            self._open[id(whose)] -= 1
            if not self._open[id(whose)]:
                del self._open[id(whose)]


LIMITS = StreamLimits()
"""Of this process."""
