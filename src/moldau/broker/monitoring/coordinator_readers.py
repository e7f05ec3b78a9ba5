"""Reads the metrics of `metrics/table/coordinator_metrics.py` from a broker."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping

from moldau.broker.monitoring.group_lag import Behind
from moldau.broker.monitoring.metric_sources import GROUPS_PER_LOOK, MetricSources
from moldau.broker.monitoring.reading import Reader, is_under_replicated, of_led, one
from moldau.metrics.metric_definition import Samples
from moldau.metrics.table.coordinator_metrics import COORDINATOR, GROUPS, MARKERS, TRANSACTIONS

UNKNOWN = -1


def _in_state(name: str) -> Reader:
    return one(lambda sources: sources.groups.states[name])


def _members(sources: MetricSources) -> Samples:
    for machine in sources.group_machines():
        for group_id, group in list(machine.groups.items()):
            yield (group_id,), len(group.members)  # type: ignore[attr-defined]


def _partition_states(sources: MetricSources) -> Samples:
    for state, count in sources.group_coordinator.states().items():
        yield (state,), count


def _longest(times_ms: Collection[int]) -> float:
    return max(times_ms, default=0)


def _average(times_ms: Collection[int]) -> float:
    return round(sum(times_ms) / len(times_ms), 3) if times_ms else 0.0


def _transactions(sources: MetricSources) -> Samples:
    counts: Counter[str] = Counter()
    for machine in sources.transaction_machines():
        for number, each in enumerate(list(machine.transactions.values()), 1):
            counts[each.state.name] += 1
            if number % GROUPS_PER_LOOK == 0:
                yield None
    for state, count in counts.items():
        yield (state,), count


# Lag

Told = Callable[[Behind], float | None]


def _offset(each: Behind) -> float | None:
    return each.offset


def _lag(each: Behind) -> float | None:
    return each.lag


def _seconds(each: Behind) -> float | None:
    return each.seconds


def _lag_or_unknown(each: Behind) -> float | None:
    return UNKNOWN if each.lag is None else each.lag


def _by_partition(told: Told, *, is_named: bool = False) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        cluster = (sources.image().cluster_id,) if is_named else ()
        for each in sources.group_lag.each():
            value = None if each is None else told(each)
            if each is None:
                yield None
            elif value is not None:
                place = each.place
                yield (*cluster, each.group, place.topic, str(place.partition)), value

    return samples


def _by_topic(told: Told) -> Reader:
    """The sum of the partitions, of which those of one group come together."""

    def samples(sources: MetricSources) -> Samples:
        group, sums = "", defaultdict[str, float](int)
        for each in sources.group_lag.each():
            if each is None:
                yield None
                continue
            if each.group != group:
                yield from (((group, topic), total) for topic, total in sums.items())
                group = each.group
                sums.clear()
            sums[each.place.topic] += told(each) or 0
        yield from (((group, topic), total) for topic, total in sums.items())

    return samples


def _most(told: Told) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        most: dict[str, float] = {}
        for each in sources.group_lag.each():
            value = None if each is None else told(each)
            if each is None:
                yield None
            elif value is not None:
                most[each.group] = max(value, most.get(each.group, 0))
        cluster = sources.image().cluster_id
        for group, value in most.items():
            yield (cluster, group), value

    return samples


# What is known of the cluster


def _broker_info(sources: MetricSources) -> Samples:
    for broker in sources.image().brokers.values():
        for endpoint in broker.endpoints[:1]:
            yield (str(broker.id), f"{endpoint.host}:{endpoint.port}"), 1


def _partition_counts(sources: MetricSources) -> Samples:
    for topic in list(sources.image().topics.values()):
        yield (topic.name,), len(topic.partitions)


COORDINATOR_READERS: Mapping[str, Reader] = {
    GROUPS + "NumGroups": one(lambda s: s.groups.states.total()),
    GROUPS + "NumGroupsStable": _in_state("Stable"),
    GROUPS + "NumGroupsPreparingRebalance": _in_state("PreparingRebalance"),
    GROUPS + "NumGroupsCompletingRebalance": _in_state("CompletingRebalance"),
    GROUPS + "NumGroupsEmpty": _in_state("Empty"),
    GROUPS + "NumGroupsDead": _in_state("Dead"),
    GROUPS + "NumOffsets": one(lambda s: s.groups.offsets),
    COORDINATOR + "offset-commit-count": one(lambda s: s.group_coordinator.cells.committed),
    COORDINATOR + "offset-expiration-count": one(lambda s: s.group_coordinator.cells.removed),
    COORDINATOR + "group-completed-rebalance-count": one(
        lambda s: s.group_coordinator.cells.completed
    ),
    COORDINATOR + "num-partitions": _partition_states,
    COORDINATOR + "partition-load-time-max": one(
        lambda s: _longest(s.group_coordinator.load_times_ms)
    ),
    COORDINATOR + "partition-load-time-avg": one(
        lambda s: _average(s.group_coordinator.load_times_ms)
    ),
    TRANSACTIONS + "partition-load-time-max": one(
        lambda s: _longest(s.transaction_coordinator.load_times_ms)
    ),
    TRANSACTIONS + "partition-load-time-avg": one(
        lambda s: _average(s.transaction_coordinator.load_times_ms)
    ),
    MARKERS + "UnknownDestinationQueueSize": one(
        lambda s: s.transaction_coordinator.markers_waiting
    ),
    "moldau_transactions": _transactions,
    "kafka_brokers": one(lambda s: len(s.image().brokers)),
    "kafka_broker_info": _broker_info,
    "kafka_topic_partitions": _partition_counts,
    "kafka_topic_partition_current_offset": of_led(
        lambda replica: replica.partition.high_watermark
    ),
    "kafka_topic_partition_oldest_offset": of_led(lambda replica: replica.log.log_start_offset),
    "kafka_topic_partition_leader": of_led(lambda replica: replica.partition.leader),
    "kafka_topic_partition_leader_is_preferred": of_led(
        lambda replica: replica.partition.replicas[:1] == (replica.partition.node_id,)
    ),
    "kafka_topic_partition_replicas": of_led(lambda replica: len(replica.partition.replicas)),
    "kafka_topic_partition_in_sync_replica": of_led(lambda replica: len(replica.partition.isr)),
    "kafka_topic_partition_under_replicated_partition": of_led(is_under_replicated),
    "kafka_consumergroup_members": _members,
    "kafka_consumergroup_current_offset": _by_partition(_offset),
    "kafka_consumergroup_current_offset_sum": _by_topic(_offset),
    "kafka_consumergroup_lag": _by_partition(_lag_or_unknown),
    "kafka_consumergroup_lag_sum": _by_topic(_lag),
    "kafka_consumergroup_group_lag_seconds": _by_partition(_seconds, is_named=True),
    "kafka_consumergroup_group_max_lag_seconds": _most(_seconds),
    "kafka_consumergroup_group_max_lag": _most(_lag),
}
