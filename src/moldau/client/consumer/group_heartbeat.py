"""A group's coordinator as one member sees it: where it is, and proofs of life for it.

The heartbeat is a task of its own: it depends on nothing that the user does, except that a member
who does not poll for max.poll.interval.ms leaves, so that others can have its partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.client.consumer.consumer_membership import Membership, MemberState, Verdict
from moldau.client.network.cluster_metadata import Cluster, CoordinatorKind
from moldau.client.network.network_client import coordinator_node
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.model.errors import Error
from moldau.wire.schema import Message


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel and wait; what it raised on the way is of no interest any more."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


class CoordinatorLink:
    """Calls the coordinator, wherever it is."""

    def __init__(self, cluster: Cluster, group_id: str, prefix: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self.prefix = prefix
        self.log = logging.getLogger("moldau.consumer.coordinator")
        self.discovered: int | None = None

    async def node(self) -> int:
        node_id = await self._cluster.coordinator(self._group_id, CoordinatorKind.GROUP)
        if node_id != self.discovered:
            self.discovered = node_id
            node = self._cluster.network.node(node_id)
            self.log.info(
                "%sDiscovered group coordinator %s:%s (id: %d rack: null)",
                *(self.prefix, node and node.host, node and node.port, node_id),
            )
        return node_id

    def lose(self, reason: str) -> None:
        """Look it up again on the next call."""
        self.discovered = None
        self._cluster.forget_coordinator(self._group_id, CoordinatorKind.GROUP)
        self.log.info(
            "%sGroup coordinator is unavailable or invalid due to cause: %s. Rediscovery will be"
            " attempted.",
            *(self.prefix, reason),
        )

    async def call(self, request: Message, timeout_ms: int) -> Any:
        return await self._cluster.network.call(await self.node(), request, timeout_ms=timeout_ms)

    async def call_aside(self, request: Message, timeout_ms: int) -> Any:
        """Past what the coordinator has not answered yet, over the broker's other connection."""
        node_id = coordinator_node(await self.node())
        return await self._cluster.network.call(node_id, request, timeout_ms=timeout_ms)

    async def pause(self, failures: int) -> None:
        if failures:
            await self._cluster.network.pause(failures)


class Heartbeat:
    def __init__(
        self,
        link: CoordinatorLink,
        membership: Membership,
        *,
        request_timeout_ms: int,
        retry_backoff_ms: int,
        leave: Callable[[str], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> None:
        self._link = link
        self._membership = membership
        self._timeout_ms = min(request_timeout_ms, membership.settings.session_timeout_ms)
        self._backoff_ms = retry_backoff_ms
        self._leave = leave
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._nudge = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_polling = False
        """While the user waits inside a poll, no poll is overdue."""
        self.fatal: KafkaError | None = None

    def now(self) -> int:
        return int(self._loop.time() * 1000)

    def start(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._beat())

    def nudge(self) -> None:
        """The membership has changed: see when the next heartbeat is due."""
        self._nudge.set()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)

    async def _beat(self) -> None:
        membership = self._membership
        while True:
            await self._until_due()
            now = self.now()
            if self.is_polling:
                membership.polled(now)
            if membership.is_poll_overdue(now):
                self._link.log.warning(
                    "%sconsumer poll timeout has expired. This means the time between subsequent"
                    " calls to poll() was longer than the configured max.poll.interval.ms. Raise"
                    " it or return fewer records per poll (max.poll.records).",
                    self._link.prefix,
                )
                await self._leave("consumer poll timeout has expired.")
            elif membership.is_heartbeat_due(now):
                await self._beat_once()

    async def _until_due(self) -> None:
        self._nudge.clear()
        delay_s: float | None = None
        if self._membership.beats:
            delay_s = max(0.0, self._membership.wake_at() / 1000 - self._loop.time() + 0.001)
        elif self._membership.state is not MemberState.UNJOINED:
            delay_s = 1.0
        try:
            async with asyncio.timeout(delay_s):
                await self._nudge.wait()
        except TimeoutError:
            pass

    async def _beat_once(self) -> None:
        membership = self._membership
        asked_by = membership.identity
        request = membership.heartbeat_request(self.now())
        try:
            response = await self._link.call(request, self._timeout_ms)
        except KafkaError as fault:
            now = self.now()
            membership.heartbeat_failed(now + self._backoff_ms)
            # Forgotten at once: a dead broker's groups have another coordinator soon.
            self._link.lose(str(fault))
            return
        verdict = membership.heartbeat_answered(response.error_code, asked_by, self.now())
        if verdict is Verdict.FINE:
            return
        error = error_for(response.error_code)
        if response.error_code == Error.REBALANCE_IN_PROGRESS:
            self._link.log.info(
                "%sAttempt to heartbeat failed since group is rebalancing", self._link.prefix
            )
        elif response.error_code == Error.UNKNOWN_MEMBER_ID:
            self._link.log.info(
                "%sAttempt to heartbeat failed since member id %s is not valid.",
                *(self._link.prefix, asked_by.member_id),
            )
        else:
            self._link.log.info("%sAttempt to heartbeat failed: %s", self._link.prefix, error)
        if verdict is Verdict.REDISCOVER:
            self._link.lose(str(error))
            membership.heartbeat_failed(self.now() + self._backoff_ms)
        elif verdict is Verdict.FAIL:
            self.fatal = error
        self._on_change()
