"""Offsets by time, at the start and at the end of partitions, asked of their leaders.

Requests use each broker's second connection, so that they do not queue behind a fetch that waits
for data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from moldau.client.consumer.consumer_records import OffsetAndTimestamp
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.network.network_client import coordinator_node
from moldau.client.shared.client_errors import KafkaError, KafkaTimeoutError, error_for
from moldau.model.errors import RETRIABLE, Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

Found = dict[TopicPartition, OffsetAndTimestamp]
_STALE_LEADER = {
    Error.NOT_LEADER_OR_FOLLOWER,
    Error.FENCED_LEADER_EPOCH,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.LEADER_NOT_AVAILABLE,
    Error.REPLICA_NOT_AVAILABLE,
    Error.KAFKA_STORAGE_ERROR,
}


class OffsetLookup:
    def __init__(self, cluster: Cluster, *, is_read_committed: bool) -> None:
        self._cluster = cluster
        self._isolation_level = int(is_read_committed)

    async def find(self, times: Mapping[TopicPartition, int], timeout_ms: int) -> Found:
        """The offset for each timestamp (or LATEST, EARLIEST); -1 where there is no record.

        Tries again until the time is up; what no try can mend is raised at once.
        """
        found: Found = {}
        left = dict(times)
        failures = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while left:
                    if failures:
                        await self._cluster.network.pause(failures)
                    await self._know_leaders(left, has_failed=failures > 0)
                    failures += 1
                    found |= await self._ask(left)
                    left = {tp: time for tp, time in left.items() if tp not in found}
        except TimeoutError:
            raise KafkaTimeoutError(f"Failed to get offsets by times in {timeout_ms}ms") from None
        return found

    async def _know_leaders(
        self, partitions: Mapping[TopicPartition, int], *, has_failed: bool
    ) -> None:
        unknown = self._cluster.group_by_leader(partitions)[1]
        if unknown or has_failed:
            topics = {tp.topic for tp in (partitions if has_failed else unknown)}
            await self._cluster.refresh(topics, allow_auto_create=False)

    async def _ask(self, times: Mapping[TopicPartition, int]) -> Found:
        led, _ = self._cluster.group_by_leader(times)
        answers = await asyncio.gather(
            *(
                self._ask_node(node_id, {tp: times[tp] for tp in some})
                for node_id, some in led.items()
            )
        )
        return {tp: offset for answer in answers for tp, offset in answer.items()}

    async def _ask_node(self, node_id: int, times: Mapping[TopicPartition, int]) -> Found:
        topics: dict[str, ListOffsetsTopic] = {}
        for tp, timestamp in times.items():
            leader = self._cluster.leader(*tp)
            row = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
            row.partitions.append(
                ListOffsetsPartition(
                    partition_index=tp.partition,
                    current_leader_epoch=-1 if leader is None else leader[1],
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=self._isolation_level, topics=list(topics.values())
        )
        found: Found = {}
        try:
            response = await self._cluster.network.call(
                coordinator_node(node_id), request, version_min=1
            )
        except KafkaError as fault:
            if not fault.retriable and fault.code is not Error.BROKER_NOT_AVAILABLE:
                raise
            return found
        for topic in response.topics:
            for part in topic.partitions:
                tp = TopicPartition(topic.name, part.partition_index)
                if part.error_code == 0:
                    found[tp] = OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch)
                elif part.error_code not in RETRIABLE and part.error_code not in _STALE_LEADER:
                    raise error_for(part.error_code, f"{tp}: {Error(part.error_code).sentence}")
        return found


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics
