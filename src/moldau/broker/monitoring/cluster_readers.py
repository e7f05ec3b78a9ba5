"""Reads the metrics of `metrics/table/cluster_metrics.py` from a broker."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping

from moldau.broker.monitoring.metric_sources import REPLICAS_PER_LOOK, MetricSources
from moldau.broker.monitoring.traffic_readers import Reader, one
from moldau.metrics.metric_definition import Samples
from moldau.metrics.table.cluster_metrics import CONTROLLER, GROUPS, LOG, PARTITION
from moldau.model.cluster import NO_LEADER, PartitionImage
from moldau.replication.replica import Replica

GROUPS_PER_LOOK = 50
TOPICS_PER_LOOK = 50


def _of_logs(read: Callable[[Replica], float]) -> Reader:
    """Of every replica here."""
    return _of_replicas(read, is_led=False)


def _of_led(read: Callable[[Replica], float]) -> Reader:
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


def _uncleanable(sources: MetricSources) -> Samples:
    counts = {directory.path: 0 for directory in sources.logs.directories}
    for place in sources.cleaner.uncleanable:
        partition_log = sources.logs.get(place)
        if partition_log is not None:
            counts[os.path.dirname(partition_log.directory)] += 1
    for path, count in counts.items():
        yield (path,), count


def _stable_lag(replica: Replica) -> int:
    high_watermark = replica.partition.high_watermark
    return max(0, high_watermark - replica.log.last_stable_offset(high_watermark))


def _is_under_min_isr(replica: Replica) -> bool:
    return len(replica.partition.isr) < replica.partition.insync_replicas_needed


def _is_at_min_isr(replica: Replica) -> bool:
    return len(replica.partition.isr) == replica.partition.insync_replicas_needed


def _is_under_replicated(replica: Replica) -> bool:
    return len(replica.partition.isr) < len(replica.partition.replicas)


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


# Groups


def _groups_that(are: Callable[[str], bool]) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        count = 0
        for machine in sources.group_machines():
            count += sum(are(group.state_name) for group in machine.groups.values())
            yield None
        yield (), count

    return samples


def _in_state(name: str) -> Reader:
    return _groups_that(lambda state: state == name)


def _offset_count(sources: MetricSources) -> Samples:
    count = 0
    for machine in sources.group_machines():
        count += sum(map(len, machine.offsets.committed.values()))
        yield None
    yield (), count


def _members(sources: MetricSources) -> Samples:
    for machine in sources.group_machines():
        for group_id, group in list(machine.groups.items()):
            yield (group_id,), len(group.members)  # type: ignore[attr-defined]


Committed = tuple[str, str, int, int, int | None]
"""Group, topic, partition, offset, lag."""


def _each_committed(sources: MetricSources) -> Samples:
    """As ((group, topic, partition), (offset, lag)); lag is None where no replica is here."""
    for machine in sources.group_machines():
        for group_id, placed in list(machine.offsets.committed.items()):
            for place, stored in list(placed.items()):
                end = sources.replicas.high_watermark(place)
                offset = stored.value.offset
                lag = None if end is None else max(0, end - offset)
                yield (group_id, place.topic, str(place.partition)), (offset, lag)
            yield None


def _committed(which: int) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        for each in _each_committed(sources):
            if each is None:
                yield None
            elif each[1][which] is not None:
                yield each[0], each[1][which]

    return samples


def _committed_sum(which: int) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for each in _each_committed(sources):
            if each is None:
                yield from ((place, total) for place, total in sums.items())
                sums.clear()
                yield None
            elif each[1][which] is not None:
                sums[each[0][0], each[0][1]] += each[1][which]

    return samples


# What is known of the cluster


def _broker_info(sources: MetricSources) -> Samples:
    for broker in sources.image().brokers.values():
        for endpoint in broker.endpoints[:1]:
            yield (str(broker.id), f"{endpoint.host}:{endpoint.port}"), 1


def _partition_counts(sources: MetricSources) -> Samples:
    for topic in list(sources.image().topics.values()):
        yield (topic.name,), len(topic.partitions)


CLUSTER_READERS: Mapping[str, Reader] = {
    LOG + "Size": _of_logs(lambda replica: replica.log.size_bytes),
    LOG + "LogStartOffset": _of_logs(lambda replica: replica.log.log_start_offset),
    LOG + "LogEndOffset": _of_logs(lambda replica: replica.log.offset_end),
    LOG + "NumLogSegments": _of_logs(lambda replica: replica.log.segment_count),
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount": one(
        lambda s: len(s.logs.directories) - len(s.logs.online)
    ),
    "kafka.log:type=LogManager,name=LogDirectoryOffline": lambda s: [
        ((directory.path,), directory.fault is not None) for directory in s.logs.directories
    ],
    "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count": _uncleanable,
    PARTITION + "UnderReplicated": _of_led(_is_under_replicated),
    PARTITION + "UnderMinIsr": _of_led(_is_under_min_isr),
    PARTITION + "AtMinIsr": _of_led(_is_at_min_isr),
    PARTITION + "InSyncReplicasCount": _of_led(lambda replica: len(replica.partition.isr)),
    PARTITION + "ReplicasCount": _of_led(lambda replica: len(replica.partition.replicas)),
    PARTITION + "LastStableOffsetLag": _of_led(_stable_lag),
    CONTROLLER + "ActiveControllerCount": one(lambda s: s.is_controller()),
    CONTROLLER + "OfflinePartitionsCount": _partitions_that(
        lambda partition: partition.leader == NO_LEADER
    ),
    CONTROLLER + "PreferredReplicaImbalanceCount": _partitions_that(_is_misled),
    CONTROLLER + "GlobalTopicCount": _of_controller(lambda s: len(s.image().topics)),
    CONTROLLER + "GlobalPartitionCount": _partitions_that(lambda partition: True),
    CONTROLLER + "ActiveBrokerCount": _of_controller(lambda s: len(s.image().brokers)),
    GROUPS + "NumGroups": _groups_that(lambda state: True),
    GROUPS + "NumGroupsStable": _in_state("Stable"),
    GROUPS + "NumGroupsPreparingRebalance": _in_state("PreparingRebalance"),
    GROUPS + "NumGroupsCompletingRebalance": _in_state("CompletingRebalance"),
    GROUPS + "NumGroupsEmpty": _in_state("Empty"),
    GROUPS + "NumGroupsDead": _in_state("Dead"),
    GROUPS + "NumOffsets": _offset_count,
    "kafka_brokers": one(lambda s: len(s.image().brokers)),
    "kafka_broker_info": _broker_info,
    "kafka_topic_partitions": _partition_counts,
    "kafka_topic_partition_current_offset": _of_led(
        lambda replica: replica.partition.high_watermark
    ),
    "kafka_topic_partition_oldest_offset": _of_led(lambda replica: replica.log.log_start_offset),
    "kafka_topic_partition_leader": _of_led(lambda replica: replica.partition.leader),
    "kafka_topic_partition_leader_is_preferred": _of_led(
        lambda replica: replica.partition.replicas[:1] == (replica.partition.node_id,)
    ),
    "kafka_topic_partition_replicas": _of_led(lambda replica: len(replica.partition.replicas)),
    "kafka_topic_partition_in_sync_replica": _of_led(lambda replica: len(replica.partition.isr)),
    "kafka_topic_partition_under_replicated_partition": _of_led(_is_under_replicated),
    "kafka_consumergroup_members": _members,
    "kafka_consumergroup_current_offset": _committed(0),
    "kafka_consumergroup_current_offset_sum": _committed_sum(0),
    "kafka_consumergroup_lag": _committed(1),
    "kafka_consumergroup_lag_sum": _committed_sum(1),
}
