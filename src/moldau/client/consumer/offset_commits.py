"""Committing offsets to the group's coordinator, and reading what is committed.

A commit that waits is tried again until its time is up; one that does not wait has one try, and
its callback runs inside the next call of the consumer, as Kafka's do. Commits are kept in order:
one that waits lets those before it finish first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from moldau.client.consumer.consumer_membership import (
    NO_GENERATION,
    Identity,
    Membership,
    MemberState,
    Verdict,
)
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.consumer.partition_offsets import by_topic
from moldau.client.consumer.subscription_state import Positions
from moldau.client.network.cluster_metadata import Cluster, CoordinatorKind
from moldau.client.shared.client_errors import (
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    RetriableCommitFailedError,
    error_class,
    error_for,
)
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NAMES_UNTIL = 9
"""The newest versions of both requests that name topics: they need no metadata."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OnCommit = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], Any]

REASSIGNED = (
    "Offset commit cannot be completed since the consumer is not part of an active group for"
    " auto partition assignment; it is likely that the consumer was kicked out of the group"
    " because the time between calls of poll() was longer than max.poll.interval.ms, or its"
    " heartbeats did not arrive. Raise max.poll.interval.ms or lower max.poll.records"
)
REBALANCING = (
    "Offset commit cannot be completed since the consumer is undergoing a rebalance for auto"
    " partition assignment; call poll() to complete it and commit again"
)


