"""The state of a transactional producer and its rules, as those of Kafka's TransactionManager.

Pure: it is told what the user asks and what brokers answer; whoever talks to the coordinator reads
from here what to say next. MOVES is the whole table: from an abortable error the way out is
`abort_transaction`, from a fatal one only `close`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from moldau.client.shared import client_errors as errors
from moldau.client.shared.client_errors import IllegalStateError, KafkaError
from moldau.model.errors import Error
from moldau.model.names import TopicPartition


class TransactionState(Enum):
    UNINITIALIZED = auto()
    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING_TRANSACTION = auto()
    ABORTING_TRANSACTION = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


_S = TransactionState
MOVES: dict[TransactionState, frozenset[TransactionState]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.FATAL_ERROR}),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.READY, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset(
        {
            _S.COMMITTING_TRANSACTION,
            _S.ABORTING_TRANSACTION,
            _S.ABORTABLE_ERROR,
            _S.FATAL_ERROR,
        }
    ),
    _S.COMMITTING_TRANSACTION: frozenset({_S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING_TRANSACTION: frozenset({_S.READY, _S.INITIALIZING, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING_TRANSACTION, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset({_S.FATAL_ERROR}),
}
"""The one way around it is `attach`, for a producer that joins another one's transaction."""

FENCED_TEXT = (
    "Producer attempted an operation with an old epoch. Either there is a newer producer with the "
    "same transactionalId, or the producer's transaction has been expired by the broker."
)


class Remedy(Enum):
    """What an error of the coordinator asks for."""

    RETRY = auto()
    FIND_COORDINATOR = auto()
    ABORT = auto()
    GIVE_UP = auto()


_FIND = {
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.BROKER_NOT_AVAILABLE,  # it has left the cluster
}
_RETRY = {
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.CONCURRENT_TRANSACTIONS,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.NETWORK_EXCEPTION,
    Error.REQUEST_TIMED_OUT,
}
_ABORT = {
    Error.TRANSACTION_ABORTABLE,
    Error.TOPIC_AUTHORIZATION_FAILED,
    Error.GROUP_AUTHORIZATION_FAILED,
    Error.FENCED_INSTANCE_ID,
    Error.UNKNOWN_MEMBER_ID,
    Error.ILLEGAL_GENERATION,
    Error.STALE_MEMBER_EPOCH,
    Error.UNKNOWN_PRODUCER_ID,
    Error.OPERATION_NOT_ATTEMPTED,
}
_FATAL_FOR_BATCH = {
    Error.CLUSTER_AUTHORIZATION_FAILED,
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Error.PRODUCER_FENCED,
    Error.UNSUPPORTED_VERSION,
    Error.INVALID_PRODUCER_ID_MAPPING,
}
_FENCED = {Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED}
_COMMIT_FAILED = {Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.STALE_MEMBER_EPOCH}


def remedy_for(code: int) -> Remedy:
    if code in _FIND:
        return Remedy.FIND_COORDINATOR
    if code in _RETRY:
        return Remedy.RETRY
    return Remedy.ABORT if code in _ABORT else Remedy.GIVE_UP


def coordinator_error(code: int) -> KafkaError:
    """The exception that a coordinator's refusal means to the user."""
    if code in _FENCED:
        return errors.error_for(Error.PRODUCER_FENCED, FENCED_TEXT)
    if code in _COMMIT_FAILED:
        return errors.CommitFailedError(
            "Transaction offset Commit failed due to consumer group metadata mismatch: "
            + Error(code).sentence
        )
    return errors.error_for(code)


