"""Consumer groups of confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from tests.compat.clients.confluent import ConfluentKafka, settle
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
from tests.compat.clients.port import Refused

AGAIN = {
    KafkaError._NO_OFFSET,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
}
"""A commit that a rebalance overtook: the next owner reads those records again."""


class ConfluentConsumer:
    def __init__(self, settings: dict[str, Any], wanted: Subscription, changed: Changed) -> None:
        self.consumer = confluent_kafka.Consumer(settings_of(settings, wanted))
        topics = list(wanted.topics) if wanted.pattern is None else [wanted.pattern]
        self.consumer.subscribe(
            topics,
            on_assign=lambda _, rows: changed("assigned", places(rows)),
            on_revoke=lambda _, rows: changed("revoked", places(rows)),
            on_lost=lambda _, rows: changed("revoked", places(rows)),
        )

    def poll(self) -> list[Read]:
        rows = []
        for message in self.consumer.consume(num_messages=500, timeout=0.1):
            if (error := message.error()) is not None:
                raise Refused(error.code(), error.str())
            rows.append(
                Read(message.topic(), message.partition(), message.offset(), message.value())
            )
        return rows

    def commit(self, *, wait: bool) -> None:
        try:
            self.consumer.commit(asynchronous=not wait)
        except KafkaException as refused:
            if refused.args[0].code() not in AGAIN:
                raise

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.consumer.seek(TopicPartition(topic, partition, offset))

    def close(self) -> None:
        self.consumer.close()


class ConfluentGroups:
    has_static_members = True
    is_cooperative = True
    notices_new_topics = True
    deletes_groups = True

    def __init__(self, client: ConfluentKafka) -> None:
        self.client = client
        self.admin = client.admin

    def join(self, subscription: Subscription) -> Member:
        def make(changed: Changed) -> ConfluentConsumer:
            return ConfluentConsumer(self.client.common, subscription, changed)

        return PollingMember(make, commits=subscription.commits)

    def groups(self) -> set[str]:
        listed = self.admin.list_consumer_groups().result(30)
        return {row.group_id for row in listed.valid}

    def describe(self, group: str) -> Group:
        described = settle(self.admin.describe_consumer_groups([group]))
        members = (
            GroupMember(row.client_id, places(row.assignment.topic_partitions))
            for row in described.members
        )
        return Group(described.state.name.lower(), tuple(members))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        listed = settle(self.admin.list_consumer_group_offsets(asked))
        return {
            row.partition: row.offset
            for row in listed.topic_partitions
            if row.topic == topic and row.offset >= 0
        }

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        settle(self.admin.alter_consumer_group_offsets([wanted]))

    def delete(self, group: str) -> None:
        settle(self.admin.delete_consumer_groups([group]))


def settings_of(common: dict[str, Any], wanted: Subscription) -> dict[str, Any]:
    settings = {
        **common,
        "group.id": wanted.group,
        "client.id": f"member-of-{wanted.group}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": wanted.assignor,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
    }
    return settings | ({"group.instance.id": wanted.instance} if wanted.instance else {})


def places(rows: Iterable[TopicPartition]) -> frozenset[Place]:
    return frozenset((row.topic, row.partition) for row in rows)
