"""What a controller's elections are counted in: plain cells, of all terms of this broker."""

from __future__ import annotations

from moldau.metrics.duration_cells import DurationCells
from moldau.model.cluster import NO_LEADER, PartitionImage


class ElectionCells:
    __slots__ = ("elected", "times", "unclean")

    def __init__(self) -> None:
        self.elected = 0
        """Partitions that got another leader."""
        self.unclean = 0
        """Of these, how many got one that was not in sync."""
        self.times = DurationCells()
        """From a command that elects leaders until all of it is durable."""

    def see(self, before: PartitionImage, after: PartitionImage) -> None:
        if after.leader not in (NO_LEADER, before.leader):
            self.elected += 1
            self.unclean += after.leader not in before.isr