class TransactionMachine:
    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.last_error: BaseException | None = None
        self.partitions: set[TopicPartition] = set()
        """Those the coordinator knows to be in the transaction."""
        self.new_partitions: set[TopicPartition] = set()
        """Those it has to be told of before anything is sent there."""
        self.is_started = False
        """Whether the coordinator knows of a transaction that has to be ended."""
        self.needs_new_epoch = False
        self.is_v2 = False
        """Brokers add partitions themselves and every transaction has its own epoch (KIP-890)."""

    @property
    def has_error(self) -> bool:
        return self.state in (TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR)

    @property
    def is_fatal(self) -> bool:
        return self.state is TransactionState.FATAL_ERROR

    def move(self, target: TransactionState, error: BaseException | None = None) -> None:
        if target not in MOVES[self.state]:
            raise IllegalStateError(
                f"TransactionalId {self.transactional_id}: Invalid transition attempted from "
                f"state {self.state.name} to state {target.name}"
            )
        self.state = target
        self.last_error = error

    def check_send(self) -> None:
        """Whether a record may be sent now; raises if not."""
        if self.state is TransactionState.IN_TRANSACTION:
            return
        self.raise_error()
        if self.state in (TransactionState.UNINITIALIZED, TransactionState.INITIALIZING):
            raise IllegalStateError(
                "Cannot perform a 'send' before completing a call to init_transactions "
                "when transactions are enabled."
            )
        raise IllegalStateError(f"Cannot call send in state {self.state.name}")

    def raise_error(self) -> None:
        """Raise what went wrong before, if something did."""
        if not self.has_error:
            return
        error = self.last_error
        if isinstance(error, KafkaError) and error.code in (
            Error.PRODUCER_FENCED,
            Error.INVALID_PRODUCER_EPOCH,
        ):
            raise errors.error_for(error.code, f"{error}") from error
        raise KafkaError(f"Cannot execute transactional method because of an error: {error}") from (
            error
        )

    def begin_initializing(self) -> None:
        """This and the two below may be repeated after a time-out, to go on waiting."""
        self.raise_error()
        if self.state is not TransactionState.INITIALIZING:
            self.move(TransactionState.INITIALIZING)

    def initialized(self) -> None:
        self.move(TransactionState.READY)
        self._clear()

    def begin(self) -> None:
        self.raise_error()
        self.move(TransactionState.IN_TRANSACTION)

    def attach(self, partitions: Iterable[TopicPartition]) -> None:
        """Take part in a transaction that another producer has begun."""
        assert self.state is TransactionState.UNINITIALIZED
        self.state = TransactionState.IN_TRANSACTION
        self.join(partitions)

    def join(self, partitions: Iterable[TopicPartition]) -> None:
        """Others have written to these partitions in this transaction."""
        known = set(partitions)
        self.partitions |= known
        self.is_started = self.is_started or bool(known)

    def begin_commit(self) -> None:
        self.raise_error()
        if self.state is not TransactionState.COMMITTING_TRANSACTION:
            self.move(TransactionState.COMMITTING_TRANSACTION)

    def begin_abort(self) -> None:
        if self.state is TransactionState.FATAL_ERROR:
            self.raise_error()
        if self.state is not TransactionState.ABORTING_TRANSACTION:
            # What went wrong decides how the transaction has to end.
            self.move(TransactionState.ABORTING_TRANSACTION, self.last_error)
        self.new_partitions.clear()

    def begin_new_epoch(self) -> None:
        """The aborted transaction is over; its producer goes on in a new epoch."""
        self.move(TransactionState.INITIALIZING)

    def ended(self) -> None:
        self.move(TransactionState.READY)
        self._clear()

    def add_partition(self, partition: TopicPartition) -> None:
        """Something is to be sent there within the transaction."""
        if partition in self.partitions or partition in self.new_partitions:
            return
        if self.is_v2:
            self.partitions.add(partition)
            self.is_started = True
        else:
            self.new_partitions.add(partition)

    def partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.new_partitions.discard(partition)
            self.partitions.add(partition)
        self.is_started = True

    def may_send_to(self, partition: TopicPartition) -> bool:
        return not self.is_fatal and partition in self.partitions

    def fail(self, error: BaseException, *, is_fatal: bool) -> None:
        """Something went wrong that the user has to hear of."""
        if is_fatal:
            self.move(TransactionState.FATAL_ERROR, error)
        elif TransactionState.ABORTABLE_ERROR in MOVES[self.state]:
            # While aborting it is too late to matter.
            self.move(TransactionState.ABORTABLE_ERROR, error)

    def batch_failed(self, error: KafkaError) -> None:
        """Records of the transaction are lost, so it cannot be committed any more."""
        is_fatal = error.code in _FATAL_FOR_BATCH
        if not is_fatal and not self.is_v2:
            # Without a new epoch, what the broker may still hold would be mixed with what follows.
            self.needs_new_epoch = True
        self.fail(error, is_fatal=is_fatal)

    def _clear(self) -> None:
        self.partitions.clear()
        self.new_partitions.clear()
        self.is_started = False
        self.needs_new_epoch = False
