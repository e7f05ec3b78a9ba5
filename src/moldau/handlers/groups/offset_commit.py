"""OffsetCommit, TxnOffsetCommit and OffsetDelete: positions that groups keep.

Topics that do not exist are refused here, row by row; the coordinator sees only the others, some
hundreds at a time: a step of its machine holds the loop from the decision to the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from moldau.coordinators.coordinator_errors import told_of_commit, told_to_client
from moldau.groups.group_commands import (
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteOffsets,
    OffsetRow,
)
from moldau.groups.group_results import PartitionResult
from moldau.handlers.request_slices import Turn, in_turns
from moldau.model.cluster import ClusterImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from moldau.handlers.request_context import RequestContext
    from moldau.handlers.services import Services

GROUP_NOT_FOUND_SINCE = 9
"""The version of OffsetCommit from which clients know GROUP_ID_NOT_FOUND."""
TOPIC_IDS_SINCE = 10
ROWS_PER_STEP = 500
ROWS_THAT_FIT = 5_000
RECORD_BYTES_MIN = 42
"""Of a committed offset in the log, its group's name apart: 7 around it, 11 of key, 24 of value."""
LOADING_ERROR_SINCE = 2
"""The version of TxnOffsetCommit from which producers know COORDINATOR_LOAD_IN_PROGRESS."""


class _Topic(NamedTuple):
    """A topic of a request, as far as it is known."""

    name: str
    id: TopicId
    partition_count: int
    error: Error = Error.NONE

    def refusal(self, partition: int) -> Error:
        if self.error is not Error.NONE:
            return self.error
        known = 0 <= partition < self.partition_count
        return Error.NONE if known else Error.UNKNOWN_TOPIC_OR_PARTITION


def _named(image: ClusterImage, name: str) -> _Topic:
    topic = image.topics.get(name)
    if topic is None:
        return _Topic(name, NO_TOPIC_ID, 0, Error.UNKNOWN_TOPIC_OR_PARTITION)
    return _Topic(name, topic.id, len(topic.partitions))


def _identified(image: ClusterImage, topic_id: TopicId) -> _Topic:
    name = image.topic_names.get(topic_id)
    return _Topic("", topic_id, 0, Error.UNKNOWN_TOPIC_ID) if name is None else _named(image, name)


async def offset_commit(
    request: OffsetCommitRequest, ctx: RequestContext, on: Services
) -> OffsetCommitResponse:
    image = on.image()
    by_id = ctx.api_version >= TOPIC_IDS_SINCE
    topics = [
        _identified(image, row.topic_id) if by_id else _named(image, row.name)
        for row in request.topics
    ]
    rows = await _rows_to_commit(topics, [row.partitions for row in request.topics], on)
    knows_group_error = ctx.api_version >= GROUP_NOT_FOUND_SINCE
    command = CommitOffsets(
        request.group_id,
        rows,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        Error.GROUP_ID_NOT_FOUND if knows_group_error else Error.ILLEGAL_GENERATION,
    )
    errors = await _commit(request.group_id, command, on, told_of_commit)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic_id=asked.topic_id,
                name=asked.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=row.partition_index,
                        error_code=_commit_outcome(errors, topic, row.partition_index),
                    )
                    async for row in in_turns(asked.partitions, on.clock)
                ],
            )
            async for asked, topic in in_turns(zip(request.topics, topics, strict=True), on.clock)
        ]
    )


async def txn_offset_commit(
    request: TxnOffsetCommitRequest, ctx: RequestContext, on: Services
) -> TxnOffsetCommitResponse:
    image = on.image()
    topics = [_named(image, row.name) for row in request.topics]
    rows = await _rows_to_commit(topics, [row.partitions for row in request.topics], on)
    command = CommitTransactionalOffsets(
        request.group_id,
        request.producer_id,
        request.producer_epoch,
        rows,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
    )

    def told(error: Error) -> Error:
        if error is Error.COORDINATOR_LOAD_IN_PROGRESS and ctx.api_version < LOADING_ERROR_SINCE:
            return Error.COORDINATOR_NOT_AVAILABLE
        return told_of_commit(error)

    errors: _Errors = Error.INVALID_GROUP_ID
    if request.group_id:
        errors = await _commit(request.group_id, command, on, told)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=asked.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=row.partition_index,
                        error_code=_commit_outcome(errors, topic, row.partition_index),
                    )
                    async for row in in_turns(asked.partitions, on.clock)
                ],
            )
            async for asked, topic in in_turns(zip(request.topics, topics, strict=True), on.clock)
        ]
    )


