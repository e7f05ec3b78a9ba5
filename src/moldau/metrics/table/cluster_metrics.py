"""Metrics of logs and their partitions, of the cleaner, and of the controller."""

from __future__ import annotations

from moldau.metrics.metric_definition import Metric, counter, gauge, quantiles

LOG = "kafka.log:type=Log,name="
LOGS = "kafka.log:type=LogManager,name="
CLEANER = "kafka.log:type=LogCleaner,name="
CLEANING = "kafka.log:type=LogCleanerManager,name="
PARTITION = "kafka.cluster:type=Partition,name="
CONTROLLER = "kafka.controller:type=KafkaController,name="
ELECTIONS = "kafka.controller:type=ControllerStats,name="
CHANNELS = "kafka.controller:type=ControllerChannelManager,name="

PLACE = ("topic", "partition")
IMAGE = "the cluster image, by the active controller; 0 elsewhere"
ACTIVE = "the active controller; 0 elsewhere"
LED = "the replica, by its leader"
ROUNDS = "`Cleaner.figures`"

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
    quantiles("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", (),
        "Milliseconds that the disk took to store what was written to a log.", "`Flusher.times`"),
    gauge(CLEANING + "uncleanable-partitions-count", ("logDirectory",),
        "Partitions that are not compacted because of damage.", "`Cleaner.uncleanable`"),
    gauge(CLEANING + "uncleanable-bytes", ("logDirectory",),
        "The bytes of these.", "`Cleaner.uncleanable`"),
    gauge(CLEANING + "max-dirty-percent", (),
        "How much of the dirtiest log can be compacted, 0 to 100.", ROUNDS),
    gauge(CLEANING + "time-since-last-run-ms", (),
        "Milliseconds since the cleaner last looked for work.", ROUNDS),
    gauge(CLEANER + "cleaner-recopy-percent", (),
        "How much of the compacted bytes had to be written again, 0 to 100.", ROUNDS),
    gauge(CLEANER + "max-clean-time-secs", (),
        "How long the longest round of compaction took.", ROUNDS),

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

    gauge(CONTROLLER + "TopicsToDeleteCount", (), "Topics that are being deleted.", ACTIVE),
    gauge(CONTROLLER + "ReplicasToDeleteCount", (),
        "Replicas of these that some broker has still to delete.", ACTIVE),
    counter(ELECTIONS + "UncleanLeaderElectionsPerSec", (),
        "Leaders that were elected though they were not in sync: records were lost.",
        "`ElectionCells`"),
    quantiles(ELECTIONS + "LeaderElectionRateAndTimeMs", (),
        "Milliseconds from an event that elects leaders until they are stored.",
        "`ElectionCells`"),
    gauge("kafka.controller:type=ControllerEventManager,name=EventQueueSize", (),
        "Decisions of the controller that are not stored yet.", ACTIVE),
    gauge(CHANNELS + "TotalQueueSize", (),
        "Requests of the controller that wait for their broker.", ACTIVE),
    gauge(CHANNELS + "QueueSize", ("broker-id",),
        "The same, for each broker.", ACTIVE),
    quantiles(CHANNELS + "RequestRateAndQueueTimeMs", ("broker-id",),
        "Milliseconds from a decision until the broker has answered the request that tells it.",
        ACTIVE),
)
# fmt: on
