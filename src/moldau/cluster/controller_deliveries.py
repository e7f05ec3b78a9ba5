"""The controller's requests on their way: in order to each broker, repeated until it answers.

A request is given up when its broker is gone or has registered anew, which makes other requests
necessary, or when the term of the controller ends. To its own broker it goes without a connection.
For a broker that is registered but takes nothing, requests do not pile up without end: they are
thrown away, and it is told everything anew once it listens.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

from moldau.controller.broker_requests.state_requests import VERSIONS, ControlRequest
from moldau.engine.machine import Send
from moldau.engine.outbox import Outbox
from moldau.engine.timers import Timers
from moldau.metadata.store import StoreError
from moldau.metrics.duration_cells import DurationCells
from moldau.model.errors import ApiError, Error
from moldau.model.log_line_limit import LogLimit
from moldau.model.names import BrokerId, Millis
from moldau.net.peers import PeerCalls, PeerUnreachable

log = logging.getLogger("kafka.controller.RequestSendThread")
log.addFilter(LogLimit())

LANE = "control"
WAITING_MAX = 1_000
"""Requests for one broker. Each may name thousands of partitions."""
RETRY_MS = 100
FAILED_RETRY_MS = 1_000
STALE = frozenset({Error.STALE_CONTROLLER_EPOCH, Error.STALE_BROKER_EPOCH})
"""Answers to requests that will never be done: the tree tells why."""

Here = Callable[[Any], Awaitable[Any]]
"""Serves a request as if it had come over the network."""


class Deliveries:
    def __init__(
        self,
        node_id: BrokerId,
        peers: PeerCalls,
        here: Here,
        *,
        epoch_of: Callable[[BrokerId], int | None],
        answered: Callable[[BrokerId, Any, Any], None],
        tell_again: Callable[[BrokerId], None],
        timeout_ms: Callable[[], Millis],
        timers: Timers,
    ) -> None:
        """`epoch_of` gives the epoch of a broker that lives; `tell_again` is called for one that
        has missed requests and listens again."""
        self._node_id = node_id
        self._peers = peers
        self._here = here
        self._epoch_of = epoch_of
        self._answered = answered
        self._tell_again = tell_again
        self._timeout_ms = timeout_ms
        self._timers = timers
        self._outbox = Outbox(self._deliver, self._failed)
        self._sent_ns: dict[Hashable, deque[int]] = {}
        """When each request that is not answered yet was decided, in order."""
        self.times: dict[BrokerId, DurationCells] = {}
        """How long requests took from then until they were answered or given up."""
        self._behind: set[Hashable] = set()
        """Those for whom requests were thrown away."""

    def send(self, send: Send) -> None:
        broker = send.destination
        if broker in self._behind:
            return
        if self._outbox.waiting(broker) >= WAITING_MAX:
            log.warning(
                "[RequestSendThread controllerId=%d] Broker %s takes no requests; %d of them are "
                "thrown away, it is told everything anew when it listens.",
                self._node_id,
                broker,
                WAITING_MAX,
            )
            self._behind.add(broker)
            self._outbox.drop(broker)
            self._sent_ns.pop(broker, None)
            return
        self._sent_ns.setdefault(broker, deque(maxlen=2 * WAITING_MAX)).append(perf_counter_ns())
        self._outbox.send(send)

    def waiting(self) -> Mapping[Hashable, int]:
        """Requests that are not on their way yet, by broker."""
        return self._outbox.all_waiting()

    async def stop(self) -> None:
        await self._outbox.stop()

    def _failed(self, broker: BrokerId) -> None:
        """What was lost by a mistake is told anew, and not without a pause."""
        self._sent_ns.pop(broker, None)
        self._timers.after(FAILED_RETRY_MS, lambda: self._tell_again(broker))

    async def _deliver(self, broker: BrokerId, requests: Sequence[ControlRequest]) -> None:
        for number, request in enumerate(requests):
            # Of a broker that is behind only the first matters: whether it listens.
            if number == 0 or broker not in self._behind:
                await self._deliver_one(broker, request)
                self._note_time(broker)
        if broker in self._behind:
            self._behind.discard(broker)
            self._tell_again(broker)

    def _note_time(self, broker: BrokerId) -> None:
        sent_ns = self._sent_ns.get(broker)
        if sent_ns:
            times = self.times.setdefault(broker, DurationCells())
            times.add(perf_counter_ns() - sent_ns.popleft())

    def turn(self) -> None:
        """Called each time that quantiles should forget what is old; brokers that have gone are
        forgotten with it."""
        for broker in list(self.times):
            if self._epoch_of(broker) is None:
                del self.times[broker]
                self._sent_ns.pop(broker, None)
            else:
                self.times[broker].turn()

    async def _deliver_one(self, broker: BrokerId, request: ControlRequest) -> None:
        while self._epoch_of(broker) == request.broker_epoch:
            try:
                response = await self._call(broker, request)
            except (PeerUnreachable, StoreError, ApiError) as fault:
                self._say(broker, request, fault)
                await self._timers.pause(RETRY_MS)
                continue
            if response.error_code and response.error_code not in STALE:
                # It could not do it now: the metadata store did not tell it a topic's settings.
                self._say(broker, request, Error(response.error_code).name)
                await self._timers.pause(FAILED_RETRY_MS)
                continue
            self._answered(broker, request, response)
            return

    def _say(self, broker: BrokerId, request: ControlRequest, fault: object) -> None:
        log.warning(
            "[RequestSendThread controllerId=%d] Controller %d epoch %d fails to send %s to broker "
            "%d: %s. It is sent again.",
            self._node_id,
            self._node_id,
            request.controller_epoch,
            type(request).__name__,
            broker,
            fault,
        )

    async def _call(self, broker: BrokerId, request: ControlRequest) -> Any:
        if broker == self._node_id:
            return await self._here(request)
        return await self._peers.call(
            broker,
            request,
            timeout_ms=self._timeout_ms(),
            lane=LANE,
            version=VERSIONS[type(request)],
        )