_PartitionRow = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
_Errors = Error | dict[TopicPartition, Error]
"""Of the whole commit, or of each place."""


async def _rows_to_commit(
    topics: Iterable[_Topic], partitions: Iterable[Sequence[_PartitionRow]], on: Services
) -> tuple[OffsetRow, ...]:
    pairs = (
        (topic, row)
        for topic, rows in zip(topics, partitions, strict=True)
        for row in rows
        if topic.refusal(row.partition_index) is Error.NONE
    )
    return tuple(
        [
            OffsetRow(
                TopicPartition(topic.name, row.partition_index),
                row.committed_offset,
                row.committed_leader_epoch,
                row.committed_metadata or "",
                topic.id,
            )
            async for topic, row in in_turns(pairs, on.clock)
        ]
    )


async def _commit(
    group_id: str,
    command: CommitOffsets | CommitTransactionalOffsets,
    on: Services,
    told: Callable[[Error], Error],
) -> _Errors:
    if not command.offsets:
        return {}
    try:
        if len(command.offsets) > ROWS_THAT_FIT:
            _check_size(group_id, len(command.offsets), on)
        begun = await _in_steps(
            command.offsets,
            lambda rows: on.groups.submit(group_id, replace(command, offsets=rows)),
            on,
        )
    except ApiError as refusal:
        return told(refusal.error)
    deadline_ms = on.groups.deadline()
    errors: dict[TopicPartition, Error] = {}
    for rows, future in begun:
        try:
            for row in await on.groups.stored(future, deadline_ms):
                errors[row.place] = row.error
        except ApiError as refusal:
            errors.update(dict.fromkeys((row.place for row in rows), told(refusal.error)))
    return errors


Asked = TypeVar("Asked")
Told = TypeVar("Told")
_Begun = list[tuple[tuple[Asked, ...], "asyncio.Future[Told]"]]


async def _in_steps(
    rows: tuple[Asked, ...],
    submit: Callable[[tuple[Asked, ...]], asyncio.Future[Told]],
    on: Services,
) -> _Begun[Asked, Told]:
    """Gives the coordinator all rows, and others a turn in between. The next request of the same
    client does not begin before that, so it cannot be overtaken by what is left of this one."""
    turn = Turn(on.clock)
    begun = []
    for start in range(0, len(rows), ROWS_PER_STEP):
        if start and turn.is_over():
            await turn.rest()
        step = rows[start : start + ROWS_PER_STEP]
        begun.append((step, submit(step)))
    return begun


def _check_size(group_id: str, count: int, on: Services) -> None:
    """What cannot fit one batch is refused by the journal, but after all the work for it."""
    place = on.groups.topic, on.groups.partition_of(group_id)
    limit = on.replicas.find(*place).settings.max_message_bytes
    if count * (RECORD_BYTES_MIN + len(group_id)) > limit:
        raise ApiError(
            Error.MESSAGE_TOO_LARGE,
            f"{count} offsets do not fit a batch of {limit} bytes in {place[0]}",
        )


def _commit_outcome(errors: _Errors, topic: _Topic, partition: int) -> Error:
    refusal = topic.refusal(partition)
    if refusal is not Error.NONE:
        return refusal
    if isinstance(errors, Error):
        return errors
    return errors[TopicPartition(topic.name, partition)]


async def offset_delete(
    request: OffsetDeleteRequest, ctx: RequestContext, on: Services
) -> OffsetDeleteResponse:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=Error.INVALID_GROUP_ID)
    image = on.image()
    asked = [
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    ]
    errors = {
        TopicPartition(name, partition): _named(image, name).refusal(partition)
        async for name, partition in in_turns(asked, on.clock)
    }
    places = tuple(place for place, error in errors.items() if error is Error.NONE)

    def submit(step: tuple[TopicPartition, ...]) -> asyncio.Future[tuple[PartitionResult, ...]]:
        return on.groups.submit(request.group_id, DeleteOffsets(request.group_id, step))

    # Also without a known partition: what is wrong with the group comes first.
    begun = await _in_steps(places, submit, on) or [(places, submit(places))]
    deadline_ms = on.groups.deadline()
    try:
        for _, future in begun:
            rows = await on.groups.stored(future, deadline_ms)
            errors.update(rows)
    except ApiError as refusal:
        return OffsetDeleteResponse(error_code=told_to_client(refusal.error))
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=row.partition_index,
                        error_code=errors[TopicPartition(topic.name, row.partition_index)],
                    )
                    async for row in in_turns(topic.partitions, on.clock)
                ],
            )
            async for topic in in_turns(request.topics, on.clock)
        ]
    )
