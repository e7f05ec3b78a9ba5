"""CreateTopics, DeleteTopics and CreatePartitions: requests to the controller and rows back.

One answer row per topic, in the order of the request; a topic that is named twice gets one row
that says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from moldau.config.config_changes import DEFAULT_BROKER
from moldau.config.config_sources import BrokerLayers, Entry, topic_defaults, topic_entries
from moldau.controller.controller_facts import TopicCreated
from moldau.controller.rules.topic_rules import (
    PARTITIONS_PER_REQUEST_MAX,
    NewPartitions,
    NewTopic,
    too_many_partitions,
)
from moldau.handlers.admin.mutation_quotas import (
    STRICT_CREATION_SINCE,
    STRICT_DELETION_SINCE,
    STRICT_PARTITIONS_SINCE,
    over_quota,
    within_quota,
)
from moldau.model.cluster import ClusterImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicId
from moldau.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from moldau.handlers.request_context import RequestContext
    from moldau.handlers.services import Services

DELETION_ERROR_SINCE = 3
"""The version of DeleteTopics from which clients know TOPIC_DELETION_DISABLED."""

T = TypeVar("T")


async def create_topics(
    request: CreateTopicsRequest, ctx: RequestContext, on: Services
) -> CreateTopicsResponse:
    if _partition_count(request.topics, on) > PARTITIONS_PER_REQUEST_MAX:
        refusal = too_many_partitions()
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreateTopicsResponse(topics=[_creation_result(name, refusal, {}) for name in names])
    topics = [_new_topic(topic) for topic in request.topics]
    mutations = on.quotas.mutations(ctx, is_strict=ctx.api_version >= STRICT_CREATION_SINCE)
    creation = within_quota(
        topics,
        mutations,
        check=partial(on.controller.create_topics, validate_only=True),
        act=partial(on.controller.create_topics, validate_only=request.validate_only),
        partitions_of=lambda created: len(created.partitions),
    )
    rows = await _rows_of(creation, len(topics))
    await on.replicas.pending.settled()
    # Worked out once: a request may create a thousand topics.
    defaults = _topic_defaults(on)
    results = {
        topic.name: _creation_result(topic.name, row, defaults)
        for topic, row in zip(topics, rows, strict=True)
    }
    return CreateTopicsResponse(
        throttle_time_ms=mutations.throttle_ms(), topics=list(results.values())
    )


async def delete_topics(
    request: DeleteTopicsRequest, ctx: RequestContext, on: Services
) -> DeleteTopicsResponse:
    asked = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    wanted = _resolve(asked, on.image())
    names = [each.name for each in wanted if each.refusal is None and each.name is not None]
    mutations = on.quotas.mutations(ctx, is_strict=ctx.api_version >= STRICT_DELETION_SINCE)
    refusals: dict[str, ApiError] = {}
    if on.config.delete_topic_enable:
        refusals = over_quota(names, on.image(), mutations)
        names = [name for name in names if name not in refusals]
    outcomes = await _rows_of(on.controller.delete_topics(names), len(names))
    # A broker that is killed once this is answered must not find the logs again.
    await on.replicas.removed.settled()
    refusals |= {
        name: row for name, row in zip(names, outcomes, strict=True) if isinstance(row, ApiError)
    }
    return DeleteTopicsResponse(
        throttle_time_ms=mutations.throttle_ms(),
        responses=[
            _deletion_result(each, each.refusal or refusals.get(each.name or ""), ctx.api_version)
            for each in wanted
        ],
    )


async def create_partitions(
    request: CreatePartitionsRequest, ctx: RequestContext, on: Services
) -> CreatePartitionsResponse:
    topics = [_new_partitions(topic) for topic in request.topics]
    mutations = on.quotas.mutations(ctx, is_strict=ctx.api_version >= STRICT_PARTITIONS_SINCE)
    addition = within_quota(
        topics,
        mutations,
        check=partial(on.controller.create_partitions, validate_only=True),
        act=partial(on.controller.create_partitions, validate_only=request.validate_only),
        partitions_of=lambda row: len(row.added),
    )
    rows = await _rows_of(addition, len(topics))
    await on.replicas.pending.settled()
    results = {
        topic.topic: CreatePartitionsTopicResult(
            name=topic.topic, error_code=_code(row), error_message=_message(row)
        )
        for topic, row in zip(topics, rows, strict=True)
    }
    return CreatePartitionsResponse(
        throttle_time_ms=mutations.throttle_ms(), results=list(results.values())
    )


def _partition_count(topics: Sequence[CreatableTopic], on: Services) -> int:
    """All that is asked for, as Apache Kafka counts it: before anything is looked at closer."""
    default = on.config.num_partitions
    return sum(
        len(topic.assignments) or (default if topic.num_partitions < 0 else topic.num_partitions)
        for topic in topics
    )


async def _rows_of(call: Awaitable[Sequence[T]], count: int) -> Sequence[T | ApiError]:
    """A refusal of the whole request is every row's: these responses have no other place."""
    try:
        return await call
    except ApiError as refusal:
        return [refusal] * count


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((row.partition_index, tuple(row.broker_ids)) for row in topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    rows = topic.assignments
    assignments = None if rows is None else tuple(tuple(row.broker_ids) for row in rows)
    return NewPartitions(topic.name, topic.count, assignments)


def _creation_result(
    name: str, row: TopicCreated | ApiError, defaults: Mapping[str, Entry]
) -> CreatableTopicResult:
    if isinstance(row, ApiError):
        return CreatableTopicResult(
            name=name, error_code=row.error, error_message=_message(row), configs=[]
        )
    return CreatableTopicResult(
        name=name,
        topic_id=row.id,
        num_partitions=len(row.partitions),
        replication_factor=row.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(row.configs, defaults)
        ],
    )


