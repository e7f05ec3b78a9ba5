"""The questions of administrators and the periodic jobs: time-outs, expiry, silent markers.

Pure. A job's decision becomes one batch of the log, so it stops at a size and says that there is
more to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.engine.machine import Decision, Reply, Token
from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.records.batch import NO_PRODUCER_ID
from moldau.transactions import state_transitions
from moldau.transactions.transaction_commands import (
    AbortTimedOut,
    Expired,
    ListTransactions,
    TimedOut,
)
from moldau.transactions.transaction_facts import Cause, Transaction, TransactionalIdExpired
from moldau.transactions.transaction_states import EXPIRABLE, State

if TYPE_CHECKING:
    from moldau.transactions.transaction_machine import TransactionMachine

NO_TIMEOUT: Millis = 2**31 - 1
"""Such a transaction belongs to an outside coordinator, which alone may end it (KIP-939)."""


def described(machine: TransactionMachine, transactional_id: str) -> Transaction:
    transaction = machine.transactions.get(transactional_id)
    if transaction is None:
        raise ApiError(
            Error.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id}"
        )
    awaited = machine.awaited.get(transactional_id)
    return transaction if awaited is None else transaction._replace(partitions=awaited.partitions)


def listed(machine: TransactionMachine, wanted: ListTransactions, now: Now) -> list[Transaction]:
    return [each for each in machine.transactions.values() if _is_wanted(each, wanted, now.wall_ms)]


def abort_timed_out(
    machine: TransactionMachine, command: AbortTimedOut, token: Token, now: Now
) -> Decision:
    draft = machine.draft(now)
    new_ids = list(command.new_producer_ids)
    room_bytes = machine.settings.decision_bytes_max
    aborted: list[str] = []
    ids_needed = 0
    has_more = False
    for transaction in machine.transactions.values():
        if not _is_timed_out(transaction, now.wall_ms):
            continue
        if room_bytes <= 0:
            has_more = True
            break
        new_producer_id = NO_PRODUCER_ID
        if transaction.is_exhausted:
            if not new_ids:
                ids_needed += 1
                continue
            new_producer_id = new_ids.pop(0)
        machine.abort_by_fence(transaction, Cause.TIMEOUT, new_producer_id, draft)
        aborted.append(transaction.transactional_id)
        room_bytes -= _size_bytes(transaction)
    return draft.decision(token, TimedOut(tuple(aborted), ids_needed, has_more))


def expire(machine: TransactionMachine, token: Token, now: Now) -> Decision:
    oldest_ms = now.wall_ms - machine.settings.id_expiration_ms
    room_bytes = machine.settings.decision_bytes_max
    expired: list[str] = []
    has_more = False
    for transaction in machine.transactions.values():
        if transaction.state not in EXPIRABLE or transaction.update_ms > oldest_ms:
            continue
        if room_bytes <= 0:
            has_more = True
            break
        expired.append(state_transitions.dead(transaction).transactional_id)
        room_bytes -= _size_bytes(transaction)
    facts = tuple(TransactionalIdExpired(name) for name in expired)
    return Decision(facts, replies=(Reply(token, Expired(tuple(expired), has_more)),))


def resend_markers(machine: TransactionMachine, token: Token, now: Now) -> Decision:
    draft = machine.draft(now)
    oldest_ms = now.monotonic_ms - machine.settings.markers_timeout_ms
    number = 0
    for name, awaited in machine.awaited.items():
        is_silent = awaited.sent_ms is None or awaited.sent_ms <= oldest_ms
        if is_silent and not awaited.is_refused:
            number += 1
            machine.markers.send(machine.transactions[name], awaited, draft, is_new_round=True)
    return draft.decision(token, number)


def _is_wanted(transaction: Transaction, wanted: ListTransactions, wall_ms: Millis) -> bool:
    if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
        return False
    if wanted.states is not None and transaction.state not in wanted.states:
        return False
    # Kafka counts from -1 for an id without a transaction, so that those are always older.
    if wanted.older_than_ms >= 0 and wall_ms - transaction.start_ms <= wanted.older_than_ms:
        return False
    return wanted.pattern is None or wanted.pattern.matches(transaction.transactional_id)


def _is_timed_out(transaction: Transaction, wall_ms: Millis) -> bool:
    return (
        transaction.state is State.ONGOING
        and transaction.timeout_ms != NO_TIMEOUT
        and transaction.start_ms + transaction.timeout_ms < wall_ms
    )


def _size_bytes(transaction: Transaction) -> int:
    """At most about what its record takes."""
    topics = {partition.topic for partition in transaction.partitions}
    return (
        128
        + 3 * len(transaction.transactional_id)
        + 4 * len(transaction.partitions)
        + sum(8 + len(topic) for topic in topics)
    )
