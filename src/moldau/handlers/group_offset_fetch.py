"""OffsetFetch: where groups have got to, asked for one group or for several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from moldau.groups.commands import FetchOffsets, TopicOffsets
from moldau.groups.results import FetchedOffset, FetchedTopic
from moldau.handlers.group_outcomes import coordinator_error, stored
from moldau.handlers.turns import Turn
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

    from moldau.handlers.context import RequestContext
    from moldau.handlers.services import Services

GROUP_ERROR_SINCE = 2
"""The version from which an error of the whole group has a place."""
SEVERAL_GROUPS_SINCE = 8
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
        begun.append(_ask(group, request.require_stable, by_id, on))
        if turn.is_over():
            await turn.rest()
    if ctx.api_version < SEVERAL_GROUPS_SINCE:
        only = await _fetched(begun[0], asked[0], by_id, on)
        return _single_response(only, asked[0], ctx.api_version)
    rows = []
    for group, future in zip(asked, begun, strict=True):
        rows.append(_group_response(group.group_id, await _fetched(future, group, by_id, on)))
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


def _ask(
    group: OffsetFetchRequestGroup, require_stable: bool, by_id: bool, on: Services
) -> asyncio.Future[object]:
    topics: tuple[TopicOffsets, ...] | None = None
    if group.topics is not None:
        names = on.image().topic_names
        topics = tuple(
            TopicOffsets(
                names[topic.topic_id] if by_id else topic.name,
                tuple(topic.partition_indexes),
                topic.topic_id,
            )
            for topic in group.topics
            if not by_id or topic.topic_id in names
        )
    command = FetchOffsets(group.group_id, topics, require_stable)
    return on.groups.submit(group.group_id, command)


async def _fetched(
    future: asyncio.Future[object], group: OffsetFetchRequestGroup, by_id: bool, on: Services
) -> _FetchResult:
    try:
        found = cast("tuple[FetchedTopic, ...]", await stored(future, on))
    except ApiError as refusal:
        return _FetchResult([], coordinator_error(refusal))
    topics = list(found)
    if by_id and group.topics is None:
        # Who speaks in ids cannot be told of a topic that has none any more.
        known = on.image().topics
        topics = [
            each._replace(topic_id=known[each.topic].id) for each in found if each.topic in known
        ]
    elif by_id:
        told = {each.topic_id for each in found}
        topics += [_unknown(topic) for topic in group.topics or () if topic.topic_id not in told]
    return _FetchResult(topics)


def _unknown(
    topic: OffsetFetchRequestTopics, error: Error = Error.UNKNOWN_TOPIC_ID
) -> FetchedTopic:
    rows = (FetchedOffset(partition, error=error) for partition in topic.partition_indexes)
    return FetchedTopic(topic.name, tuple(rows), topic.topic_id)


def _single_response(
    result: _FetchResult, asked: OffsetFetchRequestGroup, version: int
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
                    for row in topic.offsets
                ],
            )
            for topic in topics
        ],
    )


def _group_response(group_id: str, result: _FetchResult) -> OffsetFetchResponseGroup:
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
                    for row in topic.offsets
                ],
            )
            for topic in result.topics
        ],
    )
