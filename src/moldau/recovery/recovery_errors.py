"""What the library cannot mend by itself, and which faults are over after a new beginning."""

from __future__ import annotations

from moldau.client.shared.client_errors import (
    CommitFailedError,
    KafkaError,
    TransactionAbortedError,
)
from moldau.model.errors import Error


class RecoveryError(Exception):
    """The state of a partition cannot be rebuilt; the message says what is missing."""


_OVERTAKEN = {
    Error.PRODUCER_FENCED,
    Error.INVALID_PRODUCER_EPOCH,
    Error.INVALID_PRODUCER_ID_MAPPING,
    Error.UNKNOWN_PRODUCER_ID,
    Error.INVALID_TXN_STATE,
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Error.TRANSACTION_ABORTABLE,
    Error.ILLEGAL_GENERATION,
    Error.UNKNOWN_MEMBER_ID,
    Error.STALE_MEMBER_EPOCH,
    Error.REBALANCE_IN_PROGRESS,
}
"""A rival took over, the broker gave the transaction up, or the group moved on."""


def is_passing(error: BaseException | None) -> bool:
    """Whether to fence and restore once more, rather than to tell the user. A producer wraps what
    went wrong in the error of the call that came after it."""
    while error is not None:
        if isinstance(error, CommitFailedError | TransactionAbortedError):
            return True
        if isinstance(error, KafkaError) and (error.retriable or error.code in _OVERTAKEN):
            return True
        error = error.__cause__
    return False
