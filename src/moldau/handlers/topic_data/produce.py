"""Produce: one batch per partition into its log, and the offsets back.

The fast lane: a partition with one replica is written and answered without waiting for anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from moldau.coordinators.transactional_writes import Refusals
from moldau.handlers.request_context import RequestContext
from moldau.handlers.request_slices import Turn
from moldau.handlers.services import Services
from moldau.handlers.topic_data.current_leaders import Leaders
from moldau.metrics.traffic_cells import TrafficCells
from moldau.model.cluster import INTERNAL_TOPICS
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis, Offset
from moldau.net.answers import Disconnect
from moldau.records.batch import MAGIC_POSITION, MAGIC_V2, TRANSACTIONAL_FLAG
from moldau.records.batch_validation import ProducedBatch, RecordsRefused
from moldau.replication.produce_rules import BATCHES_SINCE
from moldau.replication.replica import ACKS_ALL, Replica
from moldau.replication.replica_flushing import Flushing, flushing
from moldau.replication.replica_loading import load
from moldau.storage.log.partition_log import PartitionLog
from moldau.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

LEADER_HINTS_SINCE: Final = 10
TOPIC_IDS_SINCE: Final = 13
ATTRIBUTES_LOW_BYTE: Final = 22
INTERNAL_TOPICS_WRITER: Final = "__admin_client"
"""The client id that Kafka's tools use to write to internal topics."""

WITHOUT_LOG_START = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.INVALID_TOPIC_EXCEPTION,
        Error.MESSAGE_TOO_LARGE,
        Error.RECORD_LIST_TOO_LARGE,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
        Error.UNSUPPORTED_COMPRESSION_TYPE,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Refusals that are made before the log is looked at: they tell nothing about it."""

NOT_FAILED = frozenset(
    {
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.MESSAGE_TOO_LARGE,
        Error.RECORD_LIST_TOO_LARGE,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals that Apache Kafka does not count as failures: they belong to the life of a cluster."""

TOO_LARGE = frozenset({Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE})

Pending = list[tuple[PartitionProduceResponse, Replica, Offset, int]]
"""Rows that wait until everything before an offset is committed, in a tenure of the leader."""
Unflushed = list[tuple[PartitionProduceResponse, Replica, Flushing]]
"""Rows that wait until their records are on disk."""


async def produce(
    request: ProduceRequest, ctx: RequestContext, on: Services
) -> ProduceResponse | None:
    acks = request.acks
    if not -1 <= acks <= 1:
        return refuse_all(request.topic_data, Error.INVALID_REQUIRED_ACKS)
    refused: Refusals = {}
    if request.transactional_id is not None:
        refused = await on.transactional_writes.prepare(request, ctx.api_version)
    now_ms = on.clock.wall_ms()
    pending: Pending = []
    unflushed: Unflushed = []
    answers = []
    turn = Turn(on.clock)
    for topic in request.topic_data:
        rows = []
        for data in topic.partition_data:
            # A small batch may take long to decompress. Nothing of this client overtakes.
            if turn.is_over():
                await turn.rest()
            append = partial(
                _append, topic, data, request, ctx, on, now_ms, pending, unflushed, refused
            )
            row = append()
            while isinstance(row, Replica):
                row = await _ready(row, data, now_ms, ctx, on, append)
            rows.append(row)
        answers.append(
            TopicProduceResponse(topic_id=topic.topic_id, name=topic.name, partition_responses=rows)
        )
    for each in unflushed:
        await _flush(*each)
    if pending:
        await _commit(pending, on, request.timeout_ms)
    if acks == 0:
        disconnect_if_refused(answers)
        return None
    response = ProduceResponse(responses=answers)
    if ctx.api_version >= LEADER_HINTS_SINCE:
        _point_to_leaders(response, ctx, on)
    return response


def _append(
    topic: TopicProduceData,
    data: PartitionProduceData,
    request: ProduceRequest,
    ctx: RequestContext,
    on: Services,
    now_ms: Millis,
    pending: Pending,
    unflushed: Unflushed,
    refused: Refusals,
    checked: ProducedBatch | None = None,
) -> PartitionProduceResponse | Replica:
    """The row; or the replica, if its log has to be loaded or the batch to be checked first, and
    nothing is written."""
    replica = None
    acks, version = request.acks, ctx.api_version
    try:
        name = topic.name if version < TOPIC_IDS_SINCE else on.replicas.name_of(topic.topic_id)
        replica = on.replicas.find(name, data.index)
        records = data.records
        if records is None:
            records = b""
        if name in INTERNAL_TOPICS or (
            len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG
        ):
            _check_special(name, records, request, ctx)
            if (refusal := refused.get((name, data.index))) is not None:
                row = refused_row(data.index, None, refusal, 0)
                row.error_message = refusal.message
                return row
        appended = replica.append(memoryview(records), acks, now_ms, version, checked)
    except ApiError as refusal:
        return refused_row(data.index, replica, refusal, len(data.records or b""))
    if appended is None:
        return replica
    if version < BATCHES_SINCE:
        converted = appended.offset_last - appended.base_offset + 1
        replica.counts.produce_conversions += converted
    row = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    if replica.flushes and acks and (under_way := flushing(replica)) is not None:
        # The answer says that the records are on disk, as in Apache Kafka.
        unflushed.append((row, replica, under_way))
    if acks == ACKS_ALL and replica.partition.high_watermark <= appended.offset_last:
        pending.append((row, replica, appended.offset_last + 1, replica.partition.tenure))
    return row


