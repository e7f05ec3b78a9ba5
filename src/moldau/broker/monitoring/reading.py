"""What all readers of metrics share."""

from __future__ import annotations

from collections.abc import Callable

from moldau.broker.monitoring.metric_sources import REPLICAS_PER_LOOK, MetricSources
from moldau.metrics.metric_definition import Samples
from moldau.replication.replica import Replica

Reader = Callable[[MetricSources], Samples]
PROCESSOR = "0"
"""There is one loop; Kafka numbers its network threads."""


def one(read: Callable[[MetricSources], float]) -> Reader:
    """Of a metric without tags."""
    return lambda sources: [((), read(sources))]


def of_logs(read: Callable[[Replica], float]) -> Reader:
    """Of every replica here."""
    return _of_replicas(read, is_led=False)


def of_led(read: Callable[[Replica], float]) -> Reader:
    """Of every partition that is led here."""
    return _of_replicas(read, is_led=True)


def _of_replicas(read: Callable[[Replica], float], *, is_led: bool) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        for number, replica in enumerate(list(sources.replicas), 1):
            partition = replica.partition
            if partition.is_leader or not is_led:
                place = partition.topic_partition
                yield (place.topic, str(place.partition)), read(replica)
            elif number % REPLICAS_PER_LOOK == 0:
                yield None

    return samples


def is_under_replicated(replica: Replica) -> bool:
    return len(replica.partition.isr) < len(replica.partition.replicas)
