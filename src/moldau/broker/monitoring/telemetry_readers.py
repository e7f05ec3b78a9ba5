"""Reads the metrics of `metrics/table/telemetry_metrics.py` from a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.broker.monitoring.client_telemetry import ClientTelemetry
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.broker.monitoring.reading import Reader
from moldau.metrics.metric_definition import Samples
from moldau.metrics.table.telemetry_metrics import CLIENT_METRICS

if TYPE_CHECKING:
    from moldau.broker.monitoring.reporting.reporter_thread import ReporterThread


def _of(read: Callable[[ClientTelemetry], int]) -> Reader:
    """Nothing where clients are not asked."""

    def samples(sources: MetricSources) -> Samples:
        return [] if sources.telemetry is None else [((), read(sources.telemetry))]

    return samples


def _of_reporters(read: Callable[[ReporterThread], int]) -> Reader:
    return lambda sources: [((each.name,), read(each)) for each in sources.reporters]


TELEMETRY_READERS: Mapping[str, Reader] = {
    CLIENT_METRICS + "instance-count": _of(lambda each: len(each.instances)),
    CLIENT_METRICS + "unknown-subscription-request-count": _of(
        lambda each: each.instances.unknown_subscriptions
    ),
    CLIENT_METRICS + "throttle-count": _of(lambda each: each.instances.throttled),
    CLIENT_METRICS + "plugin-export-count": _of(lambda each: each.pushes),
    CLIENT_METRICS + "plugin-error-count": _of(lambda each: each.failures),
    "moldau_reporter_calls_total": _of_reporters(lambda each: each.done),
    "moldau_reporter_failures_total": _of_reporters(lambda each: each.failed),
    "moldau_reporter_dropped_total": _of_reporters(lambda each: each.dropped),
    "moldau_client_metrics_series": _of(lambda each: each.values.series_count),
    "moldau_client_metrics_dropped_total": _of(lambda each: each.values.dropped),
}
