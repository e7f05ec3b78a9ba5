"""Committed offsets of groups: list, alter, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.client.admin.admin_requests import AdminRequests, by_topic, check_top
from moldau.client.admin.admin_results import Outcomes
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.network.cluster_metadata import CoordinatorKind
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.model.names import TopicPartition
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

GROUP = CoordinatorKind.GROUP
NAMED_TOPICS_MAX = 9
"""From version 10 on commits name topics by id, which a deleted topic no longer has."""

GroupOffsets = dict[TopicPartition, OffsetAndMetadata | None]


class GroupOffsetsAdmin(AdminRequests):
    async def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupOffsets]:
        """What groups have committed, everything or for the partitions named per group. A
        partition without a commit is None.

            offsets = admin.list_group_offsets(["billing"]).check()["billing"]

        `require_stable` waits for transactions that may still change an offset."""
        asked: dict[str, Any] = dict(
            groups if isinstance(groups, Mapping) else dict.fromkeys(groups)
        )
        wanted = {
            group: None if parts is None else [TopicPartition(*tp) for tp in parts]
            for group, parts in asked.items()
        }

        async def send(node_id: int, part: list[str]) -> Mapping[str, Any]:
            version = min(await self.network.version_of(node_id, 9), NAMED_TOPICS_MAX)
            found: dict[str, Any] = {}
            # Before version 8 a request asks for one group.
            for some in [part] if version >= 8 else [[group] for group in part]:
                request = _fetch_request({group: wanted[group] for group in some}, require_stable)
                response = await self.network.call(node_id, request, version_max=version)
                if version >= 8:
                    for row in response.groups:
                        found[row.group_id] = _committed(row)
                else:
                    found[some[0]] = _committed(response)
            return found

        return await self._from_coordinators(wanted, GROUP, send, timeout_ms)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Set the committed offsets of a group that has no members.

        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0}).check()
        """
        commits = {
            TopicPartition(*tp): OffsetAndMetadata(new) if isinstance(new, int) else new
            for tp, new in offsets.items()
        }
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        _commit_row(index, commits[TopicPartition(topic, index)])
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(commits).items()
            ],
        )

        async def send(node_id: int, part: list[str]) -> Mapping[str, Any]:
            response = await self.network.call(node_id, request, version_max=NAMED_TOPICS_MAX)
            return {group_id: _raise_moved(_rows(response))}

        return await self._of_partitions(group_id, commits, send, timeout_ms)

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Forget commits of partitions whose topics no member is subscribed to.

        admin.delete_group_offsets("billing", [TopicPartition("orders", 0)]).check()
        """
        places = [TopicPartition(*tp) for tp in partitions]
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
                )
                for topic, indexes in by_topic(places).items()
            ],
        )

        async def send(node_id: int, part: list[str]) -> Mapping[str, Any]:
            return {group_id: _rows(check_top(await self.network.call(node_id, request)))}

        return await self._of_partitions(group_id, places, send, timeout_ms)

    async def _of_partitions(
        self, group_id: str, places: Iterable[TopicPartition], send: Any, timeout_ms: int | None
    ) -> Outcomes[TopicPartition, None]:
        answers = await self._from_coordinators([group_id], GROUP, send, timeout_ms)
        found: Outcomes[TopicPartition, None] | KafkaError = answers[group_id]
        return dict.fromkeys(places, found) if isinstance(found, KafkaError) else found


def _commit_row(partition: int, commit: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_metadata=commit.metadata,
    )


def _rows(response: Any) -> Outcomes[TopicPartition, None]:
    return {
        TopicPartition(topic.name, row.partition_index): error_for(row.error_code)
        if row.error_code
        else None
        for topic in response.topics
        for row in topic.partitions
    }


def _raise_moved(rows: Outcomes[TopicPartition, None]) -> Outcomes[TopicPartition, None]:
    """A commit has no error as a whole: a coordinator that moved says so of every partition."""
    for error in rows.values():
        if isinstance(error, KafkaError) and error.retriable and "COORDINATOR" in error.code.name:
            raise error
    return rows


def _fetch_request(
    wanted: Mapping[str, list[TopicPartition] | None], require_stable: bool
) -> OffsetFetchRequest:
    rows = []
    for group, partitions in wanted.items():
        topics = None
        if partitions is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(partitions).items()
            ]
        rows.append(OffsetFetchRequestGroup(group_id=group, topics=topics))
    first = rows[0]
    old_topics = None
    if first.topics is not None:
        old_topics = [
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in first.topics
        ]
    return OffsetFetchRequest(
        groups=rows, group_id=first.group_id, topics=old_topics, require_stable=require_stable
    )


def _committed(row: Any) -> GroupOffsets | KafkaError:
    if row.error_code:
        return error_for(row.error_code)
    offsets: GroupOffsets = {}
    for topic in row.topics:
        for part in topic.partitions:
            if part.error_code:
                return error_for(part.error_code)
            tp = TopicPartition(topic.name, part.partition_index)
            offsets[tp] = None
            if part.committed_offset >= 0:
                offsets[tp] = OffsetAndMetadata(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return offsets
