"""Reads the metrics of `metrics/table/traffic_metrics.py` from a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from moldau.broker.monitoring.metric_sources import REPLICAS_PER_LOOK, MetricSources
from moldau.metrics.duration_cells import DurationCells, summary
from moldau.metrics.metric_definition import Samples
from moldau.metrics.table.traffic_metrics import (
    PURGATORY,
    REPLICAS,
    REQUESTS,
    SERVER,
    SESSIONS,
    SOCKETS,
    TOPICS,
)
from moldau.net.request_times import FETCH, FOLLOWER_FETCH, RequestCells
from moldau.wire.apis import api

Reader = Callable[[MetricSources], Samples]
PROCESSOR = "0"
"""There is one loop; Kafka numbers its network threads."""


def one(read: Callable[[MetricSources], float]) -> Reader:
    """Of a metric without tags."""
    return lambda sources: [((), read(sources))]


def by_topic(name: str) -> Reader:
    """The sum of all, then each topic that has counted something, as in Apache Kafka."""

    def read(sources: MetricSources) -> Samples:
        traffic = sources.replicas.traffic
        yield (), traffic.total(name)
        for topic, cells in traffic.topics():
            value = getattr(cells, name)
            if value:
                yield (topic,), value

    return read


def _of_isr(name: str) -> Reader:
    return one(lambda sources: getattr(sources.isr_sender, name, 0))


def _offline_count(sources: MetricSources) -> int:
    return len(sources.replicas.offline)


def _reassigning(sources: MetricSources) -> Samples:
    count = 0
    for topic in list(sources.image().topics.values()):
        for partition in topic.partitions:
            is_moving = bool(partition.adding or partition.removing)
            count += is_moving and partition.leader == sources.node_id
        yield None
    yield (), count


def _consumer_lag(sources: MetricSources) -> Samples:
    for number, replica in enumerate(list(sources.replicas), 1):
        partition = replica.partition
        if not partition.is_leader:
            place = partition.topic_partition
            client = f"ReplicaFetcherThread-0-{partition.leader}"
            yield (client, place.topic, str(place.partition)), replica.lag
        elif number % REPLICAS_PER_LOOK == 0:
            yield None


def _disk_bytes(name: str) -> Reader:
    def read(_: MetricSources) -> Samples:
        try:
            with open("/proc/self/io") as file:
                rows = dict(line.split(": ") for line in file.read().splitlines())
        except OSError:
            return  # the kernel does not tell
        yield (), int(rows[name])

    return read


def _connection_count(sources: MetricSources) -> Samples:
    counts = Counter(each.listener.name for each in sources.server.connections)
    for listener in sources.server.listeners:
        yield (listener.name, PROCESSOR), counts[listener.name]


def _software(sources: MetricSources) -> Samples:
    counts = Counter(
        (*each.client_software, each.listener.name) for each in sources.server.connections
    )
    for (name, version, listener), count in counts.items():
        yield (name or "unknown", version or "unknown", listener, PROCESSOR), count


def _parked(sources: MetricSources) -> Samples:
    waiting = sources.replicas.waiting
    yield ("Produce",), waiting.writes_count
    yield ("Fetch",), waiting.parked_count - waiting.writes_count


# Requests


def _requests(sources: MetricSources) -> Iterator[tuple[str, list[RequestCells]]]:
    """By Kafka's names; a fetch is told of twice, as any fetch and by who has sent it."""
    cells = sources.server.times.cells
    fetches = [each for each in (cells[FETCH], cells[FOLLOWER_FETCH]) if each is not None]
    if fetches:
        yield "Fetch", fetches
    for key, each in enumerate(cells):
        if each is not None:
            row = api(key)
            names = {FETCH: "FetchConsumer", FOLLOWER_FETCH: "FetchFollower"}
            yield names.get(key) or (row.name if row else str(key)), [each]


def _request_counts(sources: MetricSources) -> Samples:
    for request, cells in _requests(sources):
        counts = [sum(each) for each in zip(*(one.versions for one in cells), strict=True)]
        for version, count in enumerate(counts):
            if count:
                yield (request, str(version)), count


