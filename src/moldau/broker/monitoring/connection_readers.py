"""Reads the metrics of `metrics/table/connection_metrics.py` from a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.broker.monitoring.reading import PROCESSOR, Reader, one
from moldau.metrics.answer_cells import OTHERS
from moldau.metrics.duration_cells import summary
from moldau.metrics.metric_definition import Samples
from moldau.metrics.table.connection_metrics import CHANNEL, EXPIRY, NETWORK, QUOTA, SOCKETS
from moldau.metrics.zookeeper_cells import ZooKeeperCells
from moldau.net.connection import Connection
from moldau.net.transport import bytes_moved

CONNECTIONS_PER_LOOK = 100
BUDGETS_PER_LOOK = 100
KINDS_MAX = 100
RATE_SECONDS = 60
MOVED = ("bytes_in", "bytes_out")

Count = Callable[[Connection], tuple[str, ...] | None]


def _totals(name: str) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        for acceptor in sources.server.acceptors:
            yield (acceptor.listener.name, PROCESSOR), getattr(acceptor.cells, name)

    return samples


def _rates(name: str) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        rates = sources.rates.rates(RATE_SECONDS)
        for acceptor in sources.server.acceptors:
            listener = acceptor.listener.name
            yield (listener, PROCESSOR), rates.get((listener, name), 0.0)

    return samples


def _bytes(which: int) -> Reader:
    """Of connections that are gone and of those that are open."""

    def samples(sources: MetricSources) -> Samples:
        sums: Counter[str] = Counter()
        for acceptor in sources.server.acceptors:
            sums[acceptor.listener.name] = getattr(acceptor.cells, MOVED[which])
        for number, connection in enumerate(list(sources.server.connections), 1):
            moved = None if connection.is_closed else bytes_moved(connection.fileno())
            if moved is not None:
                sums[connection.listener.name] += moved[which]
            if number % CONNECTIONS_PER_LOOK == 0:
                yield None
        for listener, count in sums.items():
            yield (listener, PROCESSOR), count

    return samples


def _connections_by(key: Count) -> Reader:
    """As in Apache Kafka there are at most so many kinds: clients name themselves as they like.
    What comes beyond is counted together."""

    def samples(sources: MetricSources) -> Samples:
        counts: Counter[tuple[str, ...]] = Counter()
        for number, connection in enumerate(list(sources.server.connections), 1):
            found = None if connection.is_closed else key(connection)
            if found is not None:
                kind = (*found, connection.listener.name, PROCESSOR)
                if kind not in counts and len(counts) >= KINDS_MAX:
                    kind = (*(OTHERS for _ in found), connection.listener.name, PROCESSOR)
                counts[kind] += 1
            if number % CONNECTIONS_PER_LOOK == 0:
                yield None
        yield from counts.items()

    return samples


def _connection_count(sources: MetricSources) -> Samples:
    for acceptor in sources.server.acceptors:
        yield (acceptor.listener.name, PROCESSOR), acceptor.connection_count


def _software(connection: Connection) -> tuple[str, ...]:
    name, version = connection.client_software
    return name or "unknown", version or "unknown"


def _connections_that(are: Callable[[Connection], bool]) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        count = 0
        for number, connection in enumerate(list(sources.server.connections), 1):
            count += are(connection)
            if number % CONNECTIONS_PER_LOOK == 0:
                yield None
        yield (), count

    return samples


def _blocked(sources: MetricSources) -> Samples:
    for acceptor in sources.server.acceptors:
        yield (acceptor.listener.name,), acceptor.cells.blocked_ns


# Quotas

_RESOURCES = {
    "byte-rate": ("Produce", "Fetch"),
    "request-time": ("Request",),
    "tokens": ("ControllerMutation",),
    "throttle-time": ("Produce", "Fetch", "Request", "ControllerMutation"),
}


def _quota(attribute: str) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        for used in _used(sources, attribute):
            yield used and (used[:3], used[3])  # None is a place to rest at

    return samples


def _quota_of(kind: str, attribute: str) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        for used in _used(sources, attribute):
            if used is None:
                yield None
            elif used[0] == kind:
                yield used[1:3], used[3]

    return samples


def _used(sources: MetricSources, attribute: str) -> Iterator[tuple[str, str, str, float] | None]:
    quotas = sources.quotas()
    if quotas is None:
        return
    for number, (kind, tags, rate, wait_ms) in enumerate(quotas.used(), 1):
        if kind in _RESOURCES[attribute]:
            value = wait_ms if attribute == "throttle-time" else rate
            yield kind, tags.user, tags.client_id, value
        elif number % BUDGETS_PER_LOOK == 0:
            yield None


# ZooKeeper


def _zookeeper(read: Callable[[ZooKeeperCells], object]) -> Reader:
    def samples(sources: MetricSources) -> Samples:
        if sources.zookeeper is not None:
            yield (), read(sources.zookeeper)

    return samples


def _session_state(sources: MetricSources) -> Samples:
    if sources.zookeeper is not None:
        yield (sources.zookeeper.state,), 1


CELLS = {
    "connection-creation": "opened",
    "connection-close": "closed",
    "successful-authentication": "logins",
    "failed-authentication": "failed_logins",
    "successful-reauthentication": "renewals",
    "failed-reauthentication": "failed_renewals",
}

CONNECTION_READERS: Mapping[str, Reader] = {
    NETWORK + "NetworkProcessorAvgIdlePercent": one(lambda s: s.idleness.share()),
    NETWORK + "ExpiredConnectionsKilledCount": one(
        lambda s: sum(acceptor.cells.expired for acceptor in s.server.acceptors)
    ),
    "kafka.network:type=Processor,name=IdlePercent": lambda s: [((PROCESSOR,), s.idleness.share())],
    "kafka.network:type=Acceptor,name=AcceptorBlockedPercent": _blocked,
    NETWORK + "MemoryPoolUsed": one(lambda s: s.server.request_memory.held_bytes),
    NETWORK + "MemoryPoolAvailable": one(lambda s: s.server.request_memory.left_bytes),
    CHANNEL + "RequestQueueSize": _connections_that(lambda each: each.has_backlog),
    CHANNEL + "ResponseQueueSize": _connections_that(lambda each: each.bytes_unsent > 0),
    SOCKETS + "connection-count": _connection_count,
    **{f"{SOCKETS}{name}-total": _totals(cell) for name, cell in CELLS.items()},
    **{f"{SOCKETS}{name}-rate": _rates(cell) for name, cell in CELLS.items()},
    SOCKETS + "incoming-byte-total": _bytes(0),
    SOCKETS + "outgoing-byte-total": _bytes(1),
    SOCKETS + "expired-connections-killed-count": _totals("expired"),
    SOCKETS + "connections-software": _connections_by(_software),
    SOCKETS + "connections-tls-info": _connections_by(lambda each: each.encryption),
    **{QUOTA + attribute: _quota(attribute) for attribute in _RESOURCES},
    **{
        f"kafka.server:type={kind}/{attribute}": _quota_of(kind, attribute)
        for attribute, kinds in _RESOURCES.items()
        for kind in kinds
        if kind != "ControllerMutation"
    },
    EXPIRY + "SessionState": _session_state,
    EXPIRY + "ZooKeeperSyncConnectsPerSec": _zookeeper(lambda cells: cells.connects),
    EXPIRY + "ZooKeeperDisconnectsPerSec": _zookeeper(lambda cells: cells.disconnects),
    EXPIRY + "ZooKeeperExpiresPerSec": _zookeeper(lambda cells: cells.expiries),
    EXPIRY + "ZooKeeperAuthFailuresPerSec": _zookeeper(lambda cells: cells.refusals),
    "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs": _zookeeper(
        lambda cells: summary([cells.latency])
    ),
}
