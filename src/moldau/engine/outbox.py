"""What machines send to brokers, gathered per destination.

Messages to one broker arrive in the order of their sending; those that come while earlier ones are
on their way leave together, as one delivery. How a delivery is made (a call inside this broker, a
request to another one) is the business of `deliver`, which also tells the sender what became of
each message: nothing is kept or repeated here, because only the sender knows whether it still
matters.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from moldau.engine.machine import Send

log = logging.getLogger(__name__)

DELIVERY_MESSAGES_MAX = 500

Deliver = Callable[[Any, Sequence[Any]], Awaitable[None]]
"""By destination and messages."""


class Outbox:
    def __init__(
        self, deliver: Deliver, failed: Callable[[Any], None] = lambda destination: None
    ) -> None:
        """`failed` hears of a destination whose messages were lost because `deliver` raised."""
        self._deliver = deliver
        self._failed = failed
        self._queues: dict[Hashable, deque[object]] = {}
        """Of destinations that have a delivery under way."""
        self._deliveries: set[asyncio.Task[None]] = set()

    def send(self, send: Send) -> None:
        queue = self._queues.get(send.destination)
        if queue is not None:
            queue.append(send.message)
            return
        self._queues[send.destination] = deque((send.message,))
        self._start(send.destination)

    def waiting(self, destination: Hashable) -> int:
        """Messages that are not on their way yet."""
        return len(self._queues.get(destination, ()))

    def all_waiting(self) -> Mapping[Hashable, int]:
        """The same, by destination."""
        return {destination: len(queue) for destination, queue in self._queues.items()}

    def drop(self, destination: Hashable) -> None:
        """Give up what waits for this destination."""
        if destination in self._queues:
            self._queues[destination].clear()

    async def stop(self) -> None:
        """What is under way or waits is given up: whoever loads the senders' state sends anew."""
        deliveries = list(self._deliveries)
        for delivery in deliveries:
            delivery.cancel()
        if deliveries:
            await asyncio.wait(deliveries)

    def _start(self, destination: Hashable) -> None:
        delivery = asyncio.get_running_loop().create_task(self._drain(destination))
        self._deliveries.add(delivery)
        delivery.add_done_callback(partial(self._ended, destination))

    async def _drain(self, destination: Hashable) -> None:
        queue = self._queues[destination]
        while queue:
            count = min(len(queue), DELIVERY_MESSAGES_MAX)
            await self._deliver(destination, [queue.popleft() for _ in range(count)])

    def _ended(self, destination: Hashable, delivery: asyncio.Task[None]) -> None:
        self._deliveries.discard(delivery)
        if delivery.cancelled():
            self._queues.pop(destination, None)
            return
        fault = delivery.exception()
        if fault is not None:
            log.error("delivery failed destination=%s", destination, exc_info=fault)
            self._failed(destination)
        if self._queues[destination]:
            self._start(destination)
        else:
            del self._queues[destination]
