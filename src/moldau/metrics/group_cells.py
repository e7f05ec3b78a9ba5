"""What a group coordinator has done. What a replay brings back counts for nothing."""

from __future__ import annotations


class GroupCells:
    __slots__ = ("committed", "completed", "removed")

    def __init__(self) -> None:
        self.committed = 0
        """Offsets."""
        self.removed = 0
        """Offsets that went: too old, deleted, or of a topic that is gone."""
        self.completed = 0
        """Rebalances that came to their end."""
