"""How a transaction looks after each move; the rules of who may move it are elsewhere.

Pure. Every function takes the transaction as it is and returns it as it will be. They follow
KIP-98, KIP-360 (producers that recover) and KIP-890 (an epoch for every transaction).
"""

from __future__ import annotations

from typing import Any

from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis, TopicPartition
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.transactions.transaction_facts import EPOCH_MAX, NO_TIME, VERSION_2, Transaction
from moldau.transactions.transaction_states import MOVES, State


def created(
    transactional_id: str, producer_id: int, timeout_ms: Millis, wall_ms: Millis
) -> Transaction:
    """A new id. It has no epoch yet: the first one comes with the first bump."""
    return Transaction(
        transactional_id, producer_id, NO_PRODUCER_EPOCH, timeout_ms, update_ms=wall_ms
    )


def epoch_bumped(
    before: Transaction, timeout_ms: Millis, expected_epoch: int | None, wall_ms: Millis
) -> Transaction:
    """For a producer that starts, or one that recovers and names the epoch it believes to have.
    Refuses a producer that was replaced meanwhile."""
    epoch, last_epoch = before.producer_epoch + 1, before.producer_epoch
    if expected_epoch is None:
        # Another process: its predecessor must not pass for it by repeating an old request.
        last_epoch = NO_PRODUCER_EPOCH
    elif before.producer_epoch not in (NO_PRODUCER_EPOCH, expected_epoch):
        if expected_epoch != before.last_producer_epoch:
            raise ApiError(
                Error.PRODUCER_FENCED,
                f"producer of {before.transactional_id} expects epoch {expected_epoch}, it is "
                f"{before.producer_epoch}",
            )
        # The answer to its first request was lost; nobody has taken over, or the last epoch would
        # be unknown.
        epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
    assert epoch < EPOCH_MAX, f"{before.transactional_id} has no epochs left"
    return _initialized(
        before, timeout_ms, wall_ms, producer_epoch=epoch, last_producer_epoch=last_epoch
    )


def producer_id_rotated(
    before: Transaction,
    producer_id: int,
    timeout_ms: Millis,
    wall_ms: Millis,
    *,
    keeps_last_epoch: bool,
) -> Transaction:
    """All epochs are used up: the first epoch of another producer id."""
    return _initialized(
        before,
        timeout_ms,
        wall_ms,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=before.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH,
    )


def partitions_added(
    before: Transaction,
    partitions: frozenset[TopicPartition],
    wall_ms: Millis,
    client_version: int,
) -> Transaction:
    is_first = before.state is not State.ONGOING
    return _moved(
        before,
        State.ONGOING,
        partitions=before.partitions | partitions,
        start_ms=wall_ms if is_first else before.start_ms,
        update_ms=wall_ms,
        client_version=client_version,
    )


def fenced(before: Transaction) -> Transaction:
    """The open transaction is taken from its producer. The epoch that keeps it out comes with the
    abort that follows."""
    return _moved(before, State.PREPARE_EPOCH_FENCE)


def prepared(
    before: Transaction,
    *,
    committed: bool,
    client_version: int,
    wall_ms: Millis,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """The outcome is decided. From version 2 on the markers carry a new epoch, so that a late
    record of this transaction cannot slip into the next one."""
    epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
    if client_version >= VERSION_2:
        last_epoch = epoch
        epoch = min(epoch + 1, EPOCH_MAX)
    was_open = before.state in (State.ONGOING, State.PREPARE_EPOCH_FENCE)
    return _moved(
        before,
        State.PREPARE_COMMIT if committed else State.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_producer_id,
        start_ms=before.start_ms if was_open else wall_ms,
        update_ms=wall_ms,
        client_version=client_version,
    )


def completed(before: Transaction, wall_ms: Millis) -> Transaction:
    """All markers are written. A producer whose epochs ended goes on under its next id; the epoch
    above the last one was seen by partitions only."""
    committed = before.state is State.PREPARE_COMMIT
    rotates = before.client_version >= VERSION_2 and before.next_producer_id != NO_PRODUCER_ID
    return _moved(
        before,
        State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT,
        producer_id=before.next_producer_id if rotates else before.producer_id,
        producer_epoch=0 if rotates else before.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        update_ms=wall_ms,
    )


def dead(before: Transaction) -> Transaction:
    return _moved(before, State.DEAD)


def _initialized(
    before: Transaction, timeout_ms: Millis, wall_ms: Millis, **changes: Any
) -> Transaction:
    return _moved(
        before,
        State.EMPTY,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME,
        update_ms=wall_ms,
        **changes,
    )


def _moved(before: Transaction, state: State, **changes: Any) -> Transaction:
    assert state in MOVES[before.state], f"{before.transactional_id}: {before.state} to {state}"
    return before._replace(state=state, previous_producer_id=before.producer_id, **changes)