def _topic_defaults(on: Services) -> dict[str, Entry]:
    dynamic = on.image().broker_configs
    return topic_defaults(
        BrokerLayers(on.config, dynamic.get(DEFAULT_BROKER, {}), dynamic.get(str(on.node_id), {}))
    )


class _Wanted(NamedTuple):
    """One row of a deletion, resolved."""

    name: str | None
    topic_id: TopicId
    refusal: ApiError | None = None


def _resolve(asked: Sequence[DeleteTopicState], image: ClusterImage) -> list[_Wanted]:
    by_name = Counter(each.name for each in asked if each.name is not None)
    by_id = Counter(each.topic_id for each in asked if each.name is None)
    seen: dict[tuple[str | None, TopicId], _Wanted] = {}
    for each in asked:
        wanted = _resolve_one(each, image, by_name, by_id)
        seen.setdefault((wanted.name, wanted.topic_id), wanted)
    return list(seen.values())


def _resolve_one(
    asked: DeleteTopicState,
    image: ClusterImage,
    by_name: Counter[str],
    by_id: Counter[TopicId],
) -> _Wanted:
    name, topic_id = asked.name, asked.topic_id
    if name is not None and topic_id != NO_TOPIC_ID:
        return _refused(name, topic_id, "You may not specify both topic name and topic id.")
    if name is None and topic_id == NO_TOPIC_ID:
        return _refused(name, topic_id, "Neither topic name nor id were specified.")
    if name is None:
        if by_id[topic_id] > 1:
            return _refused(None, topic_id, "Duplicate topic id.")
        name = image.topic_names.get(topic_id)
        if name is None:
            unknown = ApiError(Error.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
            return _Wanted(None, topic_id, unknown)
    elif by_name[name] > 1:
        return _refused(name, topic_id, "Duplicate topic name.")
    else:
        topic = image.topics.get(name)
        topic_id = NO_TOPIC_ID if topic is None else topic.id
    if by_name[name] and by_id[topic_id]:
        already = "The provided topic name maps to an ID that was already supplied."
        return _refused(name, topic_id, already)
    return _Wanted(name, topic_id)


def _refused(name: str | None, topic_id: TopicId, message: str) -> _Wanted:
    return _Wanted(name, topic_id, ApiError(Error.INVALID_REQUEST, message))


def _deletion_result(
    wanted: _Wanted, refusal: ApiError | None, version: int
) -> DeletableTopicResult:
    code = _code(refusal)
    if code == Error.TOPIC_DELETION_DISABLED and version < DELETION_ERROR_SINCE:
        code = Error.INVALID_REQUEST
    return DeletableTopicResult(
        name=wanted.name,
        topic_id=wanted.topic_id,
        error_code=code,
        error_message=_message(refusal),
    )


def _code(row: object) -> Error:
    return row.error if isinstance(row, ApiError) else Error.NONE


def _message(row: object) -> str | None:
    return row.message or None if isinstance(row, ApiError) else None
