"""The metrics that a client tells of itself: names are those of Java's clients (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from moldau.client.network.request_stats import LatencyCell, NodeStats
from moldau.metrics.otlp.otlp_writing import Family, Series

PREFIX = "org.apache.kafka."
PRODUCE, FETCH, OFFSET_COMMIT = 0, 1, 8
LATENCIES = {
    "producer": {PRODUCE: "request.latency"},
    "consumer": {
        FETCH: "fetch.manager.fetch.latency",
        OFFSET_COMMIT: "coordinator.commit.latency",
    },
    "admin.client": {},
}
"""By the kind of client, of which requests latencies are told alone."""
ALL = "*"
Cells = Mapping[tuple[tuple[str, str], ...], LatencyCell]
"""By the attributes of the series."""


def is_wanted(requested: Sequence[str]) -> Callable[[str], bool]:
    """By the beginnings of names that a broker asks for."""
    beginnings = tuple(requested)
    if ALL in beginnings:
        return lambda name: True
    return lambda name: name.startswith(beginnings)


def families(
    kind: str, nodes: Mapping[int, NodeStats], connections: int, seconds: float
) -> Iterator[Family]:
    """What was counted in so many seconds; it is taken away from `nodes`."""
    prefix = f"{PREFIX}{kind}."
    taken = {node: stats.taken() for node, stats in nodes.items()}
    yield _counter(prefix + "connection.creation.total", connections)
    yield _gauge(prefix + "connection.creation.rate", connections / seconds)
    by_node = {node: _together(stats.by_api.values()) for node, stats in taken.items()}
    count = sum(cell.count for cell in by_node.values())
    yield _counter(prefix + "request.total", count)
    yield _gauge(prefix + "request.rate", count / seconds)
    of_nodes: Cells = {(("node_id", str(node)),): cell for node, cell in by_node.items()}
    yield from _latency(prefix + "node.request.latency", of_nodes)
    for api_key, name in LATENCIES[kind].items():
        cells = (stats.by_api[api_key] for stats in taken.values() if api_key in stats.by_api)
        yield from _latency(prefix + name, {(): _together(cells)})
    if kind == "producer":
        throttles = _together(stats.throttle for stats in taken.values())
        yield from _latency(prefix + "produce.throttle.time", {(): throttles})


def _together(cells: Iterable[LatencyCell]) -> LatencyCell:
    together = LatencyCell()
    for cell in cells:
        together.merge(cell)
    return together


def _latency(name: str, cells: Cells) -> Iterator[Family]:
    """In milliseconds; nothing where nothing was answered."""
    known = {place: cell for place, cell in cells.items() if cell.count}
    if known:
        means = [Series(place, 1000 * cell.total_s / cell.count) for place, cell in known.items()]
        longest = [Series(place, 1000 * cell.longest_s) for place, cell in known.items()]
        yield Family(f"{name}.avg", "", False, means)
        yield Family(f"{name}.max", "", False, longest)


def _counter(name: str, value: int) -> Family:
    return Family(name, "", True, [Series((), value)])


def _gauge(name: str, value: float) -> Family:
    return Family(name, "", False, [Series((), value)])
