"""Metrics of logs, partitions, the controller and the coordinators; and those of kafka_exporter."""

from __future__ import annotations

from moldau.metrics.metric_definition import Metric, gauge

LOG = "kafka.log:type=Log,name="
PARTITION = "kafka.cluster:type=Partition,name="
CONTROLLER = "kafka.controller:type=KafkaController,name="
GROUPS = "kafka.coordinator.group:type=GroupMetadataManager,name="

PLACE = ("topic", "partition")
GROUP_PLACE = ("consumergroup", "topic", "partition")
IMAGE = "the cluster image, by the active controller; 0 elsewhere"
KNOWN = "the cluster image"
LED = "the replica, by its leader"
MACHINES = "the group machines of partitions led here"

# Rows stay compact, so that the table can be read as one.
# fmt: off
CLUSTER_METRICS: tuple[Metric, ...] = (
    gauge(LOG + "Size", PLACE, "Bytes of all segments.", "the log", by_partition=True),
    gauge(LOG + "LogStartOffset", PLACE, "The first offset.", "the log", by_partition=True),
    gauge(LOG + "LogEndOffset", PLACE, "The offset of the next record.", "the log",
        by_partition=True),
    gauge(LOG + "NumLogSegments", PLACE, "Segments.", "the log", by_partition=True),
    gauge("kafka.log:type=LogManager,name=OfflineLogDirectoryCount", (),
        "Log directories that have failed.", "`LogStore.directories`"),
    gauge("kafka.log:type=LogManager,name=LogDirectoryOffline", ("logDirectory",),
        "1 for a log directory that has failed.", "`LogStore.directories`"),
    gauge("kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count", ("logDirectory",),
        "Partitions that are not compacted because of damage.", "`Cleaner.uncleanable`"),

    gauge(PARTITION + "UnderReplicated", PLACE, "1 if some replica is not in sync.", LED,
        by_partition=True),
    gauge(PARTITION + "UnderMinIsr", PLACE,
        "1 if fewer replicas are in sync than min.insync.replicas.", LED, by_partition=True),
    gauge(PARTITION + "AtMinIsr", PLACE,
        "1 if just as many replicas are in sync as min.insync.replicas.", LED, by_partition=True),
    gauge(PARTITION + "InSyncReplicasCount", PLACE, "Replicas in sync.", LED, by_partition=True),
    gauge(PARTITION + "ReplicasCount", PLACE, "Replicas.", LED, by_partition=True),
    gauge(PARTITION + "LastStableOffsetLag", PLACE,
        "Committed records behind the first transaction that is still open.", LED,
        by_partition=True),

    gauge(CONTROLLER + "ActiveControllerCount", (),
        "1 on the broker that is the controller.", "the controller"),
    gauge(CONTROLLER + "OfflinePartitionsCount", (), "Partitions without a leader.", IMAGE),
    gauge(CONTROLLER + "PreferredReplicaImbalanceCount", (),
        "Partitions that are not led by their first replica.", IMAGE),
    gauge(CONTROLLER + "GlobalTopicCount", (), "Topics of the cluster.", IMAGE),
    gauge(CONTROLLER + "GlobalPartitionCount", (), "Partitions of the cluster.", IMAGE),
    gauge(CONTROLLER + "ActiveBrokerCount", (), "Brokers that live.", IMAGE),

    gauge(GROUPS + "NumGroups", (), "Groups that this broker coordinates.", MACHINES),
    gauge(GROUPS + "NumGroupsStable", (), "Of these, with an assignment.", MACHINES),
    gauge(GROUPS + "NumGroupsPreparingRebalance", (), "Of these, waiting for members.", MACHINES),
    gauge(GROUPS + "NumGroupsCompletingRebalance", (),
        "Of these, waiting for the leader's assignment.", MACHINES),
    gauge(GROUPS + "NumGroupsEmpty", (), "Of these, without members.", MACHINES),
    gauge(GROUPS + "NumGroupsDead", (), "Of these, about to be forgotten.", MACHINES),
    gauge(GROUPS + "NumOffsets", (), "Offsets that these groups have committed.", MACHINES),

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
        "Committed records behind the group's offset, of partitions with a replica here.",
        MACHINES),
    gauge("kafka_consumergroup_lag_sum", ("consumergroup", "topic"),
        "The same, of all partitions of the topic that have a replica here.", MACHINES),
)
# fmt: on
