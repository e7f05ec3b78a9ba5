"""Metrics about metrics: those that clients push (KIP-714), and what reporters do with all."""

from __future__ import annotations

from moldau.metrics.metric_definition import Metric, counter, gauge

CLIENT_METRICS = "kafka.server:type=client-metrics/"
INSTANCES = "clients known (`metrics/pushed/client_instances.py`)"
PUSHES = "pushes taken (`broker/monitoring/client_telemetry.py`)"
REPORTERS = "threads of reporters (`broker/monitoring/reporting/reporter_thread.py`)"
VALUES = "values pushed (`metrics/pushed/pushed_values.py`)"

# fmt: off
TELEMETRY_METRICS: tuple[Metric, ...] = (
    gauge(CLIENT_METRICS + "instance-count", (),
        "Clients that have asked which of their metrics are wanted.", INSTANCES),
    counter(CLIENT_METRICS + "unknown-subscription-request-count", (),
        "Pushes for a subscription that has changed.", INSTANCES),
    counter(CLIENT_METRICS + "throttle-count", (),
        "Requests of clients that came before their interval was over.", INSTANCES),
    counter(CLIENT_METRICS + "plugin-export-count", (),
        "Pushes that were read and passed on.", PUSHES),
    counter(CLIENT_METRICS + "plugin-error-count", (),
        "Pushes that could not be read.", PUSHES),
    gauge("moldau_client_metrics_series", (),
        "Series of clients that are kept.", VALUES),
    counter("moldau_client_metrics_dropped_total", (),
        "Values of clients that there was no place for.", VALUES),
    counter("moldau_reporter_calls_total", ("reporter",),
        "Reports and pushes of clients that a reporter has taken.", REPORTERS),
    counter("moldau_reporter_failures_total", ("reporter",),
        "Those that a reporter has failed at.", REPORTERS),
    counter("moldau_reporter_dropped_total", ("reporter",),
        "Those that were dropped because a reporter was still at work.", REPORTERS),
)
