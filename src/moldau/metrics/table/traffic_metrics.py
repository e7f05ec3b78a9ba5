"""Metrics of `kafka.server` and `kafka.network`: traffic, replicas, requests."""

from __future__ import annotations

from moldau.metrics.metric_definition import Metric, counter, gauge, quantiles

TOPICS = "kafka.server:type=BrokerTopicMetrics,name="
REPLICAS = "kafka.server:type=ReplicaManager,name="
SERVER = "kafka.server:type=KafkaServer,name="
SESSIONS = "kafka.server:type=FetchSessionCache,name="
PURGATORY = "kafka.server:type=DelayedOperationPurgatory,name="
REQUESTS = "kafka.network:type=RequestMetrics,name="
FETCHERS = "kafka.server:type=ReplicaFetcherManager,name="
OLD_REQUESTS = ("request", "version", "clientSoftwareName", "clientSoftwareVersion")

TRAFFIC = "traffic cells of the topic (`metrics/traffic_cells.py`)"
SURVEY = "a look at all replicas (`broker/monitoring/metric_sources.py`)"
TIMES = "request cells (`net/request_times.py`)"
ANSWERS = "answer cells (`metrics/answer_cells.py`)"

# Rows stay compact, so that the table can be read as one.
# fmt: off
TRAFFIC_METRICS: tuple[Metric, ...] = (
    counter(TOPICS + "MessagesInPerSec", ("topic",),
        "Records written to partitions that this broker leads.", TRAFFIC),
    counter(TOPICS + "BytesInPerSec", ("topic",),
        "Bytes of record batches written to partitions that this broker leads.", TRAFFIC),
    counter(TOPICS + "BytesOutPerSec", ("topic",),
        "Bytes of record batches sent to consumers.", TRAFFIC),
    counter(TOPICS + "BytesRejectedPerSec", ("topic",),
        "Bytes of record batches that were too large.", TRAFFIC),
    counter(TOPICS + "ReplicationBytesInPerSec", (),
        "Bytes of record batches fetched from leaders.", TRAFFIC),
    counter(TOPICS + "ReplicationBytesOutPerSec", (),
        "Bytes of record batches sent to followers.", TRAFFIC),
    counter(TOPICS + "ReassignmentBytesInPerSec", (),
        "Of these, for replicas that a reassignment brings here.", TRAFFIC),
    counter(TOPICS + "ReassignmentBytesOutPerSec", (),
        "Of these, to brokers that a reassignment brings the replica to.", TRAFFIC),
    counter(TOPICS + "TotalProduceRequestsPerSec", ("topic",),
        "Writes to partitions; a request for three partitions counts as three.", TRAFFIC),
    counter(TOPICS + "FailedProduceRequestsPerSec", ("topic",),
        "Writes to partitions that were refused, what is no fault apart: a moved leader, a batch "
        "that is too large or damaged.", TRAFFIC),
    counter(TOPICS + "TotalFetchRequestsPerSec", ("topic",),
        "Reads of partitions; a fetch that had to wait reads again.", TRAFFIC),
    counter(TOPICS + "FailedFetchRequestsPerSec", ("topic",),
        "Reads of partitions that were refused, what is no fault apart: a moved leader, an offset "
        "that is out of range.", TRAFFIC),
    counter(TOPICS + "ProduceMessageConversionsPerSec", ("topic",),
        "Records written in a format before 0.11, which are stored in today's.", TRAFFIC),
    counter(TOPICS + "FetchMessageConversionsPerSec", ("topic",),
        "Offsets that were read in a format before 0.11, for old consumers.", TRAFFIC),
    counter(TOPICS + "InvalidMessageCrcRecordsPerSec", (),
        "Batches refused because their checksum was wrong.", TRAFFIC),
    counter(TOPICS + "InvalidMagicNumberRecordsPerSec", (),
        "Batches refused because of their format.", TRAFFIC),
    counter(TOPICS + "InvalidOffsetOrSequenceRecordsPerSec", (),
        "Batches refused because offsets, counts or sequence numbers in them cannot be.", TRAFFIC),
    counter(TOPICS + "NoKeyCompactedTopicRecordsPerSec", (),
        "Batches refused because a compacted topic takes no records without a key.", TRAFFIC),

    gauge(REPLICAS + "LeaderCount", (), "Partitions that this broker leads.", SURVEY),
    gauge(REPLICAS + "PartitionCount", (), "Replicas on this broker.", SURVEY),
    gauge(REPLICAS + "UnderReplicatedPartitions", (),
        "Partitions led here of which some replica is not in sync.", SURVEY),
    gauge(REPLICAS + "UnderMinIsrPartitionCount", (),
        "Partitions led here with fewer replicas in sync than min.insync.replicas.", SURVEY),
    gauge(REPLICAS + "AtMinIsrPartitionCount", (),
        "Partitions led here with just as many replicas in sync as min.insync.replicas.", SURVEY),
    gauge(REPLICAS + "OfflineReplicaCount", (),
        "Replicas of this broker that cannot be served because of a disk.", "`Replicas.offline`"),
    gauge(REPLICAS + "ReassigningPartitions", (),
        "Partitions led here whose replicas are being moved to other brokers.", SURVEY),
    gauge(REPLICAS + "PartitionsWithLateTransactionsCount", (),
        "Partitions led here with a transaction that has been open for five minutes more than "
        "transaction.max.timeout.ms allows: it hangs.", SURVEY),
    gauge(REPLICAS + "ProducerIdCount", (),
        "Idempotent producers that the loaded logs here remember.", SURVEY),
    gauge(REPLICAS + "StrayPartitionsCount", (),
        "Logs here that belong to no topic of the cluster.", "`Replicas.strays`"),
    gauge(REPLICAS + "StrayPartitionsTotalSize", (), "Their bytes.", "`Replicas.strays`"),
    counter(REPLICAS + "IsrShrinksPerSec", (),
        "Times that a leader here has put followers out of its in-sync replicas.", "`IsrSender`"),
    counter(REPLICAS + "IsrExpandsPerSec", (),
        "Times that a leader here has let a follower join its in-sync replicas.", "`IsrSender`"),
    counter(REPLICAS + "FailedIsrUpdatesPerSec", (),
        "Such changes that the controller refused.", "`IsrSender`"),
    gauge(FETCHERS + "MaxLag", ("clientId",),
        "The most records that a follower here lacks of what its leader has committed.", SURVEY),
    gauge(FETCHERS + "MinFetchRate", ("clientId",),
        "Fetches per second of the slowest fetcher, in the last minute; 0 if there is none.",
        "`Fetcher.requests`"),
    gauge(FETCHERS + "DeadThreadCount", ("clientId",),
        "Fetchers that have ended by a fault and do not run again yet.", "`ReplicaFetchers`"),
    gauge("kafka.server:type=FetcherLagMetrics,name=ConsumerLag",
        ("clientId", "topic", "partition"),
        "Records that the follower here lacks of what its leader has committed.",
        "`Replica.lag`", by_partition=True),

    gauge(SERVER + "BrokerState", (),
        "0 not running, 1 starting, 2 recovering logs, 3 running, 7 shutting down.",
        "`Broker.state`"),
    gauge(SERVER + "linux-disk-read-bytes", (),
        "Bytes that this process made the disks read.", "/proc/self/io"),
    gauge(SERVER + "linux-disk-write-bytes", (),
        "Bytes that this process made the disks write.", "/proc/self/io"),
    gauge("kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent", (),
        "Share of the last minute in which the event loop's thread did not run, 0 to 1.",
        "the thread's processor time (`broker/monitoring/loop_idleness.py`)"),

    gauge(PURGATORY + "PurgatorySize", ("delayedOperation",),
        "What waits: writes for followers, fetches for records, groups for members to join "
        "(Rebalance), members for their next sign of life (Heartbeat).",
        "`Waiting`; the group machines of partitions led here"),
    gauge(PURGATORY + "NumDelayedOperations", ("delayedOperation",),
        "The same: what does not wait any more is forgotten at once.",
        "`Waiting`; the group machines of partitions led here"),
    gauge(SESSIONS + "NumIncrementalFetchSessions", (), "Fetch sessions.", "`FetchSessions`"),
    gauge(SESSIONS + "NumIncrementalFetchPartitionsCached", (),
        "Partitions that the fetch sessions hold together.", "`FetchSessions`"),
    counter(SESSIONS + "IncrementalFetchSessionEvictionsPerSec", (),
        "Fetch sessions that had to go for others.", "`FetchSessions`"),

    counter(REQUESTS + "RequestsPerSec", ("request", "version"), "Requests answered.", TIMES),
    counter(REQUESTS + "ErrorsPerSec", ("request", "error"),
        "Errors in answers, one for each row that has one; NONE counts the answers without any.",
        ANSWERS),
    counter(REQUESTS + "DeprecatedRequestsPerSec", OLD_REQUESTS,
        "Requests in versions that Apache Kafka 4 does not serve any more.", ANSWERS),
    gauge(REQUESTS + "DeprecatedRequestsPerSec/FiveMinuteRate", OLD_REQUESTS,
        "The same by the second, in the last five minutes.", ANSWERS),
    quantiles(REQUESTS + "RequestBytes", ("request",), "Bytes of requests.", TIMES),
    quantiles(REQUESTS + "TotalTimeMs", ("request",),
        "Milliseconds from a request's arrival until the last byte of its answer has left.", TIMES),
    quantiles(REQUESTS + "RequestQueueTimeMs", ("request",),
        "Milliseconds in a queue before the work begins: 0, what is read begins.", TIMES),
    quantiles(REQUESTS + "LocalTimeMs", ("request",),
        "Milliseconds of work until there is an answer, or the request has to wait.", TIMES),
    quantiles(REQUESTS + "RemoteTimeMs", ("request",),
        "Milliseconds of waiting: for followers, for records, for a thread.", TIMES),
    quantiles(REQUESTS + "ThrottleTimeMs", ("request",),
        "Milliseconds that a client has to wait after the answer because of a quota.", ANSWERS),
    quantiles(REQUESTS + "ResponseQueueTimeMs", ("request",),
        "Milliseconds in a queue before the answer is sent: 0, there is none.", TIMES),
    quantiles(REQUESTS + "ResponseSendTimeMs", ("request",),
        "Milliseconds until the client has taken an answer that is there.", TIMES),
)
# fmt: on
