"""A consumer in its group: gives partitions up, joins, takes partitions over, leaves.

`ensure_active` is called by every poll and does what must happen on the user's time: listeners,
and waiting for a rebalance. The exchange with the coordinator is a task of its own, so a short
poll does not cut it short; the heartbeat is another, so it does not depend on polls at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from moldau.client.consumer.assignment.partition_assignors import (
    Assignment,
    Assignor,
    RebalanceProtocol,
)
from moldau.client.consumer.consumer_membership import Membership
from moldau.client.consumer.group_heartbeat import CoordinatorLink, Heartbeat, end_task
from moldau.client.consumer.join_group import Joining, told
from moldau.client.consumer.offset_commits import Commits
from moldau.client.consumer.subscription_state import Positions
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.shared.client_errors import KafkaError
from moldau.client.shared.user_callbacks import awaited
from moldau.model.names import TopicPartition

LEAVE_SECONDS_MAX = 5


class ConsumerRebalanceListener:
    """Told inside `poll` about partitions that come and go; all methods may be left out.

    >>> class Saver(ConsumerRebalanceListener):
    ...     def on_partitions_revoked(self, partitions):     # before others get them
    ...         consumer.commit()
    ...     def on_partitions_assigned(self, partitions):    # before the first record of them
    ...         consumer.seek_to_beginning(partitions)
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Any:
        """They are about to go to other members; offsets can still be committed."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Any:
        """They are new to this member."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Any:
        """They went to other members already; as revoked, unless overridden."""
        return self.on_partitions_revoked(partitions)


Invoke = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class GroupOptions:
    auto_commit: bool
    retry_backoff_ms: int
    request_timeout_ms: int
    default_api_timeout_ms: int
    rack: str


