"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: questions about places in a log."""

from __future__ import annotations

from collections import Counter
from typing import Final

from moldau.handlers.request_context import RequestContext
from moldau.handlers.request_slices import Turn
from moldau.handlers.services import Services
from moldau.model.cluster import INTERNAL_TOPICS
from moldau.model.errors import ApiError, Error
from moldau.model.names import Offset
from moldau.replication.offset_lookup import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from moldau.replication.replica import READ_COMMITTED, READ_TO_END, READ_UNCOMMITTED, Replica
from moldau.replication.replica_loading import load
from moldau.storage.storage_faults import StorageFault
from moldau.wire.messages.offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from moldau.wire.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

Awaited = list[tuple[DeleteRecordsPartitionResult, Replica, Offset, int]]
"""Rows that wait until followers have deleted everything before an offset, too, in a tenure of
the leader."""

CONSUMER: Final = -1
TIMESTAMPS_SINCE: Final = 1
"""Version 0 knows only when segments were written."""
NOT_AVAILABLE_SINCE: Final = 5
"""The version from which clients know OFFSET_NOT_AVAILABLE."""
SPECIAL_TIMESTAMPS_SINCE = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}


async def list_offsets(
    request: ListOffsetsRequest, ctx: RequestContext, on: Services
) -> ListOffsetsResponse:
    isolation = READ_UNCOMMITTED
    if request.replica_id != CONSUMER:
        isolation = READ_TO_END
    elif request.isolation_level == 1:
        isolation = READ_COMMITTED
    if ctx.api_version < TIMESTAMPS_SINCE:
        return await _old_style_offsets(request, isolation, on)
    topics = []
    turn = Turn(on.clock)
    for topic in request.topics:
        # A partition that is asked for twice is answered once: nobody knows which one was meant.
        counts = Counter(row.partition_index for row in topic.partitions)
        rows = {row.partition_index: row for row in topic.partitions}
        partitions = []
        for index, row in rows.items():
            if turn.is_over():
                await turn.rest()
            partitions.append(
                await _offset(topic.name, row, counts[index] > 1, isolation, ctx.api_version, on)
            )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _offset(
    topic: str,
    row: ListOffsetsPartition,
    is_repeated: bool,
    isolation: int,
    version: int,
    on: Services,
) -> ListOffsetsPartitionResponse:
    index, timestamp = row.partition_index, row.timestamp
    if is_repeated:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=Error.INVALID_REQUEST)
    if timestamp < 0 and version < SPECIAL_TIMESTAMPS_SINCE.get(timestamp, version + 1):
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=Error.UNSUPPORTED_VERSION
        )
    try:
        replica = on.replicas.find(topic, index)
        found = await on.replicas.offset_look_up.offset_at(
            replica, timestamp, isolation, row.current_leader_epoch
        )
    except ApiError as refusal:
        error = refusal.error
        if error is Error.OFFSET_NOT_AVAILABLE and version < NOT_AVAILABLE_SINCE:
            error = Error.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


async def _old_style_offsets(
    request: ListOffsetsRequest, isolation: int, on: Services
) -> ListOffsetsResponse:
    """Starts of segments, the newest first, where their files were last written by a time."""
    turn = Turn(on.clock)
    topics = []
    for topic in request.topics:
        partitions = []
        for row in topic.partitions:
            if turn.is_over():
                await turn.rest()
            partitions.append(await _segment_starts(topic.name, row, isolation, on))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _segment_starts(
    topic: str, row: ListOffsetsPartition, isolation: int, on: Services
) -> ListOffsetsPartitionResponse:
    from moldau.storage.log.old_message_offsets import offsets_before

    answer = ListOffsetsPartitionResponse(partition_index=row.partition_index)
    try:
        replica = on.replicas.find(topic, row.partition_index)
        replica.partition.check_leader()
        if row.timestamp < EARLIEST_TIMESTAMP:
            raise ApiError(Error.UNSUPPORTED_VERSION, f"{row.timestamp} came with later versions")
        now_ms, count = on.clock.wall_ms(), max(row.max_num_offsets, 0)
        found = offsets_before(await load(replica), row.timestamp, count, now_ms)
        limit = replica.readable_end(isolation)
    except ApiError as refusal:
        answer.error_code = refusal.error
    except StorageFault:
        answer.error_code = Error.KAFKA_STORAGE_ERROR
    else:
        readable = [offset for offset in found if offset <= limit]
        answer.old_style_offsets = [limit, *readable] if len(readable) < len(found) else found
    return answer


async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, ctx: RequestContext, on: Services
) -> OffsetForLeaderEpochResponse:
    turn = Turn(on.clock)
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            if turn.is_over():
                await turn.rest()
            rows.append(await _epoch_end(topic.topic, row, on))
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
    return OffsetForLeaderEpochResponse(topics=topics)


async def _epoch_end(topic: str, row: OffsetForLeaderPartition, on: Services) -> EpochEndOffset:
    try:
        replica, asked = on.replicas.find(topic, row.partition), row.leader_epoch
        while (end := replica.epoch_end_offset(asked, row.current_leader_epoch)) is None:
            await load(replica)
    except ApiError as refusal:
        return EpochEndOffset(error_code=refusal.error, partition=row.partition)
    return EpochEndOffset(partition=row.partition, leader_epoch=end[0], end_offset=end[1])


async def delete_records(
    request: DeleteRecordsRequest, ctx: RequestContext, on: Services
) -> DeleteRecordsResponse:
    awaited: Awaited = []
    turn = Turn(on.clock)
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            if turn.is_over():
                await turn.rest()
            rows.append(_delete(topic.name, row, on, awaited))
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    if awaited:
        await _deleted_everywhere(awaited, on, request.timeout_ms)
    return DeleteRecordsResponse(topics=topics)


def _delete(
    topic: str, row: DeleteRecordsPartition, on: Services, awaited: Awaited
) -> DeleteRecordsPartitionResult:
    try:
        replica = on.replicas.find(topic, row.partition_index)
        if topic in INTERNAL_TOPICS:
            raise ApiError(
                Error.INVALID_TOPIC_EXCEPTION, f"records of {topic} are not to be deleted"
            )
        low_watermark = replica.delete_records(row.offset)
    except ApiError as refusal:
        return DeleteRecordsPartitionResult(
            partition_index=row.partition_index, low_watermark=-1, error_code=refusal.error
        )
    result = DeleteRecordsPartitionResult(
        partition_index=row.partition_index, low_watermark=low_watermark
    )
    if replica.low_watermark < low_watermark:
        awaited.append((result, replica, low_watermark, replica.partition.tenure))
    return result


async def _deleted_everywhere(awaited: Awaited, on: Services, timeout_ms: int) -> None:
    """Wait for the followers, who hear of it with their next fetch."""
    left = await on.replicas.waiting.until_settled(
        awaited, lambda each: each[1], lambda each: _is_deleted(*each), timeout_ms
    )
    for result, replica, _, _ in left:
        result.error_code = Error.REQUEST_TIMED_OUT
        result.low_watermark = replica.low_watermark


def _is_deleted(
    result: DeleteRecordsPartitionResult, replica: Replica, low_watermark: Offset, tenure: int
) -> bool:
    if not replica.partition.is_leader or replica.partition.tenure != tenure:
        result.error_code, result.low_watermark = Error.NOT_LEADER_OR_FOLLOWER, -1
        return True
    return replica.low_watermark >= low_watermark
