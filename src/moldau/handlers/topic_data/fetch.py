"""Fetch: read record batches of many partitions, waiting a while if there is little to read.

The regions in the answer are parts of the log's files, which the kernel sends without a copy.
"""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.handlers.authorization import find_allowed
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.handlers.topic_data.current_leaders import Leaders
from moldau.handlers.topic_data.fetch_counting import count_fetched
from moldau.handlers.topic_data.fetch_sizes import (
    LEADER_HINTS,
    LEADER_HINTS_SINCE,
    fetch_response_bytes,
)
from moldau.model.errors import ApiError
from moldau.model.names import NO_TOPIC_ID, Millis
from moldau.replication.delayed_fetch import (
    FetchLimits,
    Find,
    Prefer,
    is_enough,
    poll,
    read_all,
    read_at_rest,
)
from moldau.replication.fetch_sessions import (
    Answers,
    FetchContext,
    FetchedPartition,
    FetchKey,
    PartitionRead,
)
from moldau.replication.replica import (
    NO_FOLLOWER,
    READ_COMMITTED,
    READ_TO_END,
    READ_UNCOMMITTED,
    Replica,
)
from moldau.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
)

ROWS_PER_TURN: Final = 2_000
"""Partitions that are looked at before others are served in between."""
FOLLOWERS_SERVE_SINCE: Final = 11
RACK_AWARE: Final = "RackAwareReplicaSelector"
TOPIC_IDS_SINCE: Final = 13
ZSTD_SINCE: Final = 10


async def fetch(request: FetchRequest, ctx: RequestContext, on: Services) -> FetchResponse:
    limits = _limits(request, on.config.fetch_max_bytes, ctx.api_version)
    is_counted = not on.quotas.is_open and limits.follower < 0
    if is_counted:
        limits = _within_quota(limits, on.quotas.fetch_bytes_max(ctx))
    elif limits.follower >= 0:
        limits = limits._replace(throttle=on.replicas.leader_throttle)
    now_ms = on.clock.monotonic_ms()
    try:
        context = await _context(request, ctx, on, limits, now_ms)
    except ApiError as refusal:
        throttle_ms = _settle([], ctx, on) if is_counted else 0
        return FetchResponse(throttle_time_ms=throttle_ms, error_code=refusal.error)
    find: Find = on.replicas.find_fetched
    wanted = context.partitions
    if not on.authorizer.is_open:
        find = find_allowed(find, wanted, ctx, on, limits.follower)
    prefer = _preference(request.rack_id, limits, on) if request.rack_id else None
    found = read_all(find, wanted[:ROWS_PER_TURN], limits, now_ms, prefer)
    if found.at_rest:
        found = await read_at_rest(find, found, limits, now_ms, prefer)
    for position in range(ROWS_PER_TURN, len(wanted), ROWS_PER_TURN):
        await asyncio.sleep(0)
        rows = wanted[position : position + ROWS_PER_TURN]
        found = read_all(find, rows, limits, now_ms, prefer, begun=found)
        if found.at_rest:
            found = await read_at_rest(find, found, limits, now_ms, prefer)
    answers = found.answers
    if limits.max_wait_ms > 0 and not is_enough(found, limits):
        answers = await poll(
            find, wanted, limits, found, on.replicas.waiting, on.clock.monotonic_ms
        )
        now_ms = on.clock.monotonic_ms()
    throttle_ms = _settle(context.would_answer(answers), ctx, on) if is_counted else 0
    try:
        if throttle_ms:
            return FetchResponse(throttle_time_ms=throttle_ms, session_id=context.refrain())
        session_id, answers = context.answer(answers, now_ms)
    except ApiError as refusal:
        return FetchResponse(
            throttle_time_ms=throttle_ms, error_code=refusal.error, session_id=request.session_id
        )
    response = FetchResponse(session_id=session_id, responses=await _by_topic(answers))
    if ctx.api_version >= LEADER_HINTS_SINCE:
        _point_to_leaders(response, ctx, on)
    elif ctx.api_version < ZSTD_SINCE:
        return await _for_old_consumers(response, request, ctx, on)
    count_fetched(response, on.replicas, limits.follower)
    return response


async def _for_old_consumers(
    response: FetchResponse, request: FetchRequest, ctx: RequestContext, on: Services
) -> FetchResponse:
    from moldau.handlers.topic_data import fetch_down_conversion

    response = fetch_down_conversion.without_zstd(response, ctx, on)
    if ctx.api_version < fetch_down_conversion.BATCHES_SINCE:
        is_told = await fetch_down_conversion.Rewriting(request, ctx, on).rewrite(response)
        if not is_told and request.max_wait_ms > 0:
            # What there is means nothing to an old consumer: wait for more, once.
            request.max_wait_ms //= 2
            return await fetch(request, ctx, on)
    count_fetched(response, on.replicas, NO_FOLLOWER)
    return response


