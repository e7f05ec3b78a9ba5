"""Reads the metrics of `metrics/table/traffic_metrics.py` from a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from moldau.broker.monitoring.metric_sources import REPLICAS_PER_LOOK, MetricSources
from moldau.broker.monitoring.reading import Reader, one
from moldau.metrics.duration_cells import NS_PER_MS, DurationCells, summary
from moldau.metrics.metric_definition import Samples
from moldau.metrics.table.traffic_metrics import (
    FETCHERS,
    PURGATORY,
    REPLICAS,
    REQUESTS,
    SERVER,
    SESSIONS,
    TOPICS,
)
from moldau.model.errors import Error
from moldau.net.request_times import FETCH, FOLLOWER_FETCH, RequestCells
from moldau.wire.apis import api

RATE_SECONDS = 60
FIVE_MINUTES = 300


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


def _of_all(name: str) -> Reader:
    """The sum of all topics, as Apache Kafka tells what one alone does not need."""
    return one(lambda sources: sources.replicas.traffic.total(name))


def _of_isr(name: str) -> Reader:
    def read(sources: MetricSources) -> int:
        sender = None if sources.cluster is None else sources.cluster.isr_sender
        return 0 if sender is None else int(getattr(sender, name))

    return one(read)


def _offline_count(sources: MetricSources) -> int:
    return len(sources.replicas.offline)


def _stray_bytes(sources: MetricSources) -> int:
    logs = map(sources.logs.get, sources.replicas.strays())
    return sum(log.size_bytes for log in logs if log is not None)


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


def _parked(sources: MetricSources) -> Samples:
    waiting = sources.replicas.waiting
    yield ("Produce",), waiting.writes_count
    yield ("Fetch",), waiting.parked_count - waiting.writes_count
    # Kafka parks what a group waits for too: members that are to join, and each one's next sign.
    yield ("Rebalance",), sources.groups.states["PreparingRebalance"]
    yield ("Heartbeat",), sources.groups.members


# Followers


def _slowest_fetcher(sources: MetricSources) -> Samples:
    rates = sources.rates.rates(RATE_SECONDS).items()
    found = [rate for key, rate in rates if isinstance(key, tuple) and key[0] == "fetcher"]
    yield ("Replica",), min(found, default=0.0)


def _dead_fetchers(sources: MetricSources) -> Samples:
    fetchers = None if sources.cluster is None else sources.cluster.fetchers
    count = 0 if fetchers is None else sum(each.is_dead for _, _, each in fetchers.each())
    yield ("Replica",), count


# Requests

Kind = tuple[str, list[RequestCells], list[int]]
"""Kafka's name of a request, its cells, and the keys of APIs by which other cells know it."""


def _requests(sources: MetricSources) -> Iterator[Kind]:
    """A fetch is told of twice, as any fetch and by who has sent it."""
    cells = sources.server.times.cells
    fetches = [each for each in (cells[FETCH], cells[FOLLOWER_FETCH]) if each is not None]
    if fetches:
        yield "Fetch", fetches, [FETCH]
    for key, each in enumerate(cells):
        if each is not None:
            yield _name_of(key), [each], [key]


def _name_of(key: int) -> str:
    row = api(key)
    names = {FETCH: "FetchConsumer", FOLLOWER_FETCH: "FetchFollower"}
    return names.get(key) or (row.name if row else str(key))


def _request_counts(sources: MetricSources) -> Samples:
    for request, cells, _ in _requests(sources):
        counts = [sum(each) for each in zip(*(one.versions for one in cells), strict=True)]
        for version, count in enumerate(counts):
            if count:
                yield (request, str(version)), count


def _errors(sources: MetricSources) -> Samples:
    """Of a fetch once, whoever has sent it."""
    answers = sources.answers
    for request, cells, keys in _requests(sources):
        if request in ("FetchConsumer", "FetchFollower"):
            continue
        answered = sum(sum(each.versions) for each in cells)
        yield (request, "NONE"), max(0, answered - answers.failed.get(keys[0], 0))
        for code, count in list(answers.errors.get(keys[0], {}).items()):
            yield (request, Error(code).name), count


def _old_versions(sources: MetricSources) -> Samples:
    for (key, version, name, software), count in list(sources.answers.old_versions.items()):
        yield (_api_name(key), str(version), name, software), count


def _old_version_rates(sources: MetricSources) -> Samples:
    rates = sources.rates.rates(FIVE_MINUTES)
    for old in list(sources.answers.old_versions):
        yield (_api_name(old[0]), str(old[1]), *old[2:]), rates.get(old, 0.0)


def _api_name(key: int) -> str:
    row = api(key)
    return row.name if row else str(key)


Parts = Callable[[RequestCells], list[DurationCells]]


def _nothing(_: RequestCells) -> list[DurationCells]:
    return []


def _durations(parts: Parts, zeros: Parts = _nothing, unit: float = NS_PER_MS) -> Reader:
    def read(sources: MetricSources) -> Samples:
        for request, cells, _ in _requests(sources):
            taken = [each for one in cells for each in parts(one)]
            none = [each for one in cells for each in zeros(one)]
            yield (request,), summary(taken, none, unit)
            yield None

    return read


def _all(cells: RequestCells) -> list[DurationCells]:
    return [cells.at_once, cells.total]


def _throttle_times(sources: MetricSources) -> Samples:
    """Who did not have to wait counts as 0."""
    for request, cells, keys in _requests(sources):
        waited = [each for key in keys if (each := sources.answers.throttled.get(key))]
        everybody = [each for one in cells for each in _all(one)]
        found = summary(waited, everybody)
        yield (request,), found._replace(number=sum(each.count for each in everybody))
        yield None


