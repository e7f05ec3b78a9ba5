"""DescribeTopicPartitions: topics in order of their names, a page at a time (KIP-966)."""

from __future__ import annotations

from moldau.handlers.authorized_operations import TOPIC_OPERATIONS
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.handlers.topic_data.metadata import reachable, unknown_topic_error
from moldau.model.cluster import INTERNAL_TOPICS, ClusterImage, PartitionImage
from moldau.model.errors import Error
from moldau.model.names import BrokerId
from moldau.wire.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ctx: RequestContext, on: Services
) -> DescribeTopicPartitionsResponse:
    image = on.image()
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    first_name = "" if cursor is None else cursor.topic_name
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        return _refuse(request, Error.INVALID_REQUEST)
    names = sorted(name for name in asked or image.topics if name >= first_name)
    limit = min(on.config.max_request_partition_size_limit, request.response_partition_limit)
    page = _Page(image, ctx.listener, max(1, limit))
    for name in names:
        start = cursor.partition_index if cursor is not None and name == first_name else 0
        if not page.add(name, start):
            break
    return DescribeTopicPartitionsResponse(topics=page.topics, next_cursor=page.next_cursor)


def _refuse(
    request: DescribeTopicPartitionsRequest, error: Error
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name)
            for topic in request.topics
        ]
    )


class _Page:
    """Collects topics until so many partitions are told."""

    __slots__ = ("_image", "_reachable", "_room", "next_cursor", "topics")

    def __init__(self, image: ClusterImage, listener: str, room: int) -> None:
        self._image = image
        self._reachable = {node.id for node, _ in reachable(image, listener)}
        self._room = room
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None

    def add(self, name: str, start: int) -> bool:
        """False once the page is full; `next_cursor` then says where the next one begins."""
        if not self._room:
            self.next_cursor = Cursor(topic_name=name, partition_index=0)
            return False
        row = DescribeTopicPartitionsResponseTopic(
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=TOPIC_OPERATIONS,
        )
        self.topics.append(row)
        topic = self._image.topics.get(name)
        if topic is None:
            row.error_code = unknown_topic_error(name)
            return True
        end = min(len(topic.partitions), start + self._room)
        row.topic_id = topic.id
        row.partitions = [
            self._partition(index, topic.partitions[index]) for index in range(start, end)
        ]
        self._room -= len(row.partitions)
        if end < len(topic.partitions):
            self.next_cursor = Cursor(topic_name=name, partition_index=end)
            return False
        return True

    def _partition(
        self, index: int, partition: PartitionImage
    ) -> DescribeTopicPartitionsResponsePartition:
        leads = partition.leader in self._reachable
        offline: list[BrokerId] = [
            broker for broker in partition.replicas if broker not in self._reachable
        ]
        return DescribeTopicPartitionsResponsePartition(
            error_code=Error.NONE if leads else Error.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=partition.leader if leads else -1,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=offline,
        )
