"""Pushes a client's metrics to a broker that asks for them (KIP-714), beside its work.

A task of the client's loop: it asks what is wanted, and while something is, it has requests
counted and tells of them in the interval that the broker names. A broker that does not offer to
take metrics is never asked.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from moldau.client.network.pushed_metrics import families, is_wanted
from moldau.client.network.request_stats import NodeStats
from moldau.client.shared.client_errors import KafkaError, code_of
from moldau.metrics.otlp.otlp_writing import DELTA, metrics_data
from moldau.model.errors import Error
from moldau.records.compression import Codec, compress
from moldau.wire.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)

if TYPE_CHECKING:
    from moldau.client.network.network_client import Network

log = logging.getLogger("moldau.client")

INTERVAL_S = 300.0
"""Until a broker names one."""
INTERVAL_S_MIN = 0.1
"""Whatever it names."""
JITTER = 0.5
"""Clients that start together push apart."""
LAST_PUSH_S = 1.0
"""For the last push, when the client closes."""
NO_ID = bytes(16)
CODECS = frozenset(int(codec) for codec in Codec)
NEVER_AGAIN = (Error.INVALID_REQUEST, Error.INVALID_RECORD, Error.UNSUPPORTED_VERSION)
ASK_AGAIN = (Error.UNKNOWN_SUBSCRIPTION_ID, Error.UNSUPPORTED_COMPRESSION_TYPE)


class MetricsPush:
    def __init__(self, network: Network, kind: str, attributes: dict[str, str]) -> None:
        """`kind` is producer, consumer or admin.client; `attributes` are told with it."""
        self._network = network
        self._kind = kind
        self._attributes = attributes
        self._instance_id = NO_ID
        self._wanted: GetTelemetrySubscriptionsResponse | None = None
        self._nodes: dict[int, NodeStats] = {}
        self._connections = 0
        self._begun_ns = time.time_ns()
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_on(self) -> bool:
        """Whether requests are to be counted."""
        return self._wanted is not None

    def connected(self) -> None:
        self._connections += 1

    def stats_of(self, node_id: int) -> NodeStats:
        stats = self._nodes.get(node_id)
        if stats is None:
            stats = self._nodes[node_id] = NodeStats()
        return stats

    async def close(self) -> None:
        """Tells for the last time, if something was wanted and a broker is connected."""
        wanted, connection = self._wanted, self._network.any_ready()
        self._task.cancel()
        await asyncio.wait([self._task])
        if wanted is not None and connection is not None:
            request = self._request(wanted, is_terminating=True)
            timeout_ms = int(LAST_PUSH_S * 1000)
            try:
                await connection.send(request, timeout_ms=timeout_ms)
            except KafkaError as fault:
                log.debug("The last metrics were not pushed: %s", fault)

    async def _run(self) -> None:
        interval_s = INTERVAL_S
        while True:
            error, asks_at_once = Error.NONE, False
            try:
                question = GetTelemetrySubscriptionsRequest(client_instance_id=self._instance_id)
                answer = await self._network.call_once(question)
                error = code_of(answer.error_code)
                if error is Error.NONE:
                    interval_s = max(INTERVAL_S_MIN, answer.push_interval_ms / 1000)
                    self._instance_id = answer.client_instance_id
                    if answer.requested_metrics:
                        error = await self._push(answer, interval_s)
                        asks_at_once = error in ASK_AGAIN
            except KafkaError as fault:
                log.debug("Metrics were not pushed: %s", fault)
            finally:
                self._count(None)
            if error in NEVER_AGAIN:
                log.warning("Metrics are not pushed any more: the broker answers %s", error.name)
                return
            if not asks_at_once:
                await asyncio.sleep(interval_s)

    async def _push(self, wanted: GetTelemetrySubscriptionsResponse, interval_s: float) -> Error:
        """Until the broker wants to be asked anew, or nothing more: with that error."""
        self._count(wanted)
        pause_s = interval_s * random.uniform(1 - JITTER, 1 + JITTER)
        while True:
            await asyncio.sleep(pause_s)
            pause_s = interval_s
            answer = await self._network.call_once(self._request(wanted))
            if answer.error_code in ASK_AGAIN or answer.error_code in NEVER_AGAIN:
                return code_of(answer.error_code)

    def _count(self, wanted: GetTelemetrySubscriptionsResponse | None) -> None:
        self._wanted = wanted
        self._network.count_requests()

    def _request(
        self, wanted: GetTelemetrySubscriptionsResponse, *, is_terminating: bool = False
    ) -> PushTelemetryRequest:
        now_ns = time.time_ns()
        seconds = max(0.001, (now_ns - self._begun_ns) / 1e9)
        told = families(self._kind, self._nodes, self._connections, seconds)
        chosen = is_wanted(wanted.requested_metrics)
        data = metrics_data(
            self._attributes,
            "moldau",
            [family for family in told if chosen(family.name)],
            self._begun_ns,
            now_ns,
            temporality=DELTA,
        )
        self._begun_ns, self._connections = now_ns, 0
        known = [each for each in wanted.accepted_compression_types if each in CODECS]
        codec = known[0] if known else Codec.NONE
        return PushTelemetryRequest(
            client_instance_id=self._instance_id,
            subscription_id=wanted.subscription_id,
            terminating=is_terminating,
            compression_type=codec,
            metrics=compress(codec, data),
        )
