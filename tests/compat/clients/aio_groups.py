"""Consumer groups of aiokafka: each member runs an event loop in its thread, poll by poll."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import CommitFailedError, IllegalGenerationError, RebalanceInProgressError

from tests.compat.clients.aio import AioKafka, check, run
from tests.compat.clients.group_port import (
    HEARTBEAT_MS,
    METADATA_AGE_MS,
    SESSION_TIMEOUT_MS,
    Group,
    GroupMember,
    Member,
    Place,
    Read,
    Subscription,
)
from tests.compat.clients.polling import Changed, PollingMember

AGAIN = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError)
"""A commit that a rebalance overtook: the next owner reads those records again."""


class Listener(ConsumerRebalanceListener):
    def __init__(self, changed: Changed) -> None:
        self.changed = changed

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.changed("assigned", places(assigned))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.changed("revoked", places(revoked))


class AioConsumer:
    def __init__(self, bootstrap: str, wanted: Subscription, changed: Changed) -> None:
        self.loop = asyncio.new_event_loop()
        self.pending: asyncio.Task[None] | None = None
        self.consumer = self.loop.run_until_complete(self.started(bootstrap, wanted, changed))

    async def started(
        self, bootstrap: str, wanted: Subscription, changed: Changed
    ) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=wanted.group,
            client_id=f"member-of-{wanted.group}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_AGE_MS,
        )
        listener = Listener(changed)
        if wanted.pattern is None:
            consumer.subscribe(list(wanted.topics), listener=listener)
        else:
            consumer.subscribe(pattern=wanted.pattern, listener=listener)
        await consumer.start()
        return consumer

    def poll(self) -> list[Read]:
        polled = self.loop.run_until_complete(self.consumer.getmany(timeout_ms=100))
        return [
            Read(message.topic, message.partition, message.offset, message.value)
            for messages in polled.values()
            for message in messages
        ]

    def commit(self, *, wait: bool) -> None:
        if wait:
            self.loop.run_until_complete(self.committed())
        else:
            self.pending = self.loop.create_task(self.committed())

    async def committed(self) -> None:
        try:
            await self.consumer.commit()
        except AGAIN:
            pass

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.consumer.seek(TopicPartition(topic, partition), offset)

    def close(self) -> None:
        if self.pending is not None:
            self.loop.run_until_complete(self.pending)
        self.loop.run_until_complete(self.consumer.stop())
        self.loop.close()


class AioGroups:
    has_static_members = False
    is_cooperative = False
    notices_new_topics = True
    deletes_groups = False

    def __init__(self, client: AioKafka) -> None:
        self.client = client

    def join(self, subscription: Subscription) -> Member:
        def make(changed: Changed) -> AioConsumer:
            return AioConsumer(self.client.bootstrap, subscription, changed)

        return PollingMember(make, commits=subscription.commits)

    def groups(self) -> set[str]:
        async def listed() -> set[str]:
            async with self.client.admin() as admin:
                return {row[0] for row in await admin.list_consumer_groups()}

        return run(listed())

    def describe(self, group: str) -> Group:
        async def described() -> Group:
            async with self.client.admin() as admin:
                (response,) = await admin.describe_consumer_groups([group])
                ((code, _group, state, _type, _protocol, members, *_),) = response.groups
                check(code)
                return Group(state.lower(), tuple(map(member_from, members)))

        return run(described())

    def committed(self, group: str, topic: str) -> dict[int, int]:
        async def fetched() -> dict[int, int]:
            async with self.client.admin() as admin:
                listed = await admin.list_consumer_group_offsets(group)
                return {at.partition: row.offset for at, row in listed.items() if at[0] == topic}

        return run(fetched())

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Its admin client cannot; a consumer that joined nobody can."""

        async def commit() -> None:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.client.bootstrap, group_id=group, enable_auto_commit=False
            )
            consumer.assign([TopicPartition(topic, partition)])
            async with consumer:
                await consumer.commit({TopicPartition(topic, partition): offset})

        run(commit())

    def delete(self, group: str) -> None:
        raise NotImplementedError("aiokafka has no call for it")


def places(rows: Iterable[TopicPartition]) -> frozenset[Place]:
    return frozenset((row.topic, row.partition) for row in rows)


def member_from(row: Any) -> GroupMember:
    _member_id, client_id, *_rest = row
    assignment = ConsumerProtocolMemberAssignment.decode(row[-1])
    return GroupMember(client_id, places(assignment.partitions()))