def _preference(rack: str, limits: FetchLimits, on: Services) -> Prefer | None:
    """None unless the broker is told to send consumers to replicas near them."""
    if limits.follower != NO_FOLLOWER or on.member is None:
        return None
    selector = on.config.replica_selector_class
    if selector is None or not selector.endswith(RACK_AWARE):
        return None
    from moldau.replication.preferred_read_replica import nearest

    brokers = on.image().brokers

    def prefer(replica: Replica, wanted: FetchedPartition) -> int:
        start = replica.log.log_start_offset
        return nearest(replica.partition, start, wanted.fetch_offset, rack, brokers)

    return prefer


def _limits(request: FetchRequest, broker_max_bytes: int, version: int) -> FetchLimits:
    state = request.replica_state
    replica_id = request.replica_id if state is None else state.replica_id
    if replica_id == NO_FOLLOWER:
        isolation = READ_COMMITTED if request.isolation_level == 1 else READ_UNCOMMITTED
    else:
        isolation = READ_TO_END if replica_id >= 0 else READ_UNCOMMITTED
    max_bytes = min(request.max_bytes, broker_max_bytes)
    return FetchLimits(
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.max_wait_ms,
        isolation,
        replica_id,
        replica_id >= 0 or version < FOLLOWERS_SERVE_SINCE,
    )


def _within_quota(limits: FetchLimits, bytes_max: int) -> FetchLimits:
    max_bytes = min(limits.max_bytes, bytes_max)
    return limits._replace(max_bytes=max_bytes, min_bytes=min(limits.min_bytes, max_bytes))


def _settle(answers: Answers, ctx: RequestContext, on: Services) -> Millis:
    return on.quotas.settle_fetch(ctx, fetch_response_bytes(answers, ctx.api_version))


async def _context(
    request: FetchRequest, ctx: RequestContext, on: Services, limits: FetchLimits, now_ms: int
) -> FetchContext:
    by_id = ctx.api_version >= TOPIC_IDS_SINCE
    if limits.follower >= 0 and ctx.connection is not None:
        ctx.connection.is_follower = True
    asked: dict[FetchKey, FetchedPartition] = {}
    for topic in request.topics:
        topic_key = topic.topic_id if by_id else topic.topic
        topic_id = topic.topic_id if by_id else NO_TOPIC_ID
        for count, row in enumerate(topic.partitions, 1):
            if not count % ROWS_PER_TURN:
                await asyncio.sleep(0)
            asked[topic_key, row.partition] = FetchedPartition(
                topic.topic,
                topic_id,
                row.partition,
                row.fetch_offset,
                row.partition_max_bytes,
                row.current_leader_epoch,
                row.last_fetched_epoch,
                row.log_start_offset,
            )
    forgotten: list[FetchKey] = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return on.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        asked,
        forgotten,
        uses_topic_ids=by_id,
        is_follower=limits.follower >= 0,
        now=now_ms,
    )


async def _by_topic(answers: Answers) -> list[FetchableTopicResponse]:
    """Rows of one topic that stand together share its entry."""
    topics: list[FetchableTopicResponse] = []
    topic = None
    for count, (partition, read) in enumerate(answers, 1):
        if not count % ROWS_PER_TURN:
            await asyncio.sleep(0)
        if topic is None or topic.topic != partition.topic or topic.topic_id != partition.topic_id:
            topic = FetchableTopicResponse(
                topic_id=partition.topic_id, topic=partition.topic, partitions=[]
            )
            topics.append(topic)
        topic.partitions.append(_row(partition.partition, read))
    return topics


def _row(index: int, read: PartitionRead) -> FetchablePartitionResponse:
    row = FetchablePartitionResponse(
        partition_index=index,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=[] if read.error else None,
        records=read.records or b"",
    )
    if read.aborted_transactions is not None:
        row.aborted_transactions = [
            AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in read.aborted_transactions
        ]
    if read.preferred_read_replica >= 0:
        row.preferred_read_replica = read.preferred_read_replica
    if read.diverging_epoch is not None:
        epoch, end_offset = read.diverging_epoch
        row.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return row


def _point_to_leaders(response: FetchResponse, ctx: RequestContext, on: Services) -> None:
    leaders: Leaders | None = None
    for topic in response.responses:
        for row in topic.partitions:
            if row.error_code in LEADER_HINTS:
                leaders = leaders or Leaders(ctx, on)
                leader, epoch = leaders.of(topic.topic, topic.topic_id, row.partition_index)
                row.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    if leaders is not None:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack)
            for node, endpoint in leaders.nodes.values()
        ]
