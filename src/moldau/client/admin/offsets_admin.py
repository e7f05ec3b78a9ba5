"""Offsets of partitions: list them by time or position, delete what lies before one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.client.admin.admin_requests import AdminRequests, by_topic
from moldau.client.admin.admin_results import ListedOffset, OffsetSpec, Outcomes
from moldau.client.shared.client_errors import error_for
from moldau.model.names import TopicPartition
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.wire.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

_VERSION_MIN: dict[int, int] = {
    # What older versions would take for a timestamp.
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}


class OffsetsAdmin(AdminRequests):
    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec | int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, ListedOffset]:
        """Offsets by position (`OffsetSpec.LATEST`) or by timestamp in milliseconds.

            end = admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.LATEST}).check()

        With `read_committed` the latest offset is the last stable one."""
        wanted = {TopicPartition(*tp): int(spec) for tp, spec in specs.items()}
        version_min = max((_VERSION_MIN.get(spec, 1) for spec in wanted.values()), default=1)

        async def send(node_id: int, part: list[TopicPartition]) -> Mapping[TopicPartition, Any]:
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(read_committed),
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=index,
                                timestamp=wanted[TopicPartition(topic, index)],
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(part).items()
                ],
                timeout_ms=self.network.settings.request_timeout_ms,
            )
            response = await self.network.call(node_id, request, version_min=version_min)
            return {
                TopicPartition(topic.name, row.partition_index): error_for(row.error_code)
                if row.error_code
                else ListedOffset(row.offset, row.timestamp, row.leader_epoch)
                for topic in response.topics
                for row in topic.partitions
            }

        return await self._from_leaders(wanted, send, timeout_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, int]:
        """Delete the records before an offset, -1 for all; the value is the new first offset.

        admin.delete_records({TopicPartition("orders", 0): 1000}).check()
        """
        offsets = {TopicPartition(*tp): offset for tp, offset in before.items()}

        async def send(node_id: int, part: list[TopicPartition]) -> Mapping[TopicPartition, Any]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=index, offset=offsets[TopicPartition(topic, index)]
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(part).items()
                ],
                timeout_ms=self.network.settings.request_timeout_ms,
            )
            response = await self.network.call(node_id, request)
            return {
                TopicPartition(topic.name, row.partition_index): error_for(row.error_code)
                if row.error_code
                else row.low_watermark
                for topic in response.topics
                for row in topic.partitions
            }

        return await self._from_leaders(offsets, send, timeout_ms)
