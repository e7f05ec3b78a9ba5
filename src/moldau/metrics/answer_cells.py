"""What became of requests: errors by API, old versions that clients still use, how long they had
to wait because of a quota.

Nothing is counted for a request that went well: how many there were says `RequestCells`.
"""

from __future__ import annotations

from moldau.metrics.duration_cells import DurationCells

DEPRECATED_MAX = 1_000
"""Clients name their libraries as they like: beyond so many rows they are counted together."""
OTHERS = "others"

OldVersion = tuple[int, int, str, str]
"""Key of the API, version, name and version of the client's library."""


class AnswerCells:
    __slots__ = ("errors", "failed", "old_versions", "throttled")

    def __init__(self) -> None:
        self.errors: dict[int, dict[int, int]] = {}
        """By the key of the API, then by error code."""
        self.failed: dict[int, int] = {}
        """Answers with any error in them, by the key of the API."""
        self.old_versions: dict[OldVersion, int] = {}
        self.throttled: dict[int, DurationCells] = {}
        """By the key of the API; only those that had to wait."""

    def fail(self, api_key: int, codes: list[int]) -> None:
        """One answer that has these errors in it."""
        counts = self.errors.setdefault(api_key, {})
        for code in codes:
            counts[code] = counts.get(code, 0) + 1
        self.failed[api_key] = self.failed.get(api_key, 0) + 1

    def note_old(self, api_key: int, version: int, software: tuple[str, str]) -> None:
        counts = self.old_versions
        key = (api_key, version, software[0] or "unknown", software[1] or "unknown")
        if key not in counts and len(counts) >= DEPRECATED_MAX:
            key = (api_key, version, OTHERS, OTHERS)
        counts[key] = counts.get(key, 0) + 1

    def throttle(self, api_key: int, wait_ms: int) -> None:
        cells = self.throttled.get(api_key)
        if cells is None:
            cells = self.throttled[api_key] = DurationCells()
        cells.add(wait_ms * 1_000_000)

    def turn(self) -> None:
        """Called each time that quantiles should forget what is old."""
        for cells in self.throttled.values():
            cells.turn()