TRAFFIC_READERS: Mapping[str, Reader] = {
    TOPICS + "MessagesInPerSec": by_topic("messages_in"),
    TOPICS + "BytesInPerSec": by_topic("bytes_in"),
    TOPICS + "BytesOutPerSec": by_topic("bytes_out"),
    TOPICS + "ReplicationBytesInPerSec": _of_all("replication_bytes_in"),
    TOPICS + "ReplicationBytesOutPerSec": _of_all("replication_bytes_out"),
    TOPICS + "ReassignmentBytesInPerSec": _of_all("reassignment_bytes_in"),
    TOPICS + "ReassignmentBytesOutPerSec": _of_all("reassignment_bytes_out"),
    TOPICS + "TotalProduceRequestsPerSec": by_topic("produces"),
    TOPICS + "FailedProduceRequestsPerSec": by_topic("failed_produces"),
    TOPICS + "TotalFetchRequestsPerSec": by_topic("fetches"),
    TOPICS + "FailedFetchRequestsPerSec": by_topic("failed_fetches"),
    TOPICS + "BytesRejectedPerSec": by_topic("bytes_rejected"),
    TOPICS + "ProduceMessageConversionsPerSec": by_topic("produce_conversions"),
    TOPICS + "FetchMessageConversionsPerSec": by_topic("fetch_conversions"),
    TOPICS + "InvalidMessageCrcRecordsPerSec": _of_all("invalid_checksums"),
    TOPICS + "InvalidMagicNumberRecordsPerSec": _of_all("invalid_formats"),
    TOPICS + "InvalidOffsetOrSequenceRecordsPerSec": _of_all("invalid_sequences"),
    TOPICS + "NoKeyCompactedTopicRecordsPerSec": _of_all("keyless"),
    REPLICAS + "LeaderCount": one(lambda s: s.survey.leaders),
    REPLICAS + "PartitionCount": one(lambda s: len(s.replicas)),
    REPLICAS + "UnderReplicatedPartitions": one(lambda s: s.survey.under_replicated),
    REPLICAS + "UnderMinIsrPartitionCount": one(lambda s: s.survey.under_min_isr),
    REPLICAS + "AtMinIsrPartitionCount": one(lambda s: s.survey.at_min_isr),
    REPLICAS + "OfflineReplicaCount": one(_offline_count),
    REPLICAS + "ReassigningPartitions": one(lambda s: s.survey.moving),
    REPLICAS + "PartitionsWithLateTransactionsCount": one(lambda s: s.survey.late),
    REPLICAS + "ProducerIdCount": one(lambda s: s.survey.producers),
    REPLICAS + "StrayPartitionsCount": one(lambda s: len(s.replicas.strays())),
    REPLICAS + "StrayPartitionsTotalSize": one(_stray_bytes),
    REPLICAS + "IsrShrinksPerSec": _of_isr("shrinks"),
    REPLICAS + "IsrExpandsPerSec": _of_isr("expands"),
    REPLICAS + "FailedIsrUpdatesPerSec": _of_isr("failures"),
    FETCHERS + "MaxLag": lambda s: [(("Replica",), s.survey.lag_max)],
    FETCHERS + "MinFetchRate": _slowest_fetcher,
    FETCHERS + "DeadThreadCount": _dead_fetchers,
    "kafka.server:type=FetcherLagMetrics,name=ConsumerLag": _consumer_lag,
    SERVER + "BrokerState": one(lambda s: s.state),
    SERVER + "linux-disk-read-bytes": _disk_bytes("read_bytes"),
    SERVER + "linux-disk-write-bytes": _disk_bytes("write_bytes"),
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent": one(
        lambda s: s.idleness.share()
    ),
    PURGATORY + "PurgatorySize": _parked,
    PURGATORY + "NumDelayedOperations": _parked,
    SESSIONS + "NumIncrementalFetchSessions": one(lambda s: len(s.fetch_sessions)),
    SESSIONS + "NumIncrementalFetchPartitionsCached": one(
        lambda s: s.fetch_sessions.partition_count
    ),
    SESSIONS + "IncrementalFetchSessionEvictionsPerSec": one(lambda s: s.fetch_sessions.evictions),
    REQUESTS + "RequestsPerSec": _request_counts,
    REQUESTS + "ErrorsPerSec": _errors,
    REQUESTS + "DeprecatedRequestsPerSec": _old_versions,
    REQUESTS + "DeprecatedRequestsPerSec/FiveMinuteRate": _old_version_rates,
    REQUESTS + "RequestBytes": _durations(lambda cells: [cells.sizes], unit=1.0),
    REQUESTS + "TotalTimeMs": _durations(_all),
    REQUESTS + "RequestQueueTimeMs": _durations(_nothing, _all),
    REQUESTS + "ResponseQueueTimeMs": _durations(_nothing, _all),
    REQUESTS + "ThrottleTimeMs": _throttle_times,
    REQUESTS + "LocalTimeMs": _durations(lambda cells: [cells.at_once, cells.local]),
    REQUESTS + "RemoteTimeMs": _durations(
        lambda cells: [cells.remote], lambda cells: [cells.at_once]
    ),
    REQUESTS + "ResponseSendTimeMs": _durations(
        lambda cells: [cells.send], lambda cells: [cells.at_once]
    ),
}