class Commits:
    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        membership: Membership,
        *,
        on_done: Callable[[], None],
        prefix: str,
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._membership = membership
        self._group_id = membership.settings.group_id
        self._on_done = on_done
        self._prefix = prefix
        self._log = logging.getLogger("moldau.consumer.coordinator")
        self._under_way: set[asyncio.Task[None]] = set()
        self.called_back: deque[tuple[OnCommit, Offsets, KafkaError | None]] = deque()

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Until it is done, or CommitFailedError, or KafkaTimeoutError."""
        if not offsets:
            return
        failures = 0
        last: KafkaError | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._under_way:
                    await asyncio.wait(self._under_way)
                while True:
                    try:
                        await self._try(offsets)
                        return
                    except KafkaError as fault:
                        if not fault.retriable:
                            raise
                        last = fault
                    failures += 1
                    await self._cluster.network.pause(failures)
        except TimeoutError:
            reason = "" if last is None else f": {last}"
            raise KafkaTimeoutError(
                f"Timeout of {timeout_ms}ms expired before successfully committing offsets{reason}"
            ) from None

    def commit_async(self, offsets: Offsets, on_commit: OnCommit | None) -> None:
        task = asyncio.get_running_loop().create_task(self._once(offsets, on_commit))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def settle(self, timeout_ms: int) -> None:
        """Wait for the commits that nobody waits for."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=timeout_ms / 1000)

    async def _once(self, offsets: Offsets, on_commit: OnCommit | None) -> None:
        fault: KafkaError | None = None
        try:
            await self._try(offsets)
        except KafkaError as error:
            fault = error
            if error.retriable:
                fault = RetriableCommitFailedError(f"Offset commit failed: {error}")
                fault.__cause__ = error
            if on_commit is None:
                self._log.warning(
                    "%sAsynchronous commit of offsets %s failed: %s",
                    *(self._prefix, {str(tp): row.offset for tp, row in offsets.items()}, error),
                )
        if on_commit is not None:
            self.called_back.append((on_commit, offsets, fault))
            self._on_done()

    def _identity(self) -> Identity:
        """Who commits: nobody in particular with partitions assigned by hand."""
        membership = self._membership
        if not self._positions.is_subscribed:
            return Identity(NO_GENERATION, "")
        if membership.state is MemberState.REBALANCING:
            # Behind the join it would wait for all members, to be refused in the new generation.
            raise error_class(Error.REBALANCE_IN_PROGRESS)(REBALANCING)
        if not membership.has_generation:
            raise CommitFailedError(REASSIGNED)
        return membership.identity

    async def _try(self, offsets: Offsets) -> None:
        identity = self._identity()
        node_id = await self._cluster.coordinator(self._group_id, CoordinatorKind.GROUP)
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[_committed_row(index, offsets) for index in _rows(topic, some)],
            )
            for topic, some in by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=self._membership.settings.group_instance_id,
            topics=topics,
        )
        try:
            response = await self._cluster.network.call(
                node_id, request, version_max=NAMES_UNTIL, version_min=2
            )
        except KafkaError as fault:
            self._lost_coordinator(str(fault))
            raise
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    tp = TopicPartition(topic.name, row.partition_index)
                    self._refused(tp, row.error_code, identity)

    def _refused(self, tp: TopicPartition, code: int, identity: Identity) -> None:
        sentence = error_for(code).message
        self._log.warning("%sOffset commit failed on partition %s: %s", self._prefix, tp, sentence)
        verdict = self._membership.commit_answered(code, identity)
        if verdict is Verdict.REJOIN:
            raise CommitFailedError(REASSIGNED)
        if verdict is Verdict.REDISCOVER:
            self._lost_coordinator(sentence)
        if code == Error.REBALANCE_IN_PROGRESS:
            raise error_for(code, REBALANCING)
        raise error_for(code, f"Offset commit failed on partition {tp}: {sentence}")

    def _lost_coordinator(self, reason: str) -> None:
        self._cluster.forget_coordinator(self._group_id, CoordinatorKind.GROUP)
        self._log.info(
            "%sGroup coordinator is unavailable or invalid due to cause: %s. Rediscovery will be"
            " attempted.",
            *(self._prefix, reason),
        )

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """None where the group has committed nothing."""
        failures = 0
        last: KafkaError | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        return await self._fetch(partitions)
                    except KafkaError as fault:
                        if not fault.retriable:
                            raise
                        last = fault
                    failures += 1
                    await self._cluster.network.pause(failures)
        except TimeoutError:
            reason = "" if last is None else f": {last}"
            raise KafkaTimeoutError(
                f"Timeout of {timeout_ms}ms expired before the last committed offset could be"
                f" determined{reason}"
            ) from None

    async def _fetch(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        node_id = await self._cluster.coordinator(self._group_id, CoordinatorKind.GROUP)
        topics = by_topic(partitions)
        request = OffsetFetchRequest(
            group_id=self._group_id,
            topics=[
                OffsetFetchRequestTopic(name=topic, partition_indexes=some)
                for topic, some in topics.items()
            ],
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self._group_id,
                    topics=[
                        OffsetFetchRequestTopics(name=topic, partition_indexes=some)
                        for topic, some in topics.items()
                    ],
                )
            ],
            require_stable=True,
        )
        try:
            response = await self._cluster.network.call(
                node_id, request, version_max=NAMES_UNTIL, version_min=1
            )
        except KafkaError as fault:
            self._lost_coordinator(str(fault))
            raise
        answer = response.groups[0] if response.groups else response
        self._check(answer.error_code)
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
        for topic in answer.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                self._check(row.error_code)
                if row.committed_offset >= 0:
                    found[tp] = OffsetAndMetadata(
                        row.committed_offset, row.metadata or "", row.committed_leader_epoch
                    )
        return found

    def _check(self, code: int) -> None:
        if not code:
            return
        if code in (Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE):
            self._lost_coordinator(error_for(code).message)
        raise error_for(code)


def _rows(topic: str, indexes: list[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def _committed_row(tp: TopicPartition, offsets: Offsets) -> OffsetCommitRequestPartition:
    row = offsets[tp]
    return OffsetCommitRequestPartition(
        partition_index=tp.partition,
        committed_offset=row.offset,
        committed_leader_epoch=row.leader_epoch,
        committed_metadata=row.metadata,
    )
