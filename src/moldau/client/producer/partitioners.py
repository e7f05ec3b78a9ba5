"""Which partition a record goes to when its sender does not say.

Records with a key go by its hash, as with Java's producer, so equal keys share a partition
whoever wrote them. Records without one stick to a partition until a batch is full and go on to
another then (KIP-794). Pure: chance comes in through `choose`, a function from n to 0..n-1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from moldau.client.shared.configured_classes import instance_of
from moldau.records.partitioner import murmur2, partition_for_key

__all__ = ["Partitioner", "RoundRobinPartitioner", "StickyChoice", "murmur2", "partition_for_key"]

Choose = Callable[[int], int]


class TopicView(NamedTuple):
    """What a partitioner may know of a topic."""

    topic: str
    partition_count: int
    available: tuple[int, ...]
    """Partitions that have a leader at the moment."""


class Partitioner(Protocol):
    """The interface for `partitioner.class`; a plain function with these arguments will do."""

    def partition(self, topic: TopicView, key: bytes | None, value: bytes | None) -> int:
        """The partition for a record, key and value serialized."""
        ...


class RoundRobinPartitioner:
    """Each record to the next available partition, whatever its key."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def partition(self, topic: TopicView, key: bytes | None, value: bytes | None) -> int:
        count = self._counts.get(topic.topic, 0)
        self._counts[topic.topic] = count + 1
        if topic.available:
            return topic.available[count % len(topic.available)]
        return count % topic.partition_count


class LegacyPartitioner:
    """As the producers of 0.8: number keys by remainder, others by Java's hashCode of the bytes."""

    def partition(self, topic: TopicView, key: bytes | None, value: bytes | None) -> int:
        if key is None:
            return topic.available[0] if topic.available else 0
        if len(key) == 8:
            return abs(int.from_bytes(key, "big", signed=True)) % topic.partition_count
        hashed = 1
        for byte in key:
            hashed = (31 * hashed + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
        return (hashed & 0x7FFFFFFF) % topic.partition_count


class StickyChoice:
    """The partition that records without a key of one topic go to at the moment.

    It changes when so many bytes went there that a batch is full. With `queue_lengths`, a
    partition is the less likely to be next the more batches wait for it.
    """

    __slots__ = ("_choose", "batch_size_bytes", "partition", "produced_bytes")

    def __init__(self, batch_size_bytes: int, choose: Choose) -> None:
        self.batch_size_bytes = batch_size_bytes
        self.partition = -1
        self.produced_bytes = 0
        self._choose = choose

    def current(self, topic: TopicView) -> int:
        if self.partition < 0 or self.partition >= topic.partition_count:
            self.next(topic)
        return self.partition

    def batch_closed(
        self, bytes_added: int, topic: TopicView, queue_lengths: Sequence[int] | None = None
    ) -> None:
        """A batch of the current partition is full or was taken away."""
        self.produced_bytes += bytes_added
        if self.produced_bytes >= self.batch_size_bytes:
            self.next(topic, queue_lengths)

    def next(self, topic: TopicView, queue_lengths: Sequence[int] | None = None) -> None:
        self.produced_bytes = 0
        candidates = list(topic.available or range(topic.partition_count))
        if len(candidates) > 1 and queue_lengths is None:
            # Another one than before, so that batches spread even with few partitions.
            others = tuple(p for p in candidates if p != self.partition)
            self.partition = others[self._choose(len(others))]
        elif len(candidates) > 1 and queue_lengths is not None:
            self.partition = self._weighted(candidates, queue_lengths)
        else:
            self.partition = candidates[0]

    def _weighted(self, candidates: Sequence[int], queue_lengths: Sequence[int]) -> int:
        longest = max(queue_lengths[partition] for partition in candidates)
        total = 0
        bounds: list[int] = []
        for partition in candidates:
            total += longest + 1 - queue_lengths[partition]
            bounds.append(total)
        drawn = self._choose(total)
        return next(p for p, bound in zip(candidates, bounds, strict=True) if drawn < bound)


_JAVA_PACKAGE = "org.apache.kafka.clients.producer."
_BUILT_IN = {
    "DefaultPartitioner": None,
    "UniformStickyPartitioner": None,
    _JAVA_PACKAGE + "internals.DefaultPartitioner": None,
    _JAVA_PACKAGE + "UniformStickyPartitioner": None,
    "RoundRobinPartitioner": RoundRobinPartitioner,
    _JAVA_PACKAGE + "RoundRobinPartitioner": RoundRobinPartitioner,
    "round_robin": RoundRobinPartitioner,
    "sticky": None,
    "default": None,
    "LegacyPartitioner": LegacyPartitioner,
    "kafka.producer.DefaultPartitioner": LegacyPartitioner,
}

Partition = Callable[[TopicView, bytes | None, bytes | None], int]


def load_partitioner(given: Any, settings: Mapping[str, Any]) -> Partition | None:
    """The function to ask, or None for the default: key hash and sticky."""
    if given is None or given == "":
        return None
    if isinstance(given, str) and given in _BUILT_IN:
        given = _BUILT_IN[given]
        if given is None:
            return None
    chosen = instance_of(given)
    if hasattr(chosen, "configure"):
        chosen.configure(settings)
    method: Partition = chosen.partition if hasattr(chosen, "partition") else chosen
    return method


def ignores_keys(given: Any) -> bool:
    """Whether the name is that of Java's partitioner that sticks whatever the key."""
    return isinstance(given, str) and given.endswith("UniformStickyPartitioner")
