"""Metrics of the coordinators of groups and transactions; topics and lag as the exporters name
them that people run beside Apache Kafka (kafka_exporter, kafka-lag-exporter).
"""

from __future__ import annotations

from moldau.metrics.metric_definition import Metric, counter, gauge

GROUPS = "kafka.coordinator.group:type=GroupMetadataManager,name="
COORDINATOR = "kafka.server:type=group-coordinator-metrics/"
TRANSACTIONS = "kafka.server:type=transaction-coordinator-metrics/"
MARKERS = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="

PLACE = ("topic", "partition")
GROUP_PLACE = ("consumergroup", "topic", "partition")
LAG_PLACE = ("cluster_name", "group", "topic", "partition")
KNOWN = "the cluster image"
LED = "the replica, by its leader"
MACHINES = "the group machines of partitions led here"
LAG = "the group machines, the logs and the leaders (`broker/monitoring/group_lag.py`)"
CELLS = "`GroupCoordinator.cells`"

# Rows stay compact, so that the table can be read as one.
# fmt: off
COORDINATOR_METRICS: tuple[Metric, ...] = (
    gauge(GROUPS + "NumGroups", (), "Groups that this broker coordinates.", MACHINES),
    gauge(GROUPS + "NumGroupsStable", (), "Of these, with an assignment.", MACHINES),
    gauge(GROUPS + "NumGroupsPreparingRebalance", (), "Of these, waiting for members.", MACHINES),
    gauge(GROUPS + "NumGroupsCompletingRebalance", (),
        "Of these, waiting for the leader's assignment.", MACHINES),
    gauge(GROUPS + "NumGroupsEmpty", (), "Of these, without members.", MACHINES),
    gauge(GROUPS + "NumGroupsDead", (), "Of these, about to be forgotten.", MACHINES),
    gauge(GROUPS + "NumOffsets", (), "Offsets that these groups have committed.", MACHINES),
    counter(COORDINATOR + "offset-commit-count", (), "Offsets committed.", CELLS),
    counter(COORDINATOR + "offset-expiration-count", (),
        "Offsets that went because they were too old, deleted, or of a topic that is gone.",
        CELLS),
    counter(COORDINATOR + "group-completed-rebalance-count", (),
        "Rebalances of groups that came to their end.", CELLS),
    gauge(COORDINATOR + "num-partitions", ("state",),
        "Partitions of `__consumer_offsets` that are led here, by state.", "`Shards.states`"),
    gauge(COORDINATOR + "partition-load-time-max", (),
        "Milliseconds that the longest of the last loads took.", "`Shards.load_times_ms`"),
    gauge(COORDINATOR + "partition-load-time-avg", (),
        "Milliseconds that they took on average.", "`Shards.load_times_ms`"),
    gauge(TRANSACTIONS + "partition-load-time-max", (),
        "Milliseconds that the longest of the last loads of `__transaction_state` took.",
        "`Shards.load_times_ms`"),
    gauge(TRANSACTIONS + "partition-load-time-avg", (),
        "Milliseconds that they took on average.", "`Shards.load_times_ms`"),
    gauge(MARKERS + "UnknownDestinationQueueSize", (),
        "Markers of transactions that wait for the leader of their partition.", "`Outbox`"),
    gauge("moldau_transactions", ("state",),
        "Transactional ids that this broker coordinates, by the state of their transaction.",
        "the transaction machines of partitions led here"),

    gauge("kafka_brokers", (), "Brokers that live.", KNOWN),
    gauge("kafka_broker_info", ("id", "address"), "1 for each broker that lives.", KNOWN),
    gauge("kafka_topic_partitions", ("topic",), "Partitions of the topic.", KNOWN),
    gauge("kafka_topic_partition_current_offset", PLACE,
        "Where what is committed ends.", LED, by_partition=True),
    gauge("kafka_topic_partition_oldest_offset", PLACE,
        "The first offset.", LED, by_partition=True),
    gauge("kafka_topic_partition_leader", PLACE,
        "The broker that leads.", LED, by_partition=True),
    gauge("kafka_topic_partition_leader_is_preferred", PLACE,
        "1 if the leader is the first replica.", LED, by_partition=True),
    gauge("kafka_topic_partition_replicas", PLACE, "Replicas.", LED, by_partition=True),
    gauge("kafka_topic_partition_in_sync_replica", PLACE,
        "Replicas in sync.", LED, by_partition=True),
    gauge("kafka_topic_partition_under_replicated_partition", PLACE,
        "1 if some replica is not in sync.", LED, by_partition=True),
    gauge("kafka_consumergroup_members", ("consumergroup",),
        "Members of the group.", MACHINES),
    gauge("kafka_consumergroup_current_offset", GROUP_PLACE,
        "The offset that the group has committed.", MACHINES),
    gauge("kafka_consumergroup_current_offset_sum", ("consumergroup", "topic"),
        "The same, of all partitions of the topic.", MACHINES),
    gauge("kafka_consumergroup_lag", GROUP_PLACE,
        "Records behind the group's offset; -1 until the end of the partition is known.", LAG),
    gauge("kafka_consumergroup_lag_sum", ("consumergroup", "topic"),
        "The same, of all partitions of the topic whose end is known.", LAG),
    gauge("kafka_consumergroup_group_lag_seconds", LAG_PLACE,
        "How old the first record is that the group has not read, in seconds; 0 if it has read "
        "all.", LAG),
    gauge("kafka_consumergroup_group_max_lag_seconds", ("cluster_name", "group"),
        "The most of these of the group.", LAG),
    gauge("kafka_consumergroup_group_max_lag", ("cluster_name", "group"),
        "The most records behind the group's offset in one partition.", LAG),
)
# fmt: on
