"""What an EndTxn means in each state: a decision, a repetition, or a mistake.

Pure. With version 1 the state alone tells: the epoch stays the same, so a repeated request finds
the state it asked for. With version 2 every end raises the epoch (KIP-890), so the epoch tells a
repeated request (one behind) from the next one (equal):

                     abort                    commit
                     repeated    next         repeated    next
    Empty            fenced      epoch bump   fenced      invalid
    CompleteAbort    answered    epoch bump   invalid     invalid
    CompleteCommit   invalid     epoch bump   answered    invalid

A transaction that ended in version 1 kept its epoch, so whoever is one behind is fenced.
"""

from __future__ import annotations

from enum import Enum

from moldau.model.errors import ApiError, Error
from moldau.transactions.transaction_commands import EndTransaction
from moldau.transactions.transaction_facts import EPOCH_LAST, VERSION_2, Transaction
from moldau.transactions.transaction_states import PREPARED, State


class Ending(Enum):
    PREPARE = "decide it now"
    ALREADY = "that was its end already"


def judge(transaction: Transaction, command: EndTransaction) -> Ending:
    """Raises what the producer did wrong."""
    if transaction.state in PREPARED:
        # Asked first, as Kafka does: who asks may be the producer that repeats itself while its
        # epoch, or even its id, changes.
        raise ApiError(
            Error.CONCURRENT_TRANSACTIONS,
            f"the last transaction of {command.transactional_id} is still being completed",
        )
    if command.client_version >= VERSION_2:
        return _judge_version_2(transaction, command)
    return _judge_version_1(transaction, command)


def _judge_version_1(transaction: Transaction, command: EndTransaction) -> Ending:
    if transaction.producer_id != command.producer_id:
        raise unknown_producer(transaction, command.producer_id)
    if transaction.producer_epoch != command.producer_epoch:
        raise fenced_producer(transaction, command.producer_epoch)
    if transaction.state is State.ONGOING:
        return Ending.PREPARE
    if transaction.state is _complete(command.committed):
        return Ending.ALREADY
    raise _invalid(transaction, command)


def _judge_version_2(transaction: Transaction, command: EndTransaction) -> Ending:
    # The answer that told the new producer id was lost, or another producer was given that id.
    rotated = (
        transaction.previous_producer_id == command.producer_id
        and command.producer_epoch == EPOCH_LAST
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != command.producer_id and not rotated:
        raise unknown_producer(transaction, command.producer_id)
    # Had it been ended in version 1, the epoch would be that of a producer that came since.
    is_repeated = (
        transaction.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
        and transaction.client_version >= VERSION_2
        and (rotated or transaction.producer_epoch == command.producer_epoch + 1)
    )
    if not is_repeated and transaction.producer_epoch != command.producer_epoch:
        raise fenced_producer(transaction, command.producer_epoch)
    if is_repeated:
        if transaction.state is _complete(command.committed):
            return Ending.ALREADY
        raise _invalid(transaction, command)
    if transaction.state is State.ONGOING or not command.committed:
        return Ending.PREPARE
    raise _invalid(transaction, command)


def unknown_producer(transaction: Transaction, producer_id: int) -> ApiError:
    return ApiError(
        Error.INVALID_PRODUCER_ID_MAPPING,
        f"{transaction.transactional_id} belongs to producer {transaction.producer_id}, not "
        f"{producer_id}",
    )


def fenced_producer(transaction: Transaction, epoch: int) -> ApiError:
    return ApiError(
        Error.PRODUCER_FENCED,
        f"{transaction.transactional_id} is in epoch {transaction.producer_epoch}, not {epoch}",
    )


def _complete(committed: bool) -> State:
    return State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT


def _invalid(transaction: Transaction, command: EndTransaction) -> ApiError:
    wanted = "COMMIT" if command.committed else "ABORT"
    return ApiError(
        Error.INVALID_TXN_STATE,
        f"{transaction.transactional_id} is in state {transaction.state.label}, which allows no "
        f"{wanted}",
    )
