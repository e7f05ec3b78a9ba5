"""Takes the metrics that clients push (KIP-714): checks who may, reads them, keeps and passes on.

Called by `handlers/cluster/client_telemetry.py`. Built only where somebody looks at the values: at
`metrics.http.listener`, or a reporter that wants them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from moldau.config.client_metrics_config import ClientMetricsConfig
from moldau.handlers.request_context import RequestContext
from moldau.metrics.otlp.otlp_reading import Point, read_points
from moldau.metrics.prometheus_text import family
from moldau.metrics.pushed.client_instances import ClientInstance, ClientInstances
from moldau.metrics.pushed.client_subscriptions import MATCHED_LENGTH_MAX, Subscription
from moldau.metrics.pushed.pushed_values import PushedValues
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage
from moldau.model.errors import ApiError, Error
from moldau.model.log_line_limit import LogLimit
from moldau.model.names import uuid_text
from moldau.net.connection_muting import done_beside
from moldau.records.compression import decompress

log = logging.getLogger("kafka.server.ClientMetricsManager")
log.addFilter(LogLimit())

READ_AT_ONCE_BYTES = 2 * 1024
"""What is longer, or compressed, is read in a thread."""
POINTS_PER_TURN = 1_000
"""Then others have their turn on the loop."""
DESCRIBED_MAX = MATCHED_LENGTH_MAX + 1
"""Characters that are kept of a name: what is longer is still seen to be too long to match."""
FORGET_MS = 10_000
"""How often it is looked who has been silent too long."""

Taker = Callable[[Mapping[str, str], memoryview, list[Point]], None]
"""Is given who pushed, the payload, and its points."""


class ClientTelemetry:
    def __init__(
        self,
        telemetry_bytes_max: int,
        image: Callable[[], ClusterImage],
        clock: Clock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.instances = ClientInstances(telemetry_bytes_max, lambda: _new_id(random_bytes))
        self.values = PushedValues()
        self.takers: list[Taker] = []
        self.pushes = 0
        self.failures = 0
        """Pushes that could not be read."""
        self._image = image
        self._clock = clock
        self._seen: Mapping[str, Mapping[str, str]] = {}
        self._thread: ThreadPoolExecutor | None = None

    @property
    def bytes_max(self) -> int:
        return self.instances.bytes_max

    def ask(self, instance_id: bytes, ctx: RequestContext) -> ClientInstance:
        self._follow_subscriptions()
        client = _description(instance_id, ctx)
        now_ms = self._clock.monotonic_ms()
        instance = self.instances.ask(instance_id, client, _is_gone(ctx), now_ms)
        if not any(instance_id):
            instance.client = _description(instance.instance_id, ctx)
        return instance

    async def push(
        self,
        instance_id: bytes,
        ctx: RequestContext,
        metrics: bytes,
        *,
        subscription: int,
        is_terminating: bool,
        compression: int,
    ) -> None:
        self._follow_subscriptions()
        instance = self.instances.push(
            instance_id,
            _description(instance_id, ctx),
            _is_gone(ctx),
            self._clock.monotonic_ms(),
            subscription=subscription,
            is_terminating=is_terminating,
            compression=compression,
            size_bytes=len(metrics),
        )
        if not metrics:
            return
        try:
            data, points = await self._read(metrics, compression)
        except (ValueError, ApiError) as fault:
            self.failures += 1
            self.instances.failed(instance)
            log.warning("Metrics of client %s cannot be read: %s", instance.client, fault)
            raise ApiError(Error.INVALID_RECORD, str(fault)) from fault
        self.pushes += 1
        for take in self.takers:
            take(instance.client, data, points)
        for begin in range(0, len(points), POINTS_PER_TURN):
            some = points[begin : begin + POINTS_PER_TURN]
            self.values.take(instance_id, instance.client, some, self._clock.wall_ms())
            if len(some) == POINTS_PER_TURN:
                await asyncio.sleep(0)

    def forget_silent(self) -> None:
        self.instances.forget_silent(self._clock.monotonic_ms())
        # Also of those that had to make room for others.
        self.values.keep(self.instances.is_known)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def prometheus_lines(self) -> Iterator[str]:
        """An empty one is a place to rest at."""
        for each in self.values.families():
            if each is not None:
                yield from family(*each)
            yield ""

    def json_lines(self) -> Iterator[str]:
        """All clients with what they have pushed; an empty piece is a place to rest at."""
        yield '{"clients": ['
        begin = "\n"
        for pushing in self.values.clients():
            rows = [
                {
                    "name": name,
                    "attributes": dict(attributes),
                    "kind": "counter" if is_counter else "gauge",
                    "value": value,
                }
                for (name, attributes, is_counter), value in list(pushing.values.items())
            ]
            told = {**pushing.client, "pushed_at_ms": pushing.pushed_at_ms, "metrics": rows}
            yield begin + json.dumps(told)
            yield ""
            begin = ",\n"
        yield f'\n], "dropped": {self.values.dropped}}}\n'

    def _follow_subscriptions(self) -> None:
        stored = self._image().client_metrics
        if stored is self._seen or stored == self._seen:
            return
        self._seen = stored
        self.instances.subscribe([_subscription(each) for each in stored.values()])

    async def _read(self, metrics: bytes, compression: int) -> tuple[memoryview, list[Point]]:
        limit = self.bytes_max
        if not compression and len(metrics) <= READ_AT_ONCE_BYTES:
            return _read(metrics, compression, limit)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "client-metrics")
        # A client that ends does not wait for the answer to its last push.
        return await done_beside(self._thread, _read, metrics, compression, limit)


def _read(metrics: bytes, compression: int, limit: int) -> tuple[memoryview, list[Point]]:
    data = memoryview(decompress(compression, metrics, limit))
    return data, read_points(data)


def _subscription(overrides: Mapping[str, str]) -> Subscription:
    parsed = ClientMetricsConfig.of(overrides)
    return Subscription.of(parsed.metrics, parsed.interval_ms, parsed.match)


def _description(instance_id: bytes, ctx: RequestContext) -> dict[str, str]:
    """Who pushes, by the keys of subscriptions; and its principal, for whoever looks."""
    name, version, port = "", "", ""
    if ctx.connection is not None:
        name, version = ctx.connection.client_software
        port = str(ctx.connection.client_port)
    return {
        "client_id": (ctx.client_id or "")[:DESCRIBED_MAX],
        "client_instance_id": uuid_text(instance_id),
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": ctx.client_host,
        "client_source_port": port,
        "principal": str(ctx.principal)[:DESCRIBED_MAX],
    }


def _is_gone(ctx: RequestContext) -> Callable[[], bool]:
    connection = ctx.connection
    return (lambda: False) if connection is None else (lambda: connection.is_closed)


def _new_id(random_bytes: Callable[[int], bytes]) -> bytes:
    """A random UUID, of version 4, that text can begin with: none of Kafka's begins with a dash."""
    while True:
        found = bytearray(random_bytes(16))
        found[6] = found[6] & 0x0F | 0x40
        found[8] = found[8] & 0x3F | 0x80
        if not uuid_text(bytes(found)).startswith("-"):
            return bytes(found)
