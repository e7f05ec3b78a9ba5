"""What the console has noticed while it runs: rates, lag, how fast brokers answer, news.

One task for each link looks at intervals. Everything is bounded: points in time, topics and groups
in each, news. A look that takes long makes the pauses longer, so that watching costs a cluster
little however big it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.shared.client_errors import KafkaError
from moldau.console import cluster_answers
from moldau.console.charts import Point
from moldau.console.cluster_link import ClusterLink
from moldau.console.news import Look, News, differences

POINTS_MAX = 360
SERIES_MAX = 100
NEWS_MAX = 100
GROUPS_MAX = 20
PAUSE_SHARE = 20
"""The pauses are at least so many times as long as the looks."""
UNUSED_S = 15 * 60


class Moment(NamedTuple):
    ms: int
    answer_ms: float | None
    """How long the brokers took to say who they are; None if they did not."""
    records: float | None
    """Written per second, in all topics."""
    topics: Mapping[str, float]
    """Records per second of the busiest topics."""
    lag: int | None
    groups: Mapping[str, int]
    """Lag of the groups that are furthest behind."""


class History:
    def __init__(self, link: ClusterLink, every_s: float) -> None:
        self._link = link
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._ends: tuple[float, cluster_answers.Ends] | None = None
        self._look: Look | None = None
        self.moments: deque[Moment] = deque(maxlen=POINTS_MAX)
        self.news: deque[News] = deque(maxlen=NEWS_MAX)
        self.rates: dict[str, float] = {}
        """Of all topics, by the last two looks; empty before there were two."""
        self._seconds: OrderedDict[str, deque[Point]] = OrderedDict()
        """Of groups whose pages were looked at, those of late: reading an age costs a fetch."""

    def note_seconds(self, group: str, ms: float, seconds: float | None) -> list[Point]:
        """How long a group is behind now; returns the course of it."""
        points = self._seconds.setdefault(group, deque(maxlen=POINTS_MAX))
        self._seconds.move_to_end(group)
        if len(self._seconds) > GROUPS_MAX:
            self._seconds.popitem(last=False)
        points.append(Point(ms, seconds))
        return list(points)

    def watch(self) -> None:
        """Look from now on, until nobody has used the link for a while."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def points(self, kind: str, name: str = "") -> list[Point]:
        """The course of one thing: "answer", "records", "lag", or that of a topic or group."""
        if kind == "topic":
            return [Point(m.ms, m.topics.get(name, 0.0)) for m in self._known("records")]
        if kind == "group":
            return [Point(m.ms, m.groups.get(name, 0)) for m in self._known("lag")]
        field = {"answer": "answer_ms"}.get(kind, kind)
        return [Point(m.ms, getattr(m, field)) for m in self.moments]

    def _known(self, field: str) -> list[Moment]:
        return [moment for moment in self.moments if getattr(moment, field) is not None]

    async def _run(self) -> None:
        while time.monotonic() - self._link.used_at < UNUSED_S or not self._link.principal:
            begun = time.monotonic()
            await self.look()
            took_s = time.monotonic() - begun
            await asyncio.sleep(max(self._every_s - took_s, took_s * PAUSE_SHARE))

    async def look(self) -> None:
        begun, now_ms = time.monotonic(), int(time.time() * 1000)
        try:
            cluster = await self._link.admin.describe_cluster()
        except KafkaError as fault:
            if self.moments and self.moments[-1].answer_ms is not None:
                self.news.appendleft(News(now_ms, f"The cluster does not answer: {fault.message}"))
            self.moments.append(Moment(now_ms, None, None, {}, None, {}))
            return
        answer_ms = (time.monotonic() - begun) * 1000
        records, topics, lag, groups = None, dict[str, float](), None, dict[str, int]()
        with contextlib.suppress(KafkaError):
            told = await cluster_answers.topics(self._link)
            controller = cluster.controller.id if cluster.controller else -1
            look = Look(frozenset(node.id for node in cluster.nodes), controller, told.value)
            if self._look is not None:
                lines = differences(self._look, look)
                self.news.extendleft(News(now_ms, line) for line in lines)
            self._look = look
            records = await self._measure()
            topics = dict(heapq.nlargest(SERIES_MAX, self.rates.items(), key=lambda row: row[1]))
        cluster_answers.peek_sizes(self._link)
        cluster_answers.peek_starts(self._link)
        with contextlib.suppress(KafkaError):
            lags = (await cluster_answers.lags(self._link)).value
            lag = sum(lags.by_group.values())
            groups = dict(heapq.nlargest(SERIES_MAX, lags.by_group.items(), key=lambda row: row[1]))
        self.moments.append(Moment(now_ms, answer_ms, records, topics, lag, groups))

    async def _measure(self) -> float | None:
        """Records per second since the last look; None at the first."""
        told = await cluster_answers.ends(self._link)
        came_at = time.monotonic() - told.when.age_s
        before, self._ends = self._ends, (came_at, told.value)
        if before is None:
            return None
        if came_at - before[0] < 0.5:
            # Still the same answer: the rates hold.
            self._ends = before
            return sum(self.rates.values()) if self.rates else None
        self.rates = rates(before[1], told.value, came_at - before[0])
        return sum(self.rates.values())


def rates(
    before: cluster_answers.Ends, after: cluster_answers.Ends, seconds: float
) -> dict[str, float]:
    """Records per second by topic. A partition that was not there before counts from its first
    sight on; one whose end went back (made anew) counts nothing."""
    found: dict[str, float] = {}
    for partition, end in after.items():
        grown = end - before.get(partition, end)
        found[partition.topic] = found.get(partition.topic, 0.0) + max(0, grown) / seconds
    return found
