"""What group requests are told when the coordinator's own log refuses.

Clients of groups know nothing of that log: its faults are told as faults of the coordinator, which
make a client look for it again or wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.model.errors import ApiError, Error

if TYPE_CHECKING:
    from moldau.handlers.services import Services

TOLD_AS: Final = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.INVALID_FETCH_SIZE: Error.UNKNOWN_SERVER_ERROR,
}
TOO_LARGE: Final = frozenset(
    {Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE, Error.INVALID_FETCH_SIZE}
)


def coordinator_error(refusal: ApiError) -> Error:
    return TOLD_AS.get(refusal.error, refusal.error)


def commit_error(refusal: ApiError) -> Error:
    """Whoever commits is told that its commit was too large: it can send a smaller one."""
    if refusal.error in TOO_LARGE:
        return Error.INVALID_COMMIT_OFFSET_SIZE
    return coordinator_error(refusal)


async def stored(future: asyncio.Future[object], on: Services) -> object:
    """The outcome of a command that waits for nothing but the log, and not for ever."""
    text = "the replicas have not stored it in time"
    return await on.timers.within(on.config.offsets_commit_timeout_ms, future, text)
