"""Who reads which metric: all readers, by the MBean of the table's row."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.monitoring.cluster_readers import CLUSTER_READERS
from moldau.broker.monitoring.process_readers import PROCESS_READERS
from moldau.broker.monitoring.telemetry_readers import TELEMETRY_READERS
from moldau.broker.monitoring.traffic_readers import TRAFFIC_READERS, Reader

READERS: Mapping[str, Reader] = {
    **TRAFFIC_READERS,
    **CLUSTER_READERS,
    **PROCESS_READERS,
    **TELEMETRY_READERS,
}
