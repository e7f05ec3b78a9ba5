"""What goes in and out, counted for each topic: plain cells that only the loop adds to.

A replica holds the cells of its topic, so that counting is an addition and no search. When the last
replica of a topic leaves this broker its cells go too, and what they counted stays in the sum.
"""

from __future__ import annotations

from collections.abc import Iterator


class TrafficCells:
    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetch_conversions",
        "fetches",
        "invalid_checksums",
        "invalid_formats",
        "invalid_sequences",
        "keyless",
        "messages_in",
        "produce_conversions",
        "produces",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "replicas",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0
        self.bytes_rejected = 0
        self.produce_conversions = 0
        self.fetch_conversions = 0
        self.invalid_checksums = 0
        self.invalid_formats = 0
        self.invalid_sequences = 0
        self.keyless = 0
        self.replicas = 0
        """How many replicas here count into them."""


COUNTED = tuple(name for name in TrafficCells.__slots__ if name != "replicas")


class Traffic:
    """Of a broker."""

    def __init__(self) -> None:
        self._topics: dict[str, TrafficCells] = {}
        self.of = self._topics.get
        """The cells of a topic; None if nothing of it is here."""
        self._gone = TrafficCells()
        """What topics counted that are not here any more."""

    def join(self, topic: str) -> TrafficCells:
        """The cells for one more replica of the topic."""
        cells = self._topics.get(topic)
        if cells is None:
            cells = self._topics[topic] = TrafficCells()
        cells.replicas += 1
        return cells

    def leave(self, topic: str) -> None:
        cells = self._topics[topic]
        cells.replicas -= 1
        if not cells.replicas:
            del self._topics[topic]
            for name in COUNTED:
                setattr(self._gone, name, getattr(self._gone, name) + getattr(cells, name))

    def topics(self) -> Iterator[tuple[str, TrafficCells]]:
        return iter(list(self._topics.items()))

    def total(self, name: str) -> int:
        return sum(getattr(cells, name) for cells in (self._gone, *self._topics.values()))
