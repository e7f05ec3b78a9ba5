"""How fast the broker's counters grow, noted every few seconds in small steps on the loop."""

from __future__ import annotations

import asyncio
import time

from moldau.broker.monitoring.metric_readers import READERS
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.metrics.mbeans.meter_rates import TICK_SECONDS, MeterRates
from moldau.metrics.metric_definition import Kind
from moldau.metrics.table.all_metrics import METRICS

METERS_MS = TICK_SECONDS * 1000
METERED = [
    metric
    for metric in METRICS
    if metric.kind is Kind.COUNTER and metric.bean.endswith("PerSec") and not metric.by_partition
]


class Meters:
    def __init__(self) -> None:
        self.rates = MeterRates()
        self._begun = self._noted = time.monotonic()

    def age_seconds(self) -> float:
        """Since what the counters count from, at least one."""
        return max(1.0, time.monotonic() - self._begun)

    async def note(self, sources: MetricSources) -> None:
        now = time.monotonic()
        seconds, self._noted = now - self._noted, now
        if seconds <= 0:
            return
        for metric in METERED:
            for _ in self.rates.note(metric.bean, READERS[metric.bean](sources), seconds):
                await asyncio.sleep(0)
            await asyncio.sleep(0)
