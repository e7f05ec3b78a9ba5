"""Offsets of many partitions as one value: their JSON, and the arithmetic of a trigger. Pure.

The JSON is that of Spark's Kafka connector, in options and in checkpoints alike:
`{"orders":{"0":23,"1":-2}}`, where -2 is the earliest and -1 the latest offset. Ends are
exclusive: the offset of the record that comes next.

A checkpoint also says which topics these were, for a name may come to mean another one. The id of
a topic is a member without partitions: `{"orders":{"0":23},"orders#S1mxtwKfQ6GVxTIXGTLNJg":{}}`.
The connector, and a Moldau that does not know of ids, read that as nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.model.names import NO_TOPIC_ID, TopicPartition, uuid_from_text, uuid_text

LATEST = -1
EARLIEST = -2
OFFSET_MAX = 2**63 - 1

ID_MARK = "#"
"""Not in the name of any topic."""

Offsets = dict[TopicPartition, int]


class Position(NamedTuple):
    """How far a stream has read, and in which topics."""

    offsets: Offsets
    topic_ids: dict[str, bytes]
    """As far as brokers give ids; checkpoints of old have none."""

    @classmethod
    def decode(cls, value: Mapping[str, Any]) -> Position:
        ids = {}
        for member in value:
            topic, mark, text = member.partition(ID_MARK)
            if mark:
                ids[topic] = uuid_from_text(text)
        return cls(offsets_from(value), ids)

    def encode(self) -> dict[str, dict[str, int]]:
        """The same position always gives the same JSON, for Spark compares it as text."""
        value = offsets_to(self.offsets)
        for topic, topic_id in sorted(self.topic_ids.items()):
            if topic_id != NO_TOPIC_ID:
                value[f"{topic}{ID_MARK}{uuid_text(topic_id)}"] = {}
        return value

    def is_of_other(self, topic: str, topic_ids: Mapping[str, bytes]) -> bool:
        """Whether the name means another topic there, as far as both ids are known."""
        mine, other = self.topic_ids.get(topic), topic_ids.get(topic)
        return None not in (mine, other) and mine != other

    def offsets_in(self, topic_ids: Mapping[str, bytes]) -> Offsets:
        """The offsets that mean something in those topics."""
        return {
            tp: offset
            for tp, offset in self.offsets.items()
            if not self.is_of_other(tp.topic, topic_ids)
        }


class OffsetRange(NamedTuple):
    """What one task reads: the records from `start` up to, not including, `end`."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def offsets_from(value: Mapping[str, Any], kind: str = "offset") -> Offsets:
    """Offsets (or timestamps) out of what JSON became; ValueError says what is wrong in it."""
    found: Offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"{topic} must have an object with partitions, not {partitions!r}")
        for partition, number in partitions.items():
            if not str(partition).isdecimal():
                raise ValueError(f"{partition!r} is not a partition of {topic}")
            if not isinstance(number, int) or isinstance(number, bool):
                raise ValueError(f"{number!r} is not the {kind} of {topic}-{partition}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def offsets_to(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The same offsets always give the same JSON, for Spark compares offsets as text."""
    value: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        value.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return value


def parse_offsets(text: str, kind: str = "offset") -> Offsets:
    return offsets_from(_parsed(text), kind)


def parse_partitions(text: str) -> frozenset[TopicPartition]:
    """`{"orders":[0,1]}`"""
    found = set()
    for topic, partitions in _parsed(text).items():
        if not isinstance(partitions, list):
            raise ValueError(f"{topic} must have a list of partitions, not {partitions!r}")
        for partition in partitions:
            if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
                raise ValueError(f"{partition!r} is not a partition of {topic}")
            found.add(TopicPartition(topic, partition))
    if not found:
        raise ValueError("it names no partition")
    return frozenset(found)


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as fault:
        raise ValueError(f"it is not JSON: {fault}") from None
    if not isinstance(value, dict):
        raise ValueError("it must be a JSON object with a member for each topic")
    return value


def offsets_text(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps(offsets_to(offsets), separators=(",", ":"))


def limit_rows(start: Mapping[TopicPartition, int], end: Offsets, rows_max: int) -> Offsets:
    """An end that is at most about `rows_max` rows away, shared in proportion to what waits.

    A partition with little still moves by one, so that none starves.
    """
    sizes = {tp: end[tp] - start[tp] for tp in end if tp in start and end[tp] > start[tp]}
    total = sum(sizes.values())
    if total <= rows_max:
        return end
    limited = dict(end)
    for tp, size in sizes.items():
        share = rows_max * size / total
        share = math.ceil(share) if share < 1 else math.floor(share)
        limited[tp] = min(end[tp], start[tp] + int(share))
    return limited


def rows_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    return sum(max(offset - start.get(tp, 0), 0) for tp, offset in end.items())


def split_ranges(
    ranges: Iterable[OffsetRange], count_min: int | None, rows_max: int | None
) -> list[OffsetRange]:
    """At least `count_min` ranges of at most `rows_max` offsets, if there are offsets enough.

    Big ranges are cut into more parts than small ones.
    """
    whole = [each for each in ranges if each.size > 0]
    if rows_max is not None:
        whole = [part for each in whole for part in _cut(each, math.ceil(each.size / rows_max))]
    if count_min is None or len(whole) >= count_min:
        return whole
    total = sum(each.size for each in whole)
    return [
        part
        for each in whole
        for part in _cut(each, max(1, math.ceil(each.size / total * count_min)))
    ]


def _cut(each: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = min(parts, each.size)
    edges = [each.start + each.size * part // parts for part in range(parts + 1)]
    return [OffsetRange(each.tp, edges[i], edges[i + 1]) for i in range(parts)]