class ConsumerGroup:
    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        membership: Membership,
        commits: Commits,
        assignors: list[Assignor],
        options: GroupOptions,
        *,
        invoke: Invoke,
        on_change: Callable[[], None],
        prefix: str,
    ) -> None:
        """`invoke` calls user code where the user wants it; `on_change` wakes a waiting poll."""
        self.membership = membership
        self.listener: ConsumerRebalanceListener | None = None
        self._positions = positions
        self._commits = commits
        self._options = options
        self._is_auto_commit = options.auto_commit
        self._invoke = invoke
        self._on_change = on_change
        self._log = logging.getLogger("moldau.consumer.coordinator")
        self._prefix = prefix
        self._loop = asyncio.get_running_loop()
        self._link = CoordinatorLink(cluster, membership.settings.group_id, prefix)
        self._heartbeat = Heartbeat(
            self._link,
            membership,
            request_timeout_ms=options.request_timeout_ms,
            retry_backoff_ms=options.retry_backoff_ms,
            leave=self.leave,
            on_change=on_change,
        )
        self._joining = Joining(
            self._link,
            cluster,
            positions,
            membership,
            assignors,
            rack=options.rack,
            now=self._heartbeat.now,
            on_joined=self._heartbeat.nudge,
        )
        self._join: asyncio.Task[Assignment | None] | None = None
        self._is_prepared = False
        self._share: Assignment | None = None
        """What the group gave this member and it has not yet taken over."""

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Meanwhile no time counts towards max.poll.interval.ms."""
        self._heartbeat.is_polling = True
        try:
            yield
        finally:
            self._heartbeat.is_polling = False

    def notice_metadata(self) -> None:
        """As the leader, share out anew if topics have other partitions than last time."""
        counts = self._joining.counts
        if counts is not None and counts != self._joining.count_partitions():
            self.membership.request_rejoin("cached metadata has changed")

    # What a poll does.

    async def ensure_active(self, wait: Callable[[asyncio.Task[Any]], Awaitable[bool]]) -> bool:
        """Whether the member has its share; `wait` says whether a task ended in time."""
        if self._heartbeat.fatal is not None:
            raise self._heartbeat.fatal
        self.membership.polled(self._heartbeat.now())
        self._heartbeat.start()
        while True:
            if self._share is not None:
                # Also if an earlier poll was broken off in the middle of it.
                await self._complete(self._share)
            if not self.membership.needs_rejoin and self._join is None:
                return True
            join = self._join
            if join is None:
                await self._prepare()
                join = self._join = self._loop.create_task(self._joining.run())
            if not await wait(join):
                return False
            if self._join is not join:
                continue
            self._join = None
            self._share = join.result()
            if self._share is not None:
                self._is_prepared = False
                name, generation = self.membership.protocol_name, self.membership.generation_id
                self._joining.assignors[name].on_assignment(self._share, generation)

    async def _prepare(self) -> None:
        """Before joining: commit, and give up what must not be read meanwhile."""
        held = set(self._positions.partitions)
        if held and not self.membership.has_generation:
            self._log.info(
                "%sGiving away all assigned partitions as lost since generation/memberID has been"
                " reset, indicating that consumer is in old state or no longer part of the group",
                self._prefix,
            )
            await self._give_up(held, "on_partitions_lost")
            self._is_prepared = True
            return
        if held and not self._is_prepared:
            await self._give_up_before_joining(held)
        # Not before: a poll that is broken off here has to begin again.
        self._is_prepared = True

    async def _give_up_before_joining(self, held: set[TopicPartition]) -> None:
        await self._auto_commit(held)
        if self._joining.protocol is RebalanceProtocol.COOPERATIVE:
            held = {tp for tp in held if tp.topic not in self._positions.topics}
        if held:
            self._log.info("%sRevoke previously assigned partitions %s", self._prefix, told(held))
            await self._give_up(held, "on_partitions_revoked")

    def stop_auto_commit(self) -> None:
        self._is_auto_commit = False

    async def _auto_commit(self, partitions: Collection[TopicPartition]) -> None:
        if not self._is_auto_commit:
            return
        offsets = self._positions.committable()
        try:
            await self._commits.commit(
                {tp: offsets[tp] for tp in partitions if tp in offsets},
                self._options.request_timeout_ms,
            )
        except KafkaError as fault:
            self._log.warning("%sAutomatic commit failed: %s", self._prefix, fault)

    async def _give_up(self, partitions: Collection[TopicPartition], method: str) -> None:
        try:
            await self._call_listener(method, partitions)
        finally:
            if self._positions.is_subscribed:
                kept = [tp for tp in self._positions.partitions if tp not in partitions]
                self._positions.assign_from_group(kept)

    async def _call_listener(self, method: str, partitions: Collection[TopicPartition]) -> None:
        function = getattr(self.listener, method, None)
        if function is not None:
            await self._invoke(function, sorted(partitions))

    async def _complete(self, share: Assignment) -> None:
        """Take over what the group gave, whatever the listener says to what it took."""
        membership = self.membership
        mine = {tp for tp in share.partitions if tp.topic in self._positions.topics}
        if len(mine) < len(share.partitions):
            # The subscription changed while the group was at it.
            membership.request_rejoin("the subscription has changed")
        held = set(self._positions.partitions)
        revoked = held - mine
        fault: Exception | None = None
        if revoked:
            self._log.info(
                "%sRevoke previously assigned partitions %s", self._prefix, told(revoked)
            )
            await self._auto_commit(revoked)
            membership.request_rejoin(
                "need to revoke partitions as indicated by the current assignment and re-join"
            )
            fault = await awaited(self._give_up(revoked, "on_partitions_revoked"))
        self._share = None
        if self._positions.is_subscribed:
            self._positions.assign_from_group(mine)
        added = mine - held
        self._log.info("%sAdding newly assigned partitions: %s", self._prefix, told(added))
        second = await awaited(self._call_listener("on_partitions_assigned", added))
        if fault or second:
            raise fault or second  # type: ignore[misc]

    # Leaving.

    async def leave(self, reason: str) -> None:
        """Tell the coordinator, as far as that is possible, and be no member any more."""
        request = self.membership.leave_request(reason)
        join, self._join = self._join, None
        if join is not None:
            await end_task(join)
        self.membership.reset(reason)
        self._is_prepared = False
        self._share = None
        self._on_change()
        if request is None or self._link.discovered is None:
            return
        self._log.info("%sMember sending LeaveGroup request: %s", self._prefix, reason)
        # A join that waits for other members holds up everything behind it.
        call = self._link.call if join is None else self._link.call_aside
        try:
            await call(request, LEAVE_SECONDS_MAX * 1000)
        except KafkaError as fault:
            self._log.info("%sLeaveGroup failed: %s", self._prefix, fault)

    async def part(self, reason: str) -> None:
        """Before unsubscribing or closing: give up all, and leave whatever the listener says."""
        try:
            await self._release()
        finally:
            await self.leave(reason)

    async def _release(self) -> None:
        """Commit and tell the listener, as for a rebalance."""
        held = set(self._positions.partitions)
        if not held or not self._positions.is_subscribed:
            return
        has_generation = self.membership.has_generation
        if has_generation:
            await self._auto_commit(held)
        method = "on_partitions_revoked" if has_generation else "on_partitions_lost"
        await self._give_up(held, method)

    async def close(self) -> None:
        await self._heartbeat.close()
