"""Asking the transaction coordinator, and telling its refusals as clients know them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.handlers.remote_transactions import submit_partitions
from moldau.model.errors import ApiError, Error
from moldau.transactions.commands import AddPartitions, ProducerIdNeeded

if TYPE_CHECKING:
    from moldau.handlers.services import Services

FENCED_SINCE: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn from which clients know
PRODUCER_FENCED."""

_TOLD_AS: Final = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
}
"""Producers know nothing of the coordinator's own log."""


async def ask(transactional_id: str, command: Any, on: Services) -> Any:
    """The coordinator's answer, when it is durable; a producer id is fetched if one is needed."""
    if not transactional_id:
        raise ApiError(Error.INVALID_REQUEST, "the transactional id is empty")
    outcome = await stored(on.transactions.submit(transactional_id, command), on)
    if isinstance(outcome, ProducerIdNeeded):
        again = command._replace(new_producer_id=await on.producer_ids.next())
        outcome = await stored(on.transactions.submit(transactional_id, again), on)
    return outcome


async def ask_of_partitions(command: AddPartitions, on: Services) -> Any:
    """As `ask`, for what may be coordinated by another broker."""
    if not command.transactional_id:
        raise ApiError(Error.INVALID_REQUEST, "the transactional id is empty")
    return await stored(submit_partitions(command, on), on)


async def ask_patiently(command: AddPartitions, on: Services) -> Any:
    """As `ask_of_partitions`, but wait a little while the last transaction is still being
    completed: that is soon done, and the client would only have to come back."""
    deadline_ms = on.clock.monotonic_ms() + on.config.add_partitions_to_txn_retry_backoff_max_ms
    while True:
        try:
            return await ask_of_partitions(command, on)
        except ApiError as refusal:
            is_passing = refusal.error is Error.CONCURRENT_TRANSACTIONS
            if not is_passing or on.clock.monotonic_ms() >= deadline_ms:
                raise
        pause: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        on.timers.after(on.config.add_partitions_to_txn_retry_backoff_ms, partial(_end, pause))
        await pause


def told(refusal: ApiError, version: int, fenced_since: int = FENCED_SINCE) -> Error:
    """As a client of this version of the request understands it."""
    error = _TOLD_AS.get(refusal.error, refusal.error)
    if error is Error.PRODUCER_FENCED and version < fenced_since:
        return Error.INVALID_PRODUCER_EPOCH
    return error


async def stored(future: asyncio.Future[object], on: Services) -> object:
    """The coordinator answers at once, but its log may wait for replicas: not for ever."""
    if future.done():
        return future.result()
    if isinstance(future, asyncio.Task):
        # Another broker is asked, and the call to it has its own end.
        return await future
    text = "the replicas of the transaction log have not stored it in time"
    return await on.timers.within(on.config.request_timeout_ms, future, text)


def _end(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)
