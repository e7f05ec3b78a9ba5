"""Consumer groups of kafka-python."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from tests.compat.clients.group_port import (
    COOPERATIVE,
    HEARTBEAT_MS,
    METADATA_AGE_MS,
    RANGE,
    SESSION_TIMEOUT_MS,
    Group,
    GroupMember,
    Member,
    Place,
    Read,
    Subscription,
)
from tests.compat.clients.kafka_python import KafkaPython, refusals
from tests.compat.clients.polling import Changed, PollingMember
from tests.compat.clients.port import Refused

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition, errors
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.structs import OffsetAndMetadata

ASSIGNORS = {RANGE: RangePartitionAssignor, COOPERATIVE: CooperativeStickyAssignor}
AGAIN = (
    errors.CommitFailedError,
    errors.RebalanceInProgressError,
    errors.IllegalGenerationError,
    errors.UnknownMemberIdError,
)
"""A commit that a rebalance overtook: the next owner reads those records again."""


class Listener(ConsumerRebalanceListener):
    def __init__(self, changed: Changed) -> None:
        self.changed = changed

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.changed("assigned", places(assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.changed("revoked", places(revoked))


class KafkaPythonConsumer:
    def __init__(self, bootstrap: str, wanted: Subscription, changed: Changed) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=wanted.group,
            group_instance_id=wanted.instance,
            client_id=f"member-of-{wanted.group}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[ASSIGNORS[wanted.assignor]],
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_AGE_MS,
        )
        listener = Listener(changed)
        if wanted.pattern is None:
            self.consumer.subscribe(list(wanted.topics), listener=listener)
        else:
            self.consumer.subscribe(pattern=wanted.pattern, listener=listener)

    def poll(self) -> list[Read]:
        with refusals():
            # Long enough for a whole join: a poll that ends between the answers to JoinGroup and
            # SyncGroup can leave this client's leader waiting for ever.
            polled = self.consumer.poll(timeout_ms=1000)
        return [
            Read(message.topic, message.partition, message.offset, message.value)
            for messages in polled.values()
            for message in messages
        ]

    def commit(self, *, wait: bool) -> None:
        if not wait:
            self.consumer.commit_async()
            return
        try:
            self.consumer.commit()
        except AGAIN:
            pass

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.consumer.seek(TopicPartition(topic, partition), offset)

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class KafkaPythonGroups:
    has_static_members = True
    is_cooperative = True
    notices_new_topics = True
    deletes_groups = True

    def __init__(self, client: KafkaPython) -> None:
        self.client = client
        self.admin = client.admin

    def join(self, subscription: Subscription) -> Member:
        def make(changed: Changed) -> KafkaPythonConsumer:
            return KafkaPythonConsumer(self.client.bootstrap, subscription, changed)

        return PollingMember(make, commits=subscription.commits)

    def groups(self) -> set[str]:
        return {row["group_id"] for row in self.admin.list_groups()}

    def describe(self, group: str) -> Group:
        with refusals():
            described = self.admin.describe_groups([group])[group]
        members = (
            GroupMember(row["client_id"], assigned(row["member_assignment"]))
            for row in described["members"]
        )
        return Group(described["group_state"].lower(), tuple(members))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        with refusals():
            listed = self.admin.list_group_offsets({group: None})[group]
        return {place.partition: row.offset for place, row in listed.items() if place[0] == topic}

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        wanted = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        for error in self.admin.alter_group_offsets(group, wanted).values():
            if error is not errors.NoError:
                raise Refused(error.errno, error.__name__)

    def delete(self, group: str) -> None:
        # This call returns the name of the refusal's class.
        outcome = self.admin.delete_groups([group])[group]
        if outcome != "OK":
            raise Refused(getattr(errors, outcome).errno, outcome)


def places(rows: Iterable[TopicPartition]) -> frozenset[Place]:
    return frozenset((row.topic, row.partition) for row in rows)


def assigned(assignment: dict[str, Any]) -> frozenset[Place]:
    return frozenset(
        (row["topic"], index)
        for row in assignment["assigned_partitions"]
        for index in row["partitions"]
    )
