"""Topics: create, delete, list, describe, grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.client.admin.admin_requests import AdminRequests, operations, value_or_error
from moldau.client.admin.admin_results import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    Outcomes,
    TopicDescription,
    TopicListing,
    TopicPartitionInfo,
)
from moldau.client.shared.client_errors import UnsupportedVersionError, error_for
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID
from moldau.wire.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
    TopicRequest,
)
from moldau.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)


class TopicsAdmin(AdminRequests):
    async def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, CreatedTopic]:
        """Create topics, or only check that it would work.

            admin.create_topics([NewTopic("orders", partitions=3)]).check()

        A name alone makes a topic with the broker's defaults."""
        new = [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in new],
            timeout_ms=self._limit_ms(timeout_ms),
            validate_only=validate_only,
        )
        response = await self._from_controller(
            request, timeout_ms, lambda r: (row.error_code for row in r.topics)
        )
        return {row.name: value_or_error(row, _created(row)) for row in response.topics}

    async def delete_topics(
        self, topics: Iterable[str | bytes], *, timeout_ms: int | None = None
    ) -> Outcomes[str | bytes, None]:
        """Delete topics by name, or by their 16-byte ids.

        admin.delete_topics(["orders"]).check()
        """
        wanted = list(topics)
        states = [
            DeleteTopicState(name=topic)
            if isinstance(topic, str)
            else DeleteTopicState(topic_id=topic)
            for topic in wanted
        ]
        names = [topic for topic in wanted if isinstance(topic, str)]
        request = DeleteTopicsRequest(
            topics=states, topic_names=names, timeout_ms=self._limit_ms(timeout_ms)
        )
        response = await self._from_controller(
            request, timeout_ms, lambda r: (row.error_code for row in r.responses)
        )
        ids = {topic for topic in wanted if isinstance(topic, bytes)}
        results: Outcomes[str | bytes, None] = {}
        for row in response.responses:
            key = row.topic_id if row.topic_id in ids else row.name or ""
            results[key] = value_or_error(row, None)
        self.cluster.drop_interest(names)
        return results

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicListing]:
        """All topics by name; internal ones only if asked for.

        "orders" in admin.list_topics()
        """
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = await self._from_any(request, timeout_ms)
        return {
            row.name: TopicListing(row.name, row.topic_id, row.is_internal)
            for row in sorted(response.topics, key=lambda row: row.name)
            if include_internal or not row.is_internal
        }

    async def describe_topics(
        self,
        topics: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, TopicDescription]:
        """Partitions, leaders and replicas.

        admin.describe_topics(["orders"]).check()["orders"].partitions[0].leader
        """
        names = list(dict.fromkeys(topics))
        if not include_authorized_operations:
            try:
                return await self._describe_in_pages(names, timeout_ms)
            except UnsupportedVersionError:
                pass
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include_authorized_operations,
        )
        response = await self._from_any(request, timeout_ms)
        found: Outcomes[str, TopicDescription] = {}
        for row in response.topics:
            # While a leader is elected the rest of the row is good (a partition's leader is -1).
            is_good = row.error_code in (0, Error.LEADER_NOT_AVAILABLE)
            found[row.name] = _described(row) if is_good else error_for(row.error_code)
        return _in_order(names, found)

    async def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, None]:
        """Give topics more partitions; the numbers are totals.

        admin.create_partitions({"orders": 6}).check()
        """
        rows = []
        for name, wanted in totals.items():
            grown = NewPartitions(wanted) if isinstance(wanted, int) else wanted
            assignments = None
            if grown.assignments is not None:
                assignments = [
                    CreatePartitionsAssignment(broker_ids=list(ids)) for ids in grown.assignments
                ]
            rows.append(
                CreatePartitionsTopic(name=name, count=grown.total, assignments=assignments)
            )
        request = CreatePartitionsRequest(
            topics=rows, timeout_ms=self._limit_ms(timeout_ms), validate_only=validate_only
        )
        response = await self._from_controller(
            request, timeout_ms, lambda r: (row.error_code for row in r.results)
        )
        return {row.name: value_or_error(row, None) for row in response.results}

    async def _describe_in_pages(
        self, names: list[str], timeout_ms: int | None
    ) -> Outcomes[str, TopicDescription]:
        """The newer request tells eligible leaders too (KIP-966), some thousand rows at a time."""
        found: Outcomes[str, TopicDescription] = {}
        cursor = None
        while names:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in names], cursor=cursor
            )
            response = await self._from_any(request, timeout_ms)
            for row in response.topics:
                known = found.get(row.name)
                if isinstance(known, TopicDescription):
                    known.partitions.extend(_described(row).partitions)
                else:
                    found[row.name] = value_or_error(row, _described(row))
            cursor = response.next_cursor
            if cursor is None:
                break
        return _in_order(names, found)


def _in_order(
    names: list[str], found: Outcomes[str, TopicDescription]
) -> Outcomes[str, TopicDescription]:
    unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
    return {name: found.get(name, error_for(unknown)) for name in names}


def _creatable(topic: NewTopic) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()]
    if topic.assignments is not None:
        return CreatableTopic(
            name=topic.name,
            num_partitions=-1,
            replication_factor=-1,
            configs=configs,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
                for index, ids in topic.assignments.items()
            ],
        )
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=configs,
    )


def _created(row: CreatableTopicResult) -> CreatedTopic:
    configs = {config.name: config.value for config in row.configs or ()}
    return CreatedTopic(row.name, row.topic_id, row.num_partitions, row.replication_factor, configs)


def _described(
    row: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic,
) -> TopicDescription:
    partitions = [
        TopicPartitionInfo(
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            part.replica_nodes,
            part.isr_nodes,
            part.offline_replicas,
            getattr(part, "eligible_leader_replicas", None),
            getattr(part, "last_known_elr", None),
        )
        for part in row.partitions
    ]
    partitions.sort()
    return TopicDescription(
        row.name or "",
        row.topic_id or NO_TOPIC_ID,
        row.is_internal,
        partitions,
        operations(row.topic_authorized_operations),
    )
