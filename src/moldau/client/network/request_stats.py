"""How long brokers take to answer a client, counted while a broker wants to know (KIP-714).

Two additions for a request; a connection of a client that nobody asks holds None instead.
"""

from __future__ import annotations


class LatencyCell:
    __slots__ = ("count", "longest_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.longest_s = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        self.longest_s = max(self.longest_s, seconds)

    def merge(self, other: LatencyCell) -> None:
        self.count += other.count
        self.total_s += other.total_s
        self.longest_s = max(self.longest_s, other.longest_s)


class NodeStats:
    """Of the answers of one broker."""

    __slots__ = ("by_api", "throttle")

    def __init__(self) -> None:
        self.by_api: dict[int, LatencyCell] = {}
        self.throttle = LatencyCell()
        """Of writes: how long the broker made the client wait."""

    def answered(self, api_key: int, seconds: float, throttle_ms: int) -> None:
        cell = self.by_api.get(api_key)
        if cell is None:
            cell = self.by_api[api_key] = LatencyCell()
        cell.add(seconds)
        if api_key == 0:
            self.throttle.add(throttle_ms / 1000)

    def taken(self) -> NodeStats:
        """What was counted; from now on it is counted anew."""
        taken = NodeStats()
        taken.by_api, self.by_api = self.by_api, {}
        taken.throttle, self.throttle = self.throttle, LatencyCell()
        return taken
