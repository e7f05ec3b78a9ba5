"""Who reads which metric: one function for each row of the table, by its MBean."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.monitoring.cluster_readers import CLUSTER_READERS
from moldau.broker.monitoring.connection_readers import CONNECTION_READERS
from moldau.broker.monitoring.coordinator_readers import COORDINATOR_READERS
from moldau.broker.monitoring.process_readers import PROCESS_READERS
from moldau.broker.monitoring.reading import Reader
from moldau.broker.monitoring.telemetry_readers import TELEMETRY_READERS
from moldau.broker.monitoring.traffic_readers import TRAFFIC_READERS

READERS: Mapping[str, Reader] = {
    **TRAFFIC_READERS,
    **CONNECTION_READERS,
    **CLUSTER_READERS,
    **COORDINATOR_READERS,
    **PROCESS_READERS,
    **TELEMETRY_READERS,
}
