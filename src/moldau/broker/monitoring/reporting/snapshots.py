"""All metrics of one moment as plain data for reporters, taken on the loop in small steps."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from moldau.broker.monitoring.meters import METERED, Meters
from moldau.broker.monitoring.metric_readers import READERS
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.metrics.dialects import Dialect, metrics_in
from moldau.metrics.metric_definition import Kind, Metric, Tags
from moldau.metrics.reporting.measurements import Measurement
from moldau.metrics.table.all_metrics import METRICS

TURN_SECONDS = 0.002
KINDS = {Kind.COUNTER: "counter", Kind.GAUGE: "gauge", Kind.QUANTILES: "quantiles"}
REPORTED = [metric for metric in metrics_in(Dialect.STRIMZI, METRICS) if not metric.by_partition]
"""The series of single partitions are too many."""
_METERED = {metric.bean for metric in METERED}


async def snapshot(sources: MetricSources, meters: Meters) -> list[Measurement]:
    found: list[Measurement] = []
    turn_ends = time.perf_counter() + TURN_SECONDS

    async def rest() -> float:
        if time.perf_counter() < turn_ends:
            return turn_ends
        await asyncio.sleep(0)
        return time.perf_counter() + TURN_SECONDS

    for _ in sources.look():
        turn_ends = await rest()
    for metric in REPORTED:
        for sample in READERS[metric.bean](sources):
            if sample is not None:
                found.append(_measurement(metric, *sample, meters))
            turn_ends = await rest()
        turn_ends = await rest()
    return found


def _measurement(metric: Metric, values: Tags, value: Any, meters: Meters) -> Measurement:
    tags = tuple(zip(metric.tags, values, strict=False))
    rates: tuple[float, ...] = ()
    quantiles: dict[str, float] = {}
    if metric.kind is Kind.QUANTILES:
        quantiles = dict(value.quantiles)
        value = value.number
    elif metric.bean in _METERED:
        rates = (*meters.rates.of(metric.bean, values), value / meters.age_seconds())
    return Measurement(
        metric.bean,
        metric.prometheus_name,
        KINDS[metric.kind],
        tags,
        int(value) if isinstance(value, bool) else value,
        rates,
        quantiles,
    )
