"""Reads the metrics of `metrics/table/cluster_metrics.py` from a broker."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.broker.monitoring.reading import Reader, is_under_replicated, of_led, of_logs, one
from moldau.metrics.duration_cells import summary
from moldau.metrics.metric_definition import Samples
from moldau.metrics.table.cluster_metrics import (
    CHANNELS,
    CLEANER,
    CLEANING,
    CONTROLLER,
    ELECTIONS,
    LOG,
    LOGS,
    PARTITION,
)
from moldau.model.cluster import NO_LEADER, PartitionImage
from moldau.replication.replica import Replica
from moldau.storage.compaction.cleaner_figures import CleanerFigures
from moldau.storage.log.log_at_rest import AnyLog

if TYPE_CHECKING:
    from moldau.cluster.active_controller import ActiveController

TOPICS_PER_LOOK = 50


def _uncleanable(weight: Callable[[AnyLog], int]) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        counts = {directory.path: 0 for directory in sources.logs.directories}
        for place in sources.cleaner.uncleanable:
            partition_log = sources.logs.get(place)
            if partition_log is not None:
                counts[os.path.dirname(partition_log.directory)] += weight(partition_log)
        for path, count in counts.items():
            yield (path,), count

    return samples


def _recopied(figures: CleanerFigures) -> float:
    read = figures.bytes_read
    return round(100 * figures.bytes_written / read, 2) if read else 0.0


def _stable_lag(replica: Replica) -> int:
    high_watermark = replica.partition.high_watermark
    return max(0, high_watermark - replica.log.last_stable_offset(high_watermark))


def _is_under_min_isr(replica: Replica) -> bool:
    return len(replica.partition.isr) < replica.partition.insync_replicas_needed


def _is_at_min_isr(replica: Replica) -> bool:
    return len(replica.partition.isr) == replica.partition.insync_replicas_needed


# The controller


def _of_controller(read: Callable[[MetricSources], float]) -> Reader:
    return one(lambda sources: read(sources) if sources.is_controller() else 0)


def _partitions_that(are: Callable[[PartitionImage], bool]) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        count = 0
        if sources.is_controller():
            for number, topic in enumerate(list(sources.image().topics.values()), 1):
                count += sum(map(are, topic.partitions))
                if number % TOPICS_PER_LOOK == 0:
                    yield None
        yield (), count

    return samples


def _is_misled(partition: PartitionImage) -> bool:
    return bool(partition.replicas) and partition.leader != partition.replicas[0]


def _active(sources: MetricSources) -> ActiveController | None:
    return None if sources.cluster is None else sources.cluster.member.election.active


def _of_active(read: Callable[[ActiveController], float]) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        active = _active(sources)
        yield (), 0 if active is None else read(active)

    return samples


def _queue_sizes(sources: MetricSources) -> Samples:
    active = _active(sources)
    if active is not None:
        for broker, count in active.deliveries.waiting().items():
            yield (str(broker),), count


def _request_times(sources: MetricSources) -> Samples:
    active = _active(sources)
    if active is not None:
        for broker, times in list(active.deliveries.times.items()):
            yield (str(broker),), summary([times])


def _election_times(sources: MetricSources) -> Samples:
    if sources.cluster is not None:
        yield (), summary([sources.cluster.member.election.elections.times])


CLUSTER_READERS: Mapping[str, Reader] = {
    LOG + "Size": of_logs(lambda replica: replica.log.size_bytes),
    LOG + "LogStartOffset": of_logs(lambda replica: replica.log.log_start_offset),
    LOG + "LogEndOffset": of_logs(lambda replica: replica.log.offset_end),
    LOG + "NumLogSegments": of_logs(lambda replica: replica.log.segment_count),
    LOGS + "OfflineLogDirectoryCount": one(lambda s: len(s.logs.directories) - len(s.logs.online)),
    LOGS + "LogDirectoryOffline": lambda s: [
        ((directory.path,), directory.fault is not None) for directory in s.logs.directories
    ],
    CLEANING + "uncleanable-partitions-count": _uncleanable(lambda log: 1),
    CLEANING + "uncleanable-bytes": _uncleanable(lambda log: log.size_bytes),
    PARTITION + "UnderReplicated": of_led(is_under_replicated),
    PARTITION + "UnderMinIsr": of_led(_is_under_min_isr),
    PARTITION + "AtMinIsr": of_led(_is_at_min_isr),
    PARTITION + "InSyncReplicasCount": of_led(lambda replica: len(replica.partition.isr)),
    PARTITION + "ReplicasCount": of_led(lambda replica: len(replica.partition.replicas)),
    PARTITION + "LastStableOffsetLag": of_led(_stable_lag),
    CONTROLLER + "ActiveControllerCount": one(lambda s: s.is_controller()),
    CONTROLLER + "OfflinePartitionsCount": _partitions_that(
        lambda partition: partition.leader == NO_LEADER
    ),
    CONTROLLER + "PreferredReplicaImbalanceCount": _partitions_that(_is_misled),
    CONTROLLER + "GlobalTopicCount": _of_controller(lambda s: len(s.image().topics)),
    CONTROLLER + "GlobalPartitionCount": _partitions_that(lambda partition: True),
    CONTROLLER + "ActiveBrokerCount": _of_controller(lambda s: len(s.image().brokers)),
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs": lambda s: [
        ((), summary([s.logs.flusher.times]))
    ],
    CLEANING + "max-dirty-percent": one(lambda s: round(100 * s.cleaner.figures.dirty_max, 2)),
    CLEANING + "time-since-last-run-ms": one(
        lambda s: max(0, s.wall_ms() - s.cleaner.figures.looked_ms)
    ),
    CLEANER + "cleaner-recopy-percent": one(lambda s: _recopied(s.cleaner.figures)),
    CLEANER + "max-clean-time-secs": one(lambda s: s.cleaner.figures.round_ms_max / 1000),
    CONTROLLER + "TopicsToDeleteCount": _of_active(lambda active: len(active.state.deleting)),
    CONTROLLER + "ReplicasToDeleteCount": _of_active(
        lambda active: sum(map(len, active.state.deleting.values()))
    ),
    ELECTIONS + "UncleanLeaderElectionsPerSec": one(
        lambda s: 0 if s.cluster is None else s.cluster.member.election.elections.unclean
    ),
    ELECTIONS + "LeaderElectionRateAndTimeMs": _election_times,
    "kafka.controller:type=ControllerEventManager,name=EventQueueSize": _of_active(
        lambda active: active.engine.unfinished
    ),
    CHANNELS + "TotalQueueSize": _of_active(
        lambda active: sum(active.deliveries.waiting().values())
    ),
    CHANNELS + "QueueSize": _queue_sizes,
    CHANNELS + "RequestRateAndQueueTimeMs": _request_times,
}
