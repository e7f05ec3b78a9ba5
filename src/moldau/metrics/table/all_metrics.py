"""Every metric that a broker has, in the order in which they are told."""

from __future__ import annotations

from moldau.metrics.metric_definition import Metric
from moldau.metrics.table.cluster_metrics import CLUSTER_METRICS
from moldau.metrics.table.connection_metrics import CONNECTION_METRICS
from moldau.metrics.table.coordinator_metrics import COORDINATOR_METRICS
from moldau.metrics.table.process_metrics import PROCESS_METRICS
from moldau.metrics.table.telemetry_metrics import TELEMETRY_METRICS
from moldau.metrics.table.traffic_metrics import TRAFFIC_METRICS

METRICS: tuple[Metric, ...] = (
    *TRAFFIC_METRICS,
    *CONNECTION_METRICS,
    *CLUSTER_METRICS,
    *COORDINATOR_METRICS,
    *PROCESS_METRICS,
    *TELEMETRY_METRICS,
)