async def _flush(row: PartitionProduceResponse, replica: Replica, under_way: Flushing) -> None:
    fault = await under_way
    if fault is not None:
        refusal = replica.refuse(fault)
        row.error_code, row.base_offset = refusal.error, -1
        row.log_append_time_ms = row.log_start_offset = -1


async def _ready(
    replica: Replica,
    data: PartitionProduceData,
    now_ms: Millis,
    ctx: RequestContext,
    on: Services,
    append: Callable[[ProducedBatch | None], PartitionProduceResponse | Replica],
) -> PartitionProduceResponse | Replica:
    """Load the log, or check the batch if that is loaded, and append again."""
    checked = None
    try:
        if isinstance(replica.log, PartitionLog):
            records = memoryview(data.records or b"")
            long_batches = on.replicas.long_batches
            checked = await long_batches.check(replica, records, now_ms, ctx.api_version)
        else:
            await load(replica)
    except ApiError as refusal:
        return refused_row(data.index, replica, refusal, len(data.records or b""))
    return append(checked)


def _check_special(
    name: str, records: bytes | bytearray | memoryview, request: ProduceRequest, ctx: RequestContext
) -> None:
    if name in INTERNAL_TOPICS and ctx.client_id != INTERNAL_TOPICS_WRITER:
        raise ApiError(
            Error.INVALID_TOPIC_EXCEPTION, f"clients may not write to the internal topic {name}"
        )
    if request.transactional_id is None and is_transactional(records):
        raise ApiError(
            Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch needs a transactional id",
        )


def is_transactional(records: bytes | bytearray | memoryview) -> bool:
    # Where the attributes of a batch stand, older messages have something else.
    return (
        len(records) > ATTRIBUTES_LOW_BYTE
        and records[MAGIC_POSITION] == MAGIC_V2
        and bool(records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG)
    )


def refused_row(
    index: int, replica: Replica | None, refusal: ApiError, size_bytes: int
) -> PartitionProduceResponse:
    if replica is not None:
        _count_refused(replica.counts, refusal, size_bytes)
    row = PartitionProduceResponse(index=index, error_code=refusal.error, base_offset=-1)
    by_record = isinstance(refusal, RecordsRefused) and refusal.record_errors
    if by_record:
        assert isinstance(refusal, RecordsRefused)
        row.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in refusal.record_errors
        ]
        row.error_message = refusal.message
    if replica is not None and replica.is_mirror:
        row.error_message = refusal.message
    is_unread = refusal.error == Error.INVALID_RECORD and not by_record
    if replica is not None and not is_unread and refusal.error not in WITHOUT_LOG_START:
        row.log_start_offset = replica.log.log_start_offset
    return row


def _count_refused(counts: TrafficCells, refusal: ApiError, size_bytes: int) -> None:
    counts.produces += 1
    counts.failed_produces += refusal.error not in NOT_FAILED
    if refusal.error in TOO_LARGE:
        counts.bytes_rejected += size_bytes
    if isinstance(refusal, RecordsRefused) and refusal.counted_as:
        cell = refusal.counted_as
        setattr(counts, cell, getattr(counts, cell) + 1)


def refuse_all(topics: list[TopicProduceData], error: Error) -> ProduceResponse:
    def rows(topic: TopicProduceData) -> list[PartitionProduceResponse]:
        return [
            PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
            for data in topic.partition_data
        ]

    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                topic_id=topic.topic_id, name=topic.name, partition_responses=rows(topic)
            )
            for topic in topics
        ]
    )


def disconnect_if_refused(answers: list[TopicProduceResponse]) -> None:
    """With acks=0 a refusal cannot be told; the lost connection makes the client look again."""
    refused = [
        f"{topic.name}-{row.index} {Error(row.error_code).name}"
        for topic in answers
        for row in topic.partition_responses
        if row.error_code
    ]
    if refused:
        raise Disconnect(f"Produce with acks=0 was refused: {', '.join(refused[:3])}")


async def _commit(pending: Pending, on: Services, timeout_ms: int) -> None:
    """Wait until the in-sync replicas have the writes; what fails becomes the row's error."""
    left = await on.replicas.waiting.until_settled(
        pending, lambda place: place[1], lambda place: _is_settled(*place), timeout_ms
    )
    for row, _, _, _ in left:
        row.error_code, row.base_offset = Error.REQUEST_TIMED_OUT, -1
        row.log_append_time_ms = -1


def _is_settled(
    row: PartitionProduceResponse, replica: Replica, offset_end: Offset, tenure: int
) -> bool:
    try:
        return replica.is_committed(offset_end, tenure)
    except ApiError as refusal:
        row.error_code, row.base_offset = refusal.error, -1
        return True


def _point_to_leaders(response: ProduceResponse, ctx: RequestContext, on: Services) -> None:
    leaders: Leaders | None = None
    for topic in response.responses:
        for row in topic.partition_responses:
            if row.error_code == Error.NOT_LEADER_OR_FOLLOWER:
                leaders = leaders or Leaders(ctx, on)
                leader, epoch = leaders.of(topic.name, topic.topic_id, row.index)
                row.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    if leaders is not None:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack)
            for node, endpoint in leaders.nodes.values()
        ]
