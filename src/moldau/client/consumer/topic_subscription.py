"""Watches the topics that a consumer subscribes to: new ones, missing ones, more partitions.

Metadata is asked for when it is old, and more often while a topic is missing. What changes the
group's shares makes the member rejoin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.client.consumer.consumer_coordinator import ConsumerGroup
from moldau.client.consumer.group_heartbeat import end_task
from moldau.client.consumer.subscription_state import Mode, Positions
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.model.errors import Error

MISSING_TOPIC_SECONDS = 1.0
"""How often to ask for a topic that is subscribed to and does not exist."""

_REFUSED = {Error.TOPIC_AUTHORIZATION_FAILED, Error.INVALID_TOPIC_EXCEPTION}


class TopicWatch:
    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        group: ConsumerGroup,
        *,
        allow_auto_create: bool,
        excludes_internal: bool,
        prefix: str,
    ) -> None:
        self._prefix = prefix
        self._log = logging.getLogger("moldau.consumer")
        self._cluster = cluster
        self._positions = positions
        self._group = group
        self._allow_auto_create = allow_auto_create
        self._excludes_internal = excludes_internal
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._retry_at = 0.0

    def forget(self) -> None:
        """A new pattern: see at once what it matches."""
        self._retry_at = 0.0

    async def close(self) -> None:
        if self._task is not None:
            await end_task(self._task)

    async def keep_up(self, wait: Callable[[asyncio.Task[Any]], Awaitable[bool]]) -> bool:
        """Whether enough is known to join; only what was never known is waited for."""
        positions, cluster = self._positions, self._cluster
        missing = any(cluster.topic(name) is None for name in positions.topics)
        is_new = positions.mode is Mode.PATTERN and not self._retry_at
        now = self._loop.time()
        if self._task is None and (cluster.is_old or is_new or (missing and now >= self._retry_at)):
            self._retry_at = now + MISSING_TOPIC_SECONDS
            self._task = self._loop.create_task(self._refresh())
        task = self._task
        if task is None:
            return True
        if (missing or is_new or cluster.is_old) and not await wait(task):
            return False
        if task.done():
            self._task = None
            try:
                task.result()
            except KafkaError as fault:
                if not fault.retriable:
                    raise
                self._log.warning("%sNo metadata: %s", self._prefix, fault)
                return False
        return True

    async def _refresh(self) -> None:
        positions, cluster = self._positions, self._cluster
        if positions.mode is Mode.PATTERN:
            await cluster.refresh_all()
            hides_internal = self._excludes_internal
            names = [
                row.name
                for row in cluster.topics.values()
                if not row.error and not (hides_internal and row.is_internal)
            ]
            if positions.match(names):
                self._group.membership.request_rejoin(
                    "the topics that match the pattern have changed"
                )
        else:
            await cluster.refresh(positions.topics, allow_auto_create=self._allow_auto_create)
            for name in positions.topics:
                code = cluster.topic_error(name)
                if code in _REFUSED:
                    raise error_for(code, f"{name}: {code.sentence}")
        self._group.notice_metadata()