def _durations(
    parts: Callable[[RequestCells], list[DurationCells]],
    zeros: Callable[[RequestCells], list[DurationCells]] = lambda _: [],
) -> Reader:
    def read(sources: MetricSources) -> Samples:
        for request, cells in _requests(sources):
            taken = [each for one in cells for each in parts(one)]
            none = [each for one in cells for each in zeros(one)]
            yield (request,), summary(taken, none)
            yield None

    return read


TRAFFIC_READERS: Mapping[str, Reader] = {
    TOPICS + "MessagesInPerSec": by_topic("messages_in"),
    TOPICS + "BytesInPerSec": by_topic("bytes_in"),
    TOPICS + "BytesOutPerSec": by_topic("bytes_out"),
    TOPICS + "ReplicationBytesInPerSec": one(
        lambda s: s.replicas.traffic.total("replication_bytes_in")
    ),
    TOPICS + "ReplicationBytesOutPerSec": one(
        lambda s: s.replicas.traffic.total("replication_bytes_out")
    ),
    TOPICS + "TotalProduceRequestsPerSec": by_topic("produces"),
    TOPICS + "FailedProduceRequestsPerSec": by_topic("failed_produces"),
    TOPICS + "TotalFetchRequestsPerSec": by_topic("fetches"),
    TOPICS + "FailedFetchRequestsPerSec": by_topic("failed_fetches"),
    REPLICAS + "LeaderCount": one(lambda s: s.survey.leaders),
    REPLICAS + "PartitionCount": one(lambda s: len(s.replicas)),
    REPLICAS + "UnderReplicatedPartitions": one(lambda s: s.survey.under_replicated),
    REPLICAS + "UnderMinIsrPartitionCount": one(lambda s: s.survey.under_min_isr),
    REPLICAS + "AtMinIsrPartitionCount": one(lambda s: s.survey.at_min_isr),
    REPLICAS + "OfflineReplicaCount": one(_offline_count),
    REPLICAS + "ReassigningPartitions": _reassigning,
    REPLICAS + "ProducerIdCount": one(lambda s: s.survey.producers),
    REPLICAS + "IsrShrinksPerSec": _of_isr("shrinks"),
    REPLICAS + "IsrExpandsPerSec": _of_isr("expands"),
    REPLICAS + "FailedIsrUpdatesPerSec": _of_isr("failures"),
    "kafka.server:type=ReplicaFetcherManager,name=MaxLag": lambda s: [
        (("Replica",), s.survey.lag_max)
    ],
    "kafka.server:type=FetcherLagMetrics,name=ConsumerLag": _consumer_lag,
    SERVER + "BrokerState": one(lambda s: s.state),
    SERVER + "linux-disk-read-bytes": _disk_bytes("read_bytes"),
    SERVER + "linux-disk-write-bytes": _disk_bytes("write_bytes"),
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent": one(
        lambda s: s.idleness.share()
    ),
    "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent": one(
        lambda s: s.idleness.share()
    ),
    SOCKETS + "connection-count": _connection_count,
    SOCKETS + "connections-software": _software,
    PURGATORY + "PurgatorySize": _parked,
    SESSIONS + "NumIncrementalFetchSessions": one(lambda s: len(s.fetch_sessions)),
    SESSIONS + "NumIncrementalFetchPartitionsCached": one(
        lambda s: s.fetch_sessions.partition_count
    ),
    REQUESTS + "RequestsPerSec": _request_counts,
    REQUESTS + "TotalTimeMs": _durations(lambda cells: [cells.at_once, cells.total]),
    REQUESTS + "LocalTimeMs": _durations(lambda cells: [cells.at_once, cells.local]),
    REQUESTS + "RemoteTimeMs": _durations(
        lambda cells: [cells.remote], lambda cells: [cells.at_once]
    ),
    REQUESTS + "ResponseSendTimeMs": _durations(
        lambda cells: [cells.send], lambda cells: [cells.at_once]
    ),
}
