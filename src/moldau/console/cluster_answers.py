"""What pages ask of a whole cluster: each a function of a link, kept for some seconds by it.

Every function here costs a fixed number of requests, however many topics there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from moldau.admin import (
    ClusterDescription,
    GroupOffsets,
    LogDirDescription,
    OffsetSpec,
    TopicDescription,
    TopicPartition,
)
from moldau.client.shared.client_errors import KafkaError
from moldau.console.cluster_link import ClusterLink
from moldau.console.faults import sentence_of
from moldau.console.recent_answers import Told

T = TypeVar("T")
Topics = dict[str, TopicDescription]
Ends = dict[TopicPartition, int]

TOPICS_S = 10.0
SLOW_S = 30.0
GROUPS_MAX = 5_000


class Part(NamedTuple, Generic[T]):
    """An answer that is only a part of a page: without it the page says why."""

    value: T | None
    fault: str = ""


async def part(question: Awaitable[T]) -> Part[T]:
    try:
        return Part(await question)
    except KafkaError as error:
        return Part(None, sentence_of(error))


class DirSight(NamedTuple):
    broker: int
    path: str
    total_bytes: int
    usable_bytes: int
    used_bytes: int
    replicas: int
    fault: str


@dataclass(slots=True)
class Sizes:
    topics: dict[str, int] = field(default_factory=dict)
    """All replicas together."""
    replicas: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """By topic, partition and broker."""
    dirs: list[DirSight] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Lags:
    states: dict[str, str] = field(default_factory=dict)
    """Of all groups, also those without offsets."""
    types: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, GroupOffsets] = field(default_factory=dict)
    by_topic: dict[str, dict[str, int]] = field(default_factory=dict)
    by_group: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    """Groups beyond the bound of one page."""


async def cluster(link: ClusterLink) -> Told[ClusterDescription]:
    return await link.recent("cluster", lambda: link.admin.describe_cluster(), fresh_s=TOPICS_S)


async def topics(link: ClusterLink) -> Told[Topics]:
    return await link.recent("topics", lambda: _topics(link), fresh_s=TOPICS_S)


async def ends(link: ClusterLink) -> Told[Ends]:
    return await link.recent("ends", lambda: _offsets(link, OffsetSpec.LATEST), fresh_s=TOPICS_S)


async def starts(link: ClusterLink) -> Told[Ends]:
    return await link.recent(
        "starts", lambda: _offsets(link, OffsetSpec.EARLIEST), fresh_s=6 * SLOW_S
    )


async def sizes(link: ClusterLink) -> Told[Sizes]:
    return await link.recent("sizes", lambda: _sizes(link), fresh_s=SLOW_S)


async def lags(link: ClusterLink) -> Told[Lags]:
    return await link.recent("lags", lambda: _lags(link), fresh_s=TOPICS_S)


def peek_ends(link: ClusterLink) -> Told[Ends] | None:
    return link.peek("ends", lambda: _offsets(link, OffsetSpec.LATEST), fresh_s=TOPICS_S)


def peek_starts(link: ClusterLink) -> Told[Ends] | None:
    return link.peek("starts", lambda: _offsets(link, OffsetSpec.EARLIEST), fresh_s=6 * SLOW_S)


def peek_sizes(link: ClusterLink) -> Told[Sizes] | None:
    return link.peek("sizes", lambda: _sizes(link), fresh_s=SLOW_S)


def peek_lags(link: ClusterLink) -> Told[Lags] | None:
    return link.peek("lags", lambda: _lags(link), fresh_s=TOPICS_S)


async def _topics(link: ClusterLink) -> Topics:
    names = await link.admin.list_topics(include_internal=True)
    return dict(await link.admin.describe_topics(names, raise_errors=False))


async def _offsets(link: ClusterLink, spec: OffsetSpec) -> Ends:
    known = (await topics(link)).value
    asked = {
        TopicPartition(name, row.partition): spec
        for name, topic in known.items()
        for row in topic.partitions
        if row.leader >= 0
    }
    found = await link.admin.list_offsets(asked, raise_errors=False) if asked else {}
    return {partition: row.offset for partition, row in found.items()}


async def _sizes(link: ClusterLink) -> Sizes:
    answer = await link.admin.describe_log_dirs(raise_errors=False)
    found = Sizes()
    by_topic: dict[str, int] = defaultdict(int)
    for broker, dirs in answer.items():
        for path, row in dirs.items():
            used = 0
            for tp, replica in row.replicas.items():
                used += replica.size_bytes
                by_topic[tp.topic] += replica.size_bytes
                if not replica.is_future:
                    found.replicas[tp.topic, tp.partition, broker] = replica.size_bytes
            found.dirs.append(_dir(broker, path, row, used))
    found.faults = [f"Broker {key}: {sentence_of(e)}" for key, e in answer.errors.items()]
    found.topics = dict(by_topic)
    return found


def _dir(broker: int, path: str, row: LogDirDescription, used: int) -> DirSight:
    fault = "" if row.error is None else sentence_of(row.error)
    return DirSight(broker, path, row.total_bytes, row.usable_bytes, used, len(row.replicas), fault)


async def _lags(link: ClusterLink) -> Lags:
    listed = await link.admin.list_groups()
    found = Lags(
        {row.group_id: row.state for row in listed}, {row.group_id: row.type for row in listed}
    )
    names = sorted(row.group_id for row in listed if row.type.lower() not in ("share", "streams"))
    found.left_out = max(0, len(names) - GROUPS_MAX)
    if names:
        offsets = await link.admin.list_group_offsets(names[:GROUPS_MAX], raise_errors=False)
        found.offsets = dict(offsets)
    known = (await ends(link)).value
    by_topic: dict[str, dict[str, int]] = defaultdict(dict)
    for group, committed in found.offsets.items():
        for tp, row in committed.items():
            end = known.get(tp)
            if row is None or end is None:
                continue
            # The commit may be younger than the end that was asked a moment before.
            lag = max(0, end - row.offset)
            of_topic = by_topic[tp.topic]
            of_topic[group] = of_topic.get(group, 0) + lag
            found.by_group[group] = found.by_group.get(group, 0) + lag
    found.by_topic = dict(by_topic)
    return found
