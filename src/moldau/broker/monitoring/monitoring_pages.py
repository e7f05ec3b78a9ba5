"""What a broker answers over HTTP: its metrics, and whether it lives and is ready.

`/metrics` has what is few, and what clients have pushed, `/metrics/partitions` the series of each
partition, of which there may be a hundred thousand. Every value is read while its line is made, so
nothing is kept for scrapes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from moldau.broker.monitoring.client_telemetry import ClientTelemetry
from moldau.broker.monitoring.http_listener import Asked, Page
from moldau.broker.monitoring.meters import Meters
from moldau.broker.monitoring.metric_readers import READERS
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.metrics.dialects import Dialect, metrics_in
from moldau.metrics.prometheus_text import CONTENT_TYPE, family
from moldau.metrics.table.all_metrics import METRICS

if TYPE_CHECKING:
    from moldau.broker.monitoring.reporting.reporters import Reporters

RUNNING = 3
INDEX = "/metrics\n/metrics/partitions\n/clients.json\n/jolokia/list\n/health/live\n/health/ready\n"


class MonitoringPages:
    def __init__(
        self, state: Callable[[], int], dialect: Callable[[], Dialect] = lambda: Dialect.STRIMZI
    ) -> None:
        """`state` is the broker's, as Apache Kafka numbers it."""
        self._dialect = dialect
        self.sources: MetricSources | None = None
        """None until the broker's parts stand."""
        self.telemetry: ClientTelemetry | None = None
        self.meters = Meters()
        self._state = state

    def at(self, asked: Asked) -> Page:
        path = asked.path
        if path == "/jolokia" or path.startswith("/jolokia/"):
            return self._jolokia(asked)
        if path in ("/metrics", "/metrics/partitions"):
            if self.sources is None:
                return Page(503, ["the broker is starting\n"])
            self.sources.state = self._state()
            by_partition = path != "/metrics"
            dialect = self._dialect()
            families = _families(self.sources, dialect, by_partition=by_partition)
            return Page(200, families, CONTENT_TYPE)
        if path == "/clients.json" and self.telemetry is not None:
            return Page(200, self.telemetry.json_lines(), "application/json; charset=utf-8")
        if path == "/health/live":
            return Page(200, ["live\n"])
        if path == "/health/ready":
            is_ready = self._state() == RUNNING
            return Page(200, ["ready\n"]) if is_ready else Page(503, ["not ready\n"])
        if path == "/":
            return Page(200, [INDEX])
        return Page(404, ["there is nothing here\n"])

    def _jolokia(self, asked: Asked) -> Page:
        from moldau.broker.monitoring.jolokia import jolokia_pages

        if self.sources is None:
            return Page(503, ["the broker is starting\n"])
        self.sources.state = self._state()
        lines = jolokia_pages.lines(
            asked.path.removeprefix("/jolokia"), asked.query, asked.body, self.sources, self.meters
        )
        return Page(200, lines, jolokia_pages.CONTENT_TYPE)

    def report_to(self, reporters: Reporters) -> Callable[[], Awaitable[None]]:
        """A job that gives reporters all metrics."""

        async def report() -> None:
            assert self.sources is not None
            self.sources.state = self._state()
            await reporters.report(self.sources, self.meters)

        return report

    async def note_meters(self) -> None:
        """What all counters are now, for their rates. Called every few seconds."""
        assert self.sources is not None
        await self.meters.note(self.sources)


def _families(sources: MetricSources, dialect: Dialect, *, by_partition: bool) -> Iterator[str]:
    if not by_partition:
        for _ in sources.look():
            yield ""
    for metric in metrics_in(dialect, METRICS):
        if metric.by_partition is by_partition:
            yield from family(metric, READERS[metric.bean](sources), dialect)
            yield ""
    if not by_partition and sources.telemetry is not None:
        yield from sources.telemetry.prometheus_lines()
