"""What the cleaner tells of its rounds, for whoever watches the broker. Plain numbers."""

from __future__ import annotations

from moldau.model.names import Millis


class CleanerFigures:
    __slots__ = ("bytes_read", "bytes_written", "dirty_max", "looked_ms", "round_ms_max")

    def __init__(self, now_ms: Millis) -> None:
        self.looked_ms = now_ms
        """When it last looked for work, by the wall clock; or began to be there."""
        self.dirty_max = 0.0
        """Of the dirtiest log that it saw then, how much of it was dirty, 0 to 1."""
        self.round_ms_max: Millis = 0
        """How long the longest round took."""
        self.bytes_read = 0
        """By all rounds that came to their end; so for the next."""
        self.bytes_written = 0

    def looked(self, now_ms: Millis) -> None:
        self.looked_ms = now_ms
        self.dirty_max = 0.0

    def finished(self, took_ms: Millis, bytes_read: int, bytes_written: int) -> None:
        self.round_ms_max = max(self.round_ms_max, took_ms)
        self.bytes_read += bytes_read
        self.bytes_written += bytes_written
