"""The order in which Java's hash maps give back what was put in, for lines that Kafka prints so.

Some of Kafka's tools print settings or partitions in one line in that order. A runbook that
compares such a line sees the same one here. Rows that have a line each are sorted instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.model.names import TopicPartition

FIRST_BUCKETS = 16


def string_hash(text: str) -> int:
    """The signed 32 bits of Java's String.hashCode, over UTF-16 units."""
    units = text.encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def partition_hash(partition: TopicPartition) -> int:
    return (31 * (31 + partition.partition) + string_hash(partition.topic)) & 0xFFFFFFFF


def hash_order(keys: Iterable[Any], buckets: int = FIRST_BUCKETS) -> list[Any]:
    """Names or partitions, by bucket; within one they stay as they were put in. `buckets` is how
    many the map is made with."""
    found = list(keys)
    while len(found) > buckets * 3 // 4:
        buckets *= 2

    def bucket(key: str | TopicPartition) -> int:
        value = string_hash(key) if isinstance(key, str) else partition_hash(key)
        return (value ^ value >> 16) & (buckets - 1)

    return sorted(found, key=bucket)
