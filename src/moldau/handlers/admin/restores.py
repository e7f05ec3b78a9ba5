"""BeginRestore, AppendRestored, EndRestore: topics as they were in a backup."""

from __future__ import annotations

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.storage.restores.restoring import Restores, WantedTopic
from moldau.wire.messages.restores import (
    AppendRestoredRequest,
    AppendRestoredResponse,
    BeginRestoreRequest,
    BeginRestoreResponse,
    EndRestoreRequest,
    EndRestoreResponse,
)


async def begin_restore(
    request: BeginRestoreRequest, ctx: RequestContext, on: Services
) -> BeginRestoreResponse:
    wanted = [
        WantedTopic(
            topic.name,
            topic.topic_id,
            {row.name: row.value for row in topic.configs},
            tuple(topic.log_start_offsets),
        )
        for topic in request.topics
    ]
    try:
        restore_id = await _restored_here(on).begin(wanted)
    except ApiError as refused:
        return BeginRestoreResponse(error_code=refused.error, error_message=refused.message)
    return BeginRestoreResponse(restore_id=restore_id)


async def append_restored(
    request: AppendRestoredRequest, ctx: RequestContext, on: Services
) -> AppendRestoredResponse:
    place = TopicPartition(request.topic, request.partition)
    try:
        offset_end = _restored_here(on).append(request.restore_id, place, request.records or b"")
    except ApiError as refused:
        return AppendRestoredResponse(error_code=refused.error, error_message=refused.message)
    return AppendRestoredResponse(offset_end=offset_end)


async def end_restore(
    request: EndRestoreRequest, ctx: RequestContext, on: Services
) -> EndRestoreResponse:
    last = request.producer_id_last
    try:
        await _restored_here(on).end(request.restore_id, request.is_wanted, last)
    except ApiError as refused:
        return EndRestoreResponse(error_code=refused.error, error_message=refused.message)
    return EndRestoreResponse()


def _restored_here(on: Services) -> Restores:
    if on.restores is None:
        raise ApiError(
            Error.UNSUPPORTED_VERSION,
            "topics are restored as they were on a broker that stands alone, not yet on a cluster "
            "on ZooKeeper",
        )
    return on.restores()
