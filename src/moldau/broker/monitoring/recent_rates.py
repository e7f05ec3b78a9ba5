"""Rates of counters, for dashboards that do not compute them: what was counted a while ago is noted
now and then, so that nothing is measured while requests are served.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping

NOTE_MS = 10_000
NOTES = 31
"""Five minutes."""

Totals = Mapping[Hashable, int]


class RecentRates:
    def __init__(self, totals: Callable[[], Totals], now_ms: Callable[[], int]) -> None:
        """`totals` gives all counters by their names."""
        self._totals = totals
        self._now_ms = now_ms
        self._notes: deque[tuple[int, Totals]] = deque(maxlen=NOTES)
        self.note()

    def note(self) -> None:
        self._notes.append((self._now_ms(), dict(self._totals())))

    def rates(self, seconds: int) -> dict[Hashable, float]:
        """Of every counter per second, in the last so many seconds or as long as is known."""
        now_ms, totals = self._now_ms(), self._totals()
        since_ms = now_ms - seconds * 1000
        at_ms, before = self._notes[0]
        for note in self._notes:
            if note[0] > since_ms:
                break
            at_ms, before = note
        passed = (now_ms - at_ms) / 1000
        if passed <= 0:
            return dict.fromkeys(totals, 0.0)
        return {
            name: round(max(0, count - before.get(name, 0)) / passed, 4)
            for name, count in totals.items()
        }
