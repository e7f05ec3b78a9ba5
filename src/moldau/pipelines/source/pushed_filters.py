"""Filters that Spark hands down, as bounds on what a batch read has to fetch. Pure.

Comparisons of topic, partition and offset are met exactly, and Spark need not look at them again.
A least timestamp narrows the read, and Spark filters the rest: records need not be in the order of
their timestamps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from moldau.model.names import TopicPartition
from moldau.pipelines.source.source_offsets import OFFSET_MAX


class Bounds(NamedTuple):
    """What every filter seen so far allows."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    partition_first: int = 0
    partition_end: int = OFFSET_MAX
    offset_first: int = 0
    offset_end: int = OFFSET_MAX
    timestamp_first_ms: int | None = None

    def admits(self, tp: TopicPartition) -> bool:
        return (
            (self.topics is None or tp.topic in self.topics)
            and (self.partitions is None or tp.partition in self.partitions)
            and self.partition_first <= tp.partition < self.partition_end
        )


def push(filters: Iterable[Any]) -> tuple[Bounds, list[Any]]:
    """The bounds, and the filters that Spark still has to apply."""
    bounds = Bounds()
    left = []
    for each in filters:
        narrowed = _narrow(bounds, each)
        if narrowed is None or _column(each) == "timestamp":
            left.append(each)
        bounds = narrowed or bounds
    return bounds, left


def _column(each: Any) -> str | None:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else None


def _narrow(bounds: Bounds, each: Any) -> Bounds | None:
    """None if the filter says nothing about what to fetch."""
    kind = type(each).__name__
    column = _column(each)
    if column in ("topic", "partition", "offset") and kind == "IsNotNull":
        return bounds
    value = getattr(each, "value", None)
    if value is None:
        return None
    if column == "topic":
        return _narrow_topics(bounds, kind, value)
    if column == "partition":
        return _narrow_partitions(bounds, kind, value)
    if column == "offset" and _is_whole(value):
        first, end = _interval(kind, value)
        return (
            None
            if first is None
            else bounds._replace(
                offset_first=max(bounds.offset_first, first), offset_end=min(bounds.offset_end, end)
            )
        )
    if column == "timestamp" and isinstance(value, datetime):
        return _narrow_timestamp(bounds, kind, value)
    return None


def _narrow_topics(bounds: Bounds, kind: str, value: Any) -> Bounds | None:
    if kind in ("EqualTo", "EqualNullSafe") and isinstance(value, str):
        names = frozenset({value})
    elif kind == "In" and all(isinstance(name, str) for name in value):
        names = frozenset(value)
    else:
        return None
    return bounds._replace(topics=names if bounds.topics is None else bounds.topics & names)


def _narrow_partitions(bounds: Bounds, kind: str, value: Any) -> Bounds | None:
    if kind == "In" and all(map(_is_whole, value)):
        numbers = frozenset(value)
        both = numbers if bounds.partitions is None else bounds.partitions & numbers
        return bounds._replace(partitions=both)
    if not _is_whole(value):
        return None
    first, end = _interval(kind, value)
    return (
        None
        if first is None
        else bounds._replace(
            partition_first=max(bounds.partition_first, first),
            partition_end=min(bounds.partition_end, end),
        )
    )


def _narrow_timestamp(bounds: Bounds, kind: str, value: datetime) -> Bounds | None:
    if kind not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return None
    aware = value if value.tzinfo is not None else value.astimezone()
    first_ms = math.floor((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000) - 1
    if first_ms < 0:
        # To a broker negative numbers are not times.
        return None
    return bounds._replace(timestamp_first_ms=max(bounds.timestamp_first_ms or 0, first_ms))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _interval(kind: str, value: int) -> tuple[int | None, int]:
    """First and end (exclusive) that a comparison allows; None if it is no interval."""
    if kind in ("EqualTo", "EqualNullSafe"):
        return value, value + 1
    if kind == "GreaterThan":
        return value + 1, OFFSET_MAX
    if kind == "GreaterThanOrEqual":
        return value, OFFSET_MAX
    if kind == "LessThan":
        return 0, value
    if kind == "LessThanOrEqual":
        return 0, value + 1
    return None, 0
