"""What must be asked before a transactional batch is written, and how the answer is told.

Pure. A record that is not in a transaction the coordinator knows of would never get a marker and
block read_committed readers for ever (KIP-890). Newer clients leave it to the broker to add the
partition; for older ones the broker makes sure that they have added it.
"""

from __future__ import annotations

from enum import Enum

from moldau.model.errors import ApiError, Error

REGISTERS_SINCE = 12
"""The Produce version of clients that leave AddPartitionsToTxn to the broker."""
KNOWS_ABORTABLE_SINCE = 11
"""The Produce version of clients that know TRANSACTION_ABORTABLE."""
OFFSETS_REGISTER_SINCE = 5
"""As `REGISTERS_SINCE`, for TxnOffsetCommit."""
OFFSETS_KNOW_ABORTABLE_SINCE = 4

_UNREACHABLE = frozenset(
    {
        Error.NETWORK_EXCEPTION,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.REQUEST_TIMED_OUT,
    }
)


class BeforeWrite(Enum):
    NOTHING = "write at once"
    VERIFY = "ask whether the partition is in the transaction"
    REGISTER = "add the partition to the transaction"


def before_write(version: int, *, is_ongoing: bool, is_verification_enabled: bool) -> BeforeWrite:
    """For a Produce of this version. `is_ongoing`: the partition holds an open transaction of this
    producer in this epoch."""
    if is_ongoing:
        return BeforeWrite.NOTHING
    if version >= REGISTERS_SINCE:
        return BeforeWrite.REGISTER
    return BeforeWrite.VERIFY if is_verification_enabled else BeforeWrite.NOTHING


def produce_refusal(error: Error, version: int) -> ApiError:
    """The coordinator's refusal as a producer understands it. What passes by itself is told as
    NOT_ENOUGH_REPLICAS, which makes every client send again without looking for a new leader."""
    if error is Error.PRODUCER_FENCED:
        return ApiError(Error.INVALID_PRODUCER_EPOCH, error.sentence)
    if error is Error.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE_SINCE:
        return ApiError(Error.INVALID_TXN_STATE, "the partition is not in the transaction")
    is_passing = error in _UNREACHABLE or (
        error is Error.CONCURRENT_TRANSACTIONS and version < REGISTERS_SINCE
    )
    if is_passing:
        return ApiError(
            Error.NOT_ENOUGH_REPLICAS,
            f"the partition could not be verified to be in the transaction: {error.name}",
        )
    return ApiError(error, error.sentence)
