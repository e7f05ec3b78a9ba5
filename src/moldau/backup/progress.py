"""Who hears how far a backup, a restore or a comparison is; commands show it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def begins(self, total_offsets: int) -> None:
        """So many offsets are to be gone through."""

    def copied(self, raw_bytes: int, offsets: int = 0) -> None:
        """More of them."""
