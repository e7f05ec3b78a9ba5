"""How a broker's session with ZooKeeper fares."""

from __future__ import annotations

from moldau.metrics.duration_cells import DurationCells


class ZooKeeperCells:
    __slots__ = ("connects", "disconnects", "expiries", "latency", "refusals", "state")

    def __init__(self) -> None:
        self.connects = 0
        self.disconnects = 0
        self.expiries = 0
        self.refusals = 0
        """Answers that this client may not do or be what it wants."""
        self.latency = DurationCells()
        """From a call until its answer."""
        self.state = "CONNECTING"
