"""OffsetFetch: where groups have got to, asked for one group or for several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moldau.coordinators.coordinator_errors import told_to_client
from moldau.groups.group_commands import FetchOffsets, TopicOffsets
from moldau.groups.group_results import FetchedOffset, FetchedTopic
from moldau.handlers.request_slices import Turn, in_turns
from moldau.model.errors import ApiError, Error
from moldau.wire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    import asyncio

    from moldau.handlers.request_context import RequestContext
    from moldau.handlers.services import Services
    from moldau.model.names import Millis

GROUP_ERROR_SINCE = 2
"""The version from which an error of the whole group has a place."""
SEVERAL_GROUPS_SINCE = 8
PARTITIONS_PER_COMMAND = 2_000
TOPIC_IDS_SINCE = 10


class _FetchResult(NamedTuple):
    topics: list[FetchedTopic]
    error: Error = Error.NONE


async def offset_fetch(
    request: OffsetFetchRequest, ctx: RequestContext, on: Services
) -> OffsetFetchResponse:
    asked = request.groups
    if ctx.api_version < SEVERAL_GROUPS_SINCE:
        asked = [OffsetFetchRequestGroup(group_id=request.group_id, topics=_as_new(request))]
    else:
        asked = _each_once(asked)
    by_id = ctx.api_version >= TOPIC_IDS_SINCE
    turn = Turn(on.clock)
    # All groups are asked before the first answer is awaited.
    begun = []
    for group in asked:
        begun.append(await _ask(group, request.require_stable, by_id, on))
        if turn.is_over():
            await turn.rest()
    if ctx.api_version < SEVERAL_GROUPS_SINCE:
        only = await _fetched(begun[0], asked[0], by_id, on)
        return await _single_response(only, asked[0], ctx.api_version, on)
    deadline_ms = on.groups.deadline()
    rows = []
    for group, parts in zip(asked, begun, strict=True):
        found = await _fetched(parts, group, by_id, on, deadline_ms)
        rows.append(await _group_response(group.group_id, found, on))
        if turn.is_over():
            await turn.rest()
    return OffsetFetchResponse(groups=rows)


def _each_once(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """A group that is asked for everything is answered once: naming it again costs a few bytes,
    an answer may be long. Partitions that are named cost the client as much as the broker."""
    whole = {group.group_id: group for group in reversed(groups) if group.topics is None}
    return [group for group in groups if group.topics is not None or whole[group.group_id] is group]


def _as_new(request: OffsetFetchRequest) -> list[OffsetFetchRequestTopics] | None:
    if request.topics is None:
        return None
    return [
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
        for topic in request.topics
    ]


class _Asked(NamedTuple):
    """A part of what was asked of one group."""

    future: asyncio.Future[tuple[FetchedTopic, ...]]
    goes_on: bool
    """Its first topic is the last one of the part before."""


async def _ask(
    group: OffsetFetchRequestGroup, require_stable: bool, by_id: bool, on: Services
) -> list[_Asked]:
    """Many partitions are asked for in parts: one command may not keep everybody waiting."""

    def ask(topics: tuple[TopicOffsets, ...] | None, goes_on: bool = False) -> _Asked:
        command = FetchOffsets(group.group_id, topics, require_stable)
        return _Asked(on.groups.submit(group.group_id, command), goes_on)

    if group.topics is None:
        return [ask(None)]
    names = on.image().topic_names
    known = [topic for topic in group.topics if not by_id or topic.topic_id in names]
    begun: list[_Asked] = []
    part: list[TopicOffsets] = []
    room, goes_on = PARTITIONS_PER_COMMAND, False
    async for topic in in_turns(known, on.clock):
        name, indexes = names[topic.topic_id] if by_id else topic.name, topic.partition_indexes
        for start in range(0, max(len(indexes), 1), PARTITIONS_PER_COMMAND):
            piece = tuple(indexes[start : start + PARTITIONS_PER_COMMAND])
            if part and len(piece) + 1 > room:
                begun.append(ask(tuple(part), goes_on))
                part, room, goes_on = [], PARTITIONS_PER_COMMAND, start > 0
            part.append(TopicOffsets(name, piece, topic.topic_id))
            room -= len(piece) + 1
    begun.append(ask(tuple(part), goes_on))
    return begun


async def _fetched(
    parts: list[_Asked],
    group: OffsetFetchRequestGroup,
    by_id: bool,
    on: Services,
    deadline_ms: Millis | None = None,
) -> _FetchResult:
    topics: list[FetchedTopic] = []
    try:
        for part in parts:
            answer = await on.groups.stored(part.future, deadline_ms)
            found = list(answer)
            if part.goes_on:
                rest = found.pop(0).offsets
                topics[-1] = topics[-1]._replace(offsets=topics[-1].offsets + rest)
            topics += found
    except ApiError as refusal:
        return _FetchResult([], told_to_client(refusal.error))
    if by_id and group.topics is None:
        # Who speaks in ids cannot be told of a topic that has none any more.
        known = on.image().topics
        topics = [
            each._replace(topic_id=known[each.topic].id) for each in topics if each.topic in known
        ]
    elif by_id:
        told = {each.topic_id for each in topics}
        topics += [_unknown(topic) for topic in group.topics or () if topic.topic_id not in told]
    return _FetchResult(topics)


def _unknown(
    topic: OffsetFetchRequestTopics, error: Error = Error.UNKNOWN_TOPIC_ID
) -> FetchedTopic:
    rows = (FetchedOffset(partition, error=error) for partition in topic.partition_indexes)
    return FetchedTopic(topic.name, tuple(rows), topic.topic_id)


async def _single_response(
    result: _FetchResult, asked: OffsetFetchRequestGroup, version: int, on: Services
) -> OffsetFetchResponse:
    topics = result.topics
    if result.error is not Error.NONE and version < GROUP_ERROR_SINCE:
        topics = [_unknown(topic, result.error) for topic in asked.topics or ()]
    return OffsetFetchResponse(
        error_code=result.error,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.topic,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=row.partition,
                        committed_offset=row.offset,
                        committed_leader_epoch=row.leader_epoch,
                        metadata=row.metadata,
                        error_code=row.error,
                    )
                    async for row in in_turns(topic.offsets, on.clock)
                ],
            )
            async for topic in in_turns(topics, on.clock)
        ],
    )


async def _group_response(
    group_id: str, result: _FetchResult, on: Services
) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group_id,
        error_code=result.error,
        topics=[
            OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                name=topic.topic,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=row.partition,
                        committed_offset=row.offset,
                        committed_leader_epoch=row.leader_epoch,
                        metadata=row.metadata,
                        error_code=row.error,
                    )
                    async for row in in_turns(topic.offsets, on.clock)
                ],
            )
            async for topic in in_turns(result.topics, on.clock)
        ],
    )
