"""What both faces of the consumer share: its parts, and the loop of a poll.

Everything here runs on the event loop, except `buffer`, `is_quiet`, `wait_here` and `wakeup`. A
poll keeps the membership alive, finds positions, and waits for records; what takes longer than
the poll runs on as a task and is found again by the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from typing import Any

from moldau.client.consumer.assignment.partition_assignors import assignors_of
from moldau.client.consumer.consumer_coordinator import ConsumerGroup, GroupOptions, Invoke
from moldau.client.consumer.consumer_fetcher import Fetcher
from moldau.client.consumer.consumer_membership import GroupSettings, Membership, MemberState
from moldau.client.consumer.fetch_buffer import RecordBuffer
from moldau.client.consumer.fetch_collector import Taking
from moldau.client.consumer.fetch_session import FetchSettings
from moldau.client.consumer.group_heartbeat import end_task
from moldau.client.consumer.offset_commits import Commits, Offsets, OnCommit
from moldau.client.consumer.offset_reset import PositionUpkeep
from moldau.client.consumer.partition_offsets import OffsetLookup
from moldau.client.consumer.poll_wakeup import PollWakeup
from moldau.client.consumer.subscription_state import Mode, Positions
from moldau.client.consumer.topic_subscription import MISSING_TOPIC_SECONDS, TopicWatch
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.network.network_client import Network, NetworkSettings
from moldau.client.serialization.fetched_batches import RecordReader
from moldau.client.shared.client_errors import (
    IllegalStateError,
    KafkaError,
    WakeupError,
    error_class,
)
from moldau.client.shared.configured_classes import instance_of
from moldau.client.shared.user_callbacks import tell_all
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.model.errors import Error

WAIT_SECONDS_MAX = 3600.0
_numbers = count(1)


class ConsumerEngine:
    def __init__(self, config: ConsumerConfig, invoke: Invoke) -> None:
        self.config = config
        self._invoke = invoke
        self._loop = asyncio.get_running_loop()
        group_id = config.group_id
        stem = "consumer" if group_id is None else f"consumer-{group_id}"
        self.client_id = config.client_id or f"{stem}-{next(_numbers)}"
        self.prefix = f"[Consumer clientId={self.client_id}, groupId={group_id}] "
        self.log = logging.getLogger("moldau.consumer")
        is_committed = config.isolation_level == "read_committed"
        settings = NetworkSettings.of(config, "consumer")
        self.network = Network(
            config.bootstrap_servers, client_id=self.client_id, settings=settings
        )
        self.cluster = Cluster(self.network, metadata_max_age_ms=config.metadata_max_age_ms)
        self.positions = Positions()
        self.lookup = OffsetLookup(self.cluster, is_read_committed=is_committed)
        self.upkeep = PositionUpkeep(
            self.cluster,
            self.positions,
            self.lookup,
            auto_offset_reset=config.auto_offset_reset,
            prefix=self.prefix,
        )
        self.fetcher = Fetcher(
            self.cluster,
            self.positions,
            FetchSettings.of(config),
            on_ready=self.changed,
            reset=self.upkeep.reset_by_policy,
            prefix=self.prefix,
        )
        self.buffer = RecordBuffer(self.fetcher, self.positions, RecordReader.of(config))
        self.interceptors = [instance_of(item) for item in config.interceptor_classes]
        self.taking = Taking(self.buffer, self.interceptors, self._refill, self.log, self.prefix)
        self.commits: Commits | None = None
        self.group: ConsumerGroup | None = None
        self.topics: TopicWatch | None = None
        if group_id is not None:
            self._make_group(group_id)
        self._upkeep_task: asyncio.Task[None] | None = None
        self._is_auto_commit = config.enable_auto_commit
        self._auto_commit_at = self._loop.time() + config.auto_commit_interval_ms / 1000
        self._waiter: asyncio.Future[None] | None = None
        self._poll_wakeup = PollWakeup()
        self._keep_up_at = 0.0
        self._is_woken = False
        self._is_closing = False
        self.is_closed = False

    def _make_group(self, group_id: str) -> None:
        config = self.config
        if config.group_protocol != "classic":
            self.log.warning(
                "%sgroup.protocol=%s is not supported: the classic protocol is used",
                *(self.prefix, config.group_protocol),
            )
        membership = Membership(
            GroupSettings(
                group_id,
                config.group_instance_id,
                config.session_timeout_ms,
                config.heartbeat_interval_ms,
                config.max_poll_interval_ms,
            )
        )
        self.commits = Commits(
            self.cluster, self.positions, membership, on_done=self.changed, prefix=self.prefix
        )
        self.upkeep.commits = self.commits
        self.group = ConsumerGroup(
            self.cluster,
            self.positions,
            membership,
            self.commits,
            assignors_of(config.partition_assignment_strategy),
            GroupOptions(
                auto_commit=config.enable_auto_commit,
                retry_backoff_ms=config.retry_backoff_ms,
                request_timeout_ms=config.request_timeout_ms,
                default_api_timeout_ms=config.default_api_timeout_ms,
                rack=config.client_rack,
            ),
            invoke=self._invoke,
            on_change=self.changed,
            prefix=self.prefix,
        )
        self.topics = TopicWatch(
            self.cluster,
            self.positions,
            self.group,
            allow_auto_create=config.allow_auto_create_topics,
            excludes_internal=config.exclude_internal_topics,
            prefix=self.prefix,
        )

    # Waking and waiting.

    def changed(self) -> None:
        """Something that a waiting poll should look at."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._poll_wakeup.wake()

    def wakeup(self) -> None:
        """From any thread: the poll under way, or else the next one, raises WakeupError."""
        self._is_woken = True
        self._loop.call_soon_threadsafe(self.changed)

    def check_wakeup(self) -> None:
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("wakeup() was called")

    @property
    def is_quiet(self) -> bool:
        """Whether a poll could do nothing more useful than hand out what is buffered."""
        group = self.group
        if self.positions.is_subscribed:
            assert group is not None, "subscribers have a group"
            membership = group.membership
            if membership.needs_rejoin or membership.state is not MemberState.STABLE:
                return False
            membership.polled(int(self._loop.time() * 1000))
        return not (
            self._is_woken
            or self.buffer.has_offer
            or self._loop.time() >= self._keep_up_at
            or self.fetcher.failures
            or self.fetcher.has_news
            or self._is_commit_due()
            or (self.commits is not None and self.commits.called_back)
        )

    def wait_here(self, timeout_s: float | None) -> None:
        """In the user's thread: until there may be records, or the loop has something to do."""
        if not self.positions.partitions or self._upkeep_task is not None or self._needs_upkeep():
            return
        wait_s = min(self._keep_up_at, self._next_chore_at()) - self._loop.time()
        with nullcontext() if self.group is None else self.group.polling():
            self._poll_wakeup.wait(
                wait_s if timeout_s is None else min(wait_s, timeout_s),
                lambda: self.buffer.has_records() or not self.is_quiet,
            )

    async def _sleep(self, deadline: float, *tasks: asyncio.Task[Any]) -> None:
        waiter = self._waiter = self._loop.create_future()
        timeout_s = max(0.0, deadline - self._loop.time())
        await asyncio.wait({waiter, *tasks}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        self._waiter = None

    def _waits_until(self, deadline: float) -> Callable[[asyncio.Task[Any]], Any]:
        async def wait(task: asyncio.Task[Any]) -> bool:
            while not task.done():
                if self._loop.time() >= deadline or self.buffer.has_records():
                    # One turn of the loop, so that a poll without time gets on too.
                    await asyncio.sleep(0)
                    return task.done()
                await self._sleep(deadline, task)
                self.check_wakeup()
            return True

        return wait

    # The loop of a poll.

    async def await_records(self, timeout_s: float | None) -> bool:
        """Whether there is something to take before the time is up."""
        if self.positions.mode is Mode.NONE:
            raise IllegalStateError(
                "Consumer is not subscribed to any topics or assigned any partitions"
            )
        wait_s = WAIT_SECONDS_MAX if timeout_s is None else min(timeout_s, WAIT_SECONDS_MAX)
        deadline = self._loop.time() + wait_s
        self.buffer.mend()
        with nullcontext() if self.group is None else self.group.polling():
            while True:
                self.check_wakeup()
                await self.call_back()
                await self._keep_up(deadline)
                self.fetcher.notice_leaders()
                self.check_wakeup()
                fault = self.fetcher.failures.pop()
                if fault is not None:
                    raise fault
                if self.buffer.has_records():
                    return True
                if self._loop.time() >= deadline:
                    return False
                await self._sleep(min(deadline, self._next_chore_at()))

    def _next_chore_at(self) -> float:
        """When a poll that waits has something to do besides waiting."""
        soon = self._loop.time() + MISSING_TOPIC_SECONDS
        return min(soon, self._auto_commit_at) if self._commits_by_itself else soon

    async def _keep_up(self, deadline: float) -> None:
        wait = self._waits_until(deadline)
        self._keep_up_at = self._loop.time() + MISSING_TOPIC_SECONDS
        if self.positions.is_subscribed:
            assert self.group is not None, "subscribers have a group"
            assert self.topics is not None, "subscribers have a group"
            if not await self.topics.keep_up(wait):
                return
            await self.group.ensure_active(wait)
        elif self.cluster.is_old:
            self.fetcher.refresh_soon()
        self._commit_if_due()
        await self._find_positions(wait)
        self.fetcher.pump()

    # Positions.

    def _needs_upkeep(self) -> bool:
        return any(
            state.position is None or state.is_validating or state.has_new_leader
            for state in list(self.positions.partitions.values())
        )

    async def _find_positions(self, wait: Callable[[asyncio.Task[Any]], Any]) -> None:
        if self._upkeep_task is None:
            if not self._needs_upkeep():
                return
            self.upkeep.meet_leaders()
            self._upkeep_task = self._loop.create_task(self._make_positions())
        task = self._upkeep_task
        if not await wait(task):
            return
        self._upkeep_task = None
        try:
            task.result()
        except KafkaError as fault:
            if not fault.retriable:
                raise
            self.log.warning("%sPositions are not known yet: %s", self.prefix, fault)
        if self._needs_upkeep():
            self._loop.call_later(self.config.retry_backoff_ms / 1000, self.changed)

    async def _make_positions(self) -> None:
        timeout_ms = self.config.default_api_timeout_ms
        await self.upkeep.start(self.positions.without_position(), timeout_ms)
        await self.upkeep.reset(timeout_ms)
        await self.upkeep.validate()
        self.fetcher.pump()

    # Commits.

    def need_commits(self) -> Commits:
        if self.commits is None:
            raise error_class(Error.INVALID_GROUP_ID)(
                "To use the group management or offset commit APIs, you must provide a valid"
                " group.id in the consumer configuration."
            )
        return self.commits

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        await self.call_back()
        await self.need_commits().commit(offsets, timeout_ms)
        self._tell_committed(offsets)

    def commit_async(self, offsets: Offsets, on_commit: OnCommit | None) -> None:
        self.need_commits().commit_async(offsets, on_commit)

    def _tell_committed(self, offsets: Offsets) -> None:
        self._tell("on_commit", dict(offsets))

    def _tell(self, method: str, *args: Any) -> None:
        tell_all(self.interceptors, method, *args, log=self.log, prefix=self.prefix)

    async def call_back(self) -> None:
        """Run the callbacks of commits that nobody waited for."""
        if self.commits is None:
            return
        called_back = self.commits.called_back
        while called_back:
            on_commit, offsets, fault = called_back.popleft()
            if fault is None:
                self._tell_committed(offsets)
            await self._invoke(on_commit, dict(offsets), fault)

    @property
    def _commits_by_itself(self) -> bool:
        return self._is_auto_commit and self.commits is not None

    def stop_auto_commit(self) -> None:
        """From now on only what the user commits is committed."""
        self._is_auto_commit = False
        if self.group is not None:
            self.group.stop_auto_commit()

    def _is_commit_due(self) -> bool:
        return self._commits_by_itself and self._loop.time() >= self._auto_commit_at

    def _commit_if_due(self) -> None:
        if not self._is_commit_due() or self.group is None:
            return
        self._auto_commit_at = self._loop.time() + self.config.auto_commit_interval_ms / 1000
        is_member = self.group.membership.state is MemberState.STABLE
        offsets = self.positions.committable()
        if offsets and (is_member or not self.positions.is_subscribed):
            assert self.commits is not None, "a group commits"
            self.commits.commit_async(offsets, None)

    # Taking.

    def _refill(self) -> None:
        if self.fetcher.is_full:
            self.fetcher.is_full = False
            self._loop.call_soon_threadsafe(self.fetcher.pump)

    # The end.

    async def close(self, timeout_s: float) -> None:
        """Commit, tell the listener, leave the group, close the connections."""
        if self._is_closing:
            return
        self._is_closing = True
        try:
            # Not closed yet: the listener may commit.
            if self.group is not None:
                await self._leave(timeout_s)
        finally:
            self.is_closed = True
            if self._upkeep_task is not None:
                await end_task(self._upkeep_task)
            if self.topics is not None:
                await self.topics.close()
            await self.fetcher.close()
            await self.network.close()
            self._tell("close")

    async def _leave(self, timeout_s: float) -> None:
        group, commits = self.group, self.commits
        assert group is not None, "a member"
        assert commits is not None, "a member commits"
        try:
            async with asyncio.timeout(timeout_s):
                if self.positions.is_subscribed:
                    await group.part("the consumer is being closed")
                elif self._commits_by_itself:
                    try:
                        await commits.commit(self.positions.committable(), int(timeout_s * 1000))
                    except KafkaError as fault:
                        self.log.warning("%sAutomatic commit failed: %s", self.prefix, fault)
                await commits.settle(int(timeout_s * 1000))
                await self.call_back()
        except TimeoutError:
            self.log.warning("%sclosed before all was done, after %s s", self.prefix, timeout_s)
        finally:
            await group.close()
