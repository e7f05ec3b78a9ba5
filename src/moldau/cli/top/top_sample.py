"""What `top` shows: one look at a cluster, and the rates between two looks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.cli.command_faults import CommandFault

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin
    from moldau.model.names import TopicPartition

REQUESTS = "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=*"
READ = ["Count", "50thPercentile", "99thPercentile", "999thPercentile"]
OFFSETS_AT_ONCE = 200
"""Groups whose offsets are asked for in one go."""


class Look(NamedTuple):
    """As it was found; everything else is made of two of these."""

    at: float
    """Of the monotonic clock."""
    cluster_id: str
    brokers: tuple[tuple[int, str, int, bool], ...]
    """Id, address, how many partitions it leads, whether it is the controller."""
    ends: dict[TopicPartition, int]
    under_replicated: dict[str, int]
    groups: tuple[tuple[str, str, dict[TopicPartition, int]], ...]
    """Name, state, committed offsets."""
    requests: dict[str, tuple[float, float, float, float]]
    """By name: how many so far, and the percentiles 50, 99 and 99.9 in milliseconds."""


class BrokerRow(NamedTuple):
    broker: int
    address: str
    leads: int
    controller: bool


class TopicRow(NamedTuple):
    topic: str
    partitions: int
    per_second: float
    records: int
    """Up to its ends, deleted ones too."""
    under_replicated: int


class GroupRow(NamedTuple):
    group: str
    state: str
    lag: int
    per_second: float
    """How many records it gets on with."""
    seconds_behind: float | None
    """At its pace of now; None where it stands still or has no lag."""


class RequestRow(NamedTuple):
    request: str
    per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


class Sample(NamedTuple):
    cluster_id: str
    brokers: list[BrokerRow]
    topics: list[TopicRow]
    groups: list[GroupRow]
    requests: list[RequestRow]


def look(admin: Admin, metrics: Sequence[str]) -> Look:
    cluster = admin.describe_cluster()
    names = list(admin.list_topics(include_internal=True))
    topics = admin.describe_topics(names, raise_errors=False) if names else {}
    controller = cluster.controller
    leads: dict[int, int] = {}
    under_replicated: dict[str, int] = {}
    partitions: list[TopicPartition] = []
    from moldau.model.names import TopicPartition as Place

    for name, topic in topics.items():
        for row in topic.partitions:
            leads[row.leader] = leads.get(row.leader, 0) + 1
            behind = len(row.isr) < len(row.replicas)
            under_replicated[name] = under_replicated.get(name, 0) + behind
            if row.leader >= 0:
                partitions.append(Place(name, row.partition))
    latest = dict.fromkeys(partitions, -1)
    ends = admin.list_offsets(latest, raise_errors=False) if latest else {}
    return Look(
        time.monotonic(),
        cluster.cluster_id or "",
        tuple(
            (node.id, f"{node.host}:{node.port}", leads.get(node.id, 0), node == controller)
            for node in sorted(cluster.nodes, key=lambda node: node.id)
        ),
        {tp: found.offset for tp, found in ends.items()},
        under_replicated,
        tuple(groups_of(admin)),
        requests_of(metrics),
    )


def groups_of(admin: Admin) -> list[tuple[str, str, dict[TopicPartition, int]]]:
    listed = [each for each in admin.list_groups() if each.protocol_type in ("", "consumer")]
    found = []
    for start in range(0, len(listed), OFFSETS_AT_ONCE):
        some = listed[start : start + OFFSETS_AT_ONCE]
        offsets = admin.list_group_offsets([each.group_id for each in some], raise_errors=False)
        for each in some:
            committed = offsets.get(each.group_id) or {}
            kept = {tp: at.offset for tp, at in committed.items() if at is not None}
            found.append((each.group_id, each.state, kept))
    return found


def requests_of(urls: Sequence[str]) -> dict[str, tuple[float, float, float, float]]:
    """Of all brokers whose metrics are named: counts are added up, times are the worst."""
    from moldau.cli.servers.jmx import read

    found: dict[str, tuple[float, float, float, float]] = {}
    for url in urls:
        attributes: dict[str, Any] = {}
        with contextlib.suppress(OSError, CommandFault):
            attributes = read(url, [REQUESTS], READ)
        beans: dict[str, dict[str, float]] = {}
        for name, value in attributes.items():
            bean, _, attribute = name.rpartition(":")
            request = bean.partition("request=")[2].partition(",")[0]
            beans.setdefault(request, {})[attribute] = float(value)
        for request, values in beans.items():
            count, p50, p99, p999 = (values.get(each, 0.0) for each in READ)
            before = found.get(request, (0.0, 0.0, 0.0, 0.0))
            worst = [max(old, new) for old, new in zip(before[1:], (p50, p99, p999), strict=True)]
            found[request] = (before[0] + count, worst[0], worst[1], worst[2])
    return found


def sample(before: Look, now: Look) -> Sample:
    """Rates are of the time between both; the busiest, slowest and those most behind come first."""
    seconds = max(now.at - before.at, 1e-6)
    topics: dict[str, list[float]] = {}
    for tp, end in now.ends.items():
        row = topics.setdefault(tp.topic, [0, 0, 0])
        row[0] += 1
        row[1] += max(0, end - before.ends.get(tp, end)) / seconds
        row[2] += end
    rows = [
        TopicRow(name, int(count), rate, int(end), now.under_replicated.get(name, 0))
        for name, (count, rate, end) in topics.items()
    ]
    requests = [
        RequestRow(name, max(0.0, count - before.requests.get(name, (count,))[0]) / seconds, *times)
        for name, (count, *times) in now.requests.items()
        if count
    ]
    return Sample(
        now.cluster_id,
        [BrokerRow(*row) for row in now.brokers],
        sorted(rows, key=lambda row: (-row.per_second, row.topic)),
        sorted(group_rows(before, now, seconds), key=lambda row: (-row.lag, row.group)),
        sorted(requests, key=lambda row: (-row.p99_ms, row.request)),
    )


def group_rows(before: Look, now: Look, seconds: float) -> list[GroupRow]:
    earlier = {name: committed for name, _, committed in before.groups}
    rows = []
    for name, state, committed in now.groups:
        lag = sum(max(0, now.ends[tp] - at) for tp, at in committed.items() if tp in now.ends)
        old = earlier.get(name, {})
        rate = sum(max(0, at - old.get(tp, at)) for tp, at in committed.items()) / seconds
        rows.append(GroupRow(name, state, lag, rate, lag / rate if lag and rate else None))
    return rows
