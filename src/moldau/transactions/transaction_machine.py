"""The coordinator of the transactional ids of one partition of `__transaction_state`.

Pure. Requests move a transaction (`state_transitions.py`), the end of one is judged
(`end_transaction.py`) and made known to all its partitions (`marker_phase.py`). What Kafka keeps
as a pending move needs no state here: the engine applies a decision at once and answers when it is
committed, so a transaction is undecided for others only while its markers are on their way.
"""

from __future__ import annotations

from moldau.engine.machine import NOTHING, Decision, Token, Volatile
from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis, TopicPartition
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.transactions import state_transitions, transaction_expiry
from moldau.transactions.end_transaction import Ending, fenced_producer, judge, unknown_producer
from moldau.transactions.marker_phase import Awaited, Markers, TransactionDraft
from moldau.transactions.transaction_commands import (
    AbortTimedOut,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    ExpireTransactionalIds,
    InitProducer,
    ListTransactions,
    Loaded,
    MarkersWritten,
    ProducerGranted,
    ProducerIdNeeded,
    ResendMarkers,
    RetryMarkers,
    TopicsChanged,
)
from moldau.transactions.transaction_facts import (
    EPOCH_LAST,
    VERSION_2,
    Cause,
    MarkersAnswered,
    MarkersRefused,
    MarkersSent,
    RoundsBegun,
    Topics,
    TopicsSeen,
    Transaction,
    TransactionalIdExpired,
    TransactionMoved,
)
from moldau.transactions.transaction_settings import TransactionSettings
from moldau.transactions.transaction_states import PREPARED, State

ROUNDS_PER_MS = 1_000
"""More than a coordinator can begin: its rounds stay behind those of the next one."""


class TransactionMachine:
    def __init__(self, coordinator_epoch: int, settings: TransactionSettings) -> None:
        """`coordinator_epoch` is the leader epoch of the partition: markers carry it, and so a
        coordinator that was replaced is found out."""
        self.kept_bytes = 0
        """About what all ids here take in memory."""
        self.settings = settings
        self.coordinator_epoch = coordinator_epoch
        self.markers = Markers(coordinator_epoch, settings)
        self.topics: Topics = {}
        """Of the cluster, as it was told last."""
        self.transactions: dict[str, Transaction] = {}
        self.awaited: dict[str, Awaited] = {}
        """Of the transactions that are decided and not complete, and of those alone."""
        self.rounds = 0
        self.loaded_ms: Millis | None = None
        """By the monotonic clock."""

    def decide(self, command: object, token: Token, now: Now) -> Decision:
        try:
            return self._decide(command, token, now)
        except ApiError as refusal:
            return Decision.reply(token, refusal)

    def apply(self, fact: object) -> None:
        match fact:
            case TransactionMoved(after):
                name = after.transactional_id
                self._forget_size(name)
                self.kept_bytes += after.kept_bytes
                self.transactions[name] = after
                self.awaited.pop(name, None)
                if after.state in PREPARED:
                    self.rounds += 1
                    self.awaited[name] = Awaited(self.rounds, after.partitions, after.partitions)
            case TransactionalIdExpired(name):
                self._forget_size(name)
                self.transactions.pop(name, None)
                self.awaited.pop(name, None)
            case MarkersSent(name):
                if fact.is_new_round:
                    self.rounds += 1
                awaited = self.awaited[name]
                round = self.rounds if fact.is_new_round else awaited.round
                self.awaited[name] = awaited.sent(fact, round)
            case TopicsSeen(topics):
                self.topics = topics
            case RoundsBegun(round, at_ms):
                self.rounds, self.loaded_ms = round, at_ms
                for name, awaited in self.awaited.items():
                    self.rounds += 1
                    self.awaited[name] = awaited._replace(round=self.rounds)
            case MarkersAnswered(name):
                self.awaited[name] = self.awaited[name].answered(fact)
            case MarkersRefused(name):
                self.awaited[name] = self.awaited[name]._replace(is_refused=True)
            case _:
                raise AssertionError(f"unknown fact {fact!r}")

    def _forget_size(self, transactional_id: str) -> None:
        before = self.transactions.get(transactional_id)
        self.kept_bytes -= 0 if before is None else before.kept_bytes

    def _check_room(self, before: Transaction | None, after: Transaction, now: Now) -> None:
        grows_bytes = after.kept_bytes - (0 if before is None else before.kept_bytes)
        if grows_bytes > 0 and grows_bytes > now.room_bytes:
            raise ApiError(
                Error.COORDINATOR_NOT_AVAILABLE,
                "the transactional ids here take transaction.state.max.bytes",
            )

    def _decide(self, command: object, token: Token, now: Now) -> Decision:
        match command:
            case AddPartitions():
                return self._add_partitions(command, token, now)
            case EndTransaction():
                return self._end(command, token, now)
            case MarkersWritten():
                return self._markers_written(command, token, now)
            case InitProducer():
                return self._init_producer(command, token, now)
            case RetryMarkers():
                return self._retry_markers(command, token, now)
            case DescribeTransaction(name):
                return Decision.reply(token, transaction_expiry.described(self, name))
            case ListTransactions():
                return Decision.reply(token, transaction_expiry.listed(self, command, now))
            case AbortTimedOut():
                return transaction_expiry.abort_timed_out(self, command, token, now)
            case ExpireTransactionalIds():
                return transaction_expiry.expire(self, token, now)
            case ResendMarkers():
                return transaction_expiry.resend_markers(self, token, now)
            case Loaded(topics):
                return self._loaded(topics, token, now)
            case TopicsChanged(topics):
                return Decision((Volatile(TopicsSeen(topics), is_observed=False),))
            case _:
                raise AssertionError(f"unknown command {command!r}")

    # InitProducerId

    def _init_producer(self, command: InitProducer, token: Token, now: Now) -> Decision:
        if not 0 < command.timeout_ms <= self.settings.timeout_max_ms:
            raise ApiError(
                Error.INVALID_TRANSACTION_TIMEOUT,
                f"transaction timeout of {command.timeout_ms} ms is not within "
                f"1..{self.settings.timeout_max_ms}",
            )
        before = self.transactions.get(command.transactional_id)
        if before is not None:
            self._check_settled(before)
            _check_expected(before, command)
            if before.state is State.ONGOING:
                return self._take_over(before, command, token, now)
        after = _initialized(before, command, now.wall_ms)
        if after is None:
            return Decision.reply(token, ProducerIdNeeded())
        self._check_room(before, after, now)
        draft = self.draft(now)
        draft.facts.append(TransactionMoved(after))
        return draft.decision(token, ProducerGranted(after.producer_id, after.producer_epoch))

    def _take_over(
        self, before: Transaction, command: InitProducer, token: Token, now: Now
    ) -> Decision:
        """The open transaction is aborted first; the new producer has to ask again, and gets the
        epoch after the one that fenced its predecessor."""
        if before.is_exhausted and command.new_producer_id == NO_PRODUCER_ID:
            return Decision.reply(token, ProducerIdNeeded())
        draft = self.draft(now)
        self.abort_by_fence(before, Cause.NEW_PRODUCER, command.new_producer_id, draft)
        return draft.decision(token, _still_completing(before))

    # AddPartitionsToTxn, AddOffsetsToTxn, and Produce for the newer clients

    def _add_partitions(self, command: AddPartitions, token: Token, now: Now) -> Decision:
        before = self._known(command.transactional_id)
        if not command.verify_only:
            self._check_settled(before)
        if before.producer_id != command.producer_id:
            raise unknown_producer(before, command.producer_id)
        if before.producer_epoch != command.producer_epoch:
            raise fenced_producer(before, command.producer_epoch)
        self._check_settled(before)
        if command.verify_only:
            return Decision.reply(token, _verified(before, command))
        added = dict.fromkeys(command.partitions, Error.NONE)
        if before.state is State.ONGOING and command.partitions <= before.partitions:
            return Decision.reply(token, added)
        after = state_transitions.partitions_added(
            before, command.partitions, now.wall_ms, command.client_version
        )
        self._check_room(before, after, now)
        draft = self.draft(now)
        draft.facts.append(TransactionMoved(after))
        return draft.decision(token, added)

    # EndTxn, and the end that the coordinator decides

    def _end(self, command: EndTransaction, token: Token, now: Now) -> Decision:
        before = self._known(command.transactional_id)
        is_version_2 = command.client_version >= VERSION_2
        if judge(before, command) is Ending.ALREADY:
            told = ProducerGranted(before.producer_id, before.producer_epoch)
            return Decision.reply(token, told if is_version_2 else ProducerGranted())
        next_producer_id = NO_PRODUCER_ID
        if is_version_2 and before.is_exhausted:
            next_producer_id = command.new_producer_id
            if next_producer_id == NO_PRODUCER_ID:
                return Decision.reply(token, ProducerIdNeeded())
        after = state_transitions.prepared(
            before,
            committed=command.committed,
            client_version=command.client_version,
            wall_ms=now.wall_ms,
            next_producer_id=next_producer_id,
        )
        draft = self.draft(now)
        self._prepare(after, Cause.PRODUCER, draft)
        if not is_version_2:
            return draft.decision(token, ProducerGranted())
        # The producer goes on as it will be when the markers are written.
        then = state_transitions.completed(after, now.wall_ms)
        return draft.decision(token, ProducerGranted(then.producer_id, then.producer_epoch))

    def abort_by_fence(
        self, before: Transaction, cause: Cause, new_producer_id: int, draft: TransactionDraft
    ) -> None:
        """The coordinator always raises the epoch, whatever the client speaks (KIP-890)."""
        after = state_transitions.prepared(
            state_transitions.fenced(before),
            committed=False,
            client_version=VERSION_2,
            wall_ms=draft.now.wall_ms,
            next_producer_id=new_producer_id if before.is_exhausted else NO_PRODUCER_ID,
        )
        self._prepare(after, cause, draft)

    def _prepare(self, after: Transaction, cause: Cause, draft: TransactionDraft) -> None:
        draft.facts.append(TransactionMoved(after, cause))
        awaited = Awaited(draft.begin_round(), after.partitions, after.partitions)
        self.markers.send(after, awaited, draft)

    # Markers

    def _loaded(self, topics: Topics, token: Token, now: Now) -> Decision:
        """Each transaction gets a decision of its own, so that what one of them may have to write
        holds up no other."""
        draft = TransactionDraft(now, now.monotonic_ms * ROUNDS_PER_MS, topics)
        draft.facts.append(Volatile(TopicsSeen(topics), is_observed=False))
        draft.facts.append(Volatile(RoundsBegun(draft.round, now.monotonic_ms)))
        for name in self.awaited:
            self.markers.retry_later(name, draft.begin_round(), draft)
        return draft.decision(token, len(self.awaited))

    def _markers_written(self, command: MarkersWritten, token: Token, now: Now) -> Decision:
        awaited = self._awaited_in(command.transactional_id, command.round)
        if awaited is None or command.coordinator_epoch != self.coordinator_epoch:
            return Decision.reply(token, None)
        draft = self.draft(now)
        transaction = self.transactions[command.transactional_id]
        self.markers.answered(transaction, awaited, command.results, draft)
        return draft.decision(token, None)

    def _retry_markers(self, command: RetryMarkers, token: Token, now: Now) -> Decision:
        awaited = self._awaited_in(command.transactional_id, command.round)
        if awaited is None:
            return NOTHING
        draft = self.draft(now)
        self.markers.send(self.transactions[command.transactional_id], awaited, draft)
        return draft.decision(token, None)

    def _awaited_in(self, transactional_id: str, round: int) -> Awaited | None:
        awaited = self.awaited.get(transactional_id)
        if awaited is None or awaited.round != round or awaited.is_refused:
            return None
        return awaited

    # What several requests share

    def draft(self, now: Now) -> TransactionDraft:
        since_ms = self.loaded_ms
        is_introduced = (
            since_ms is None or now.monotonic_ms - since_ms >= self.settings.introduced_ms
        )
        return TransactionDraft(now, self.rounds, self.topics, is_introduced=is_introduced)

    def _known(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise ApiError(
                Error.INVALID_PRODUCER_ID_MAPPING,
                f"transactional id {transactional_id} has no producer id",
            )
        return transaction

    def _check_settled(self, transaction: Transaction) -> None:
        if transaction.state in PREPARED:
            raise _still_completing(transaction)


def _initialized(
    before: Transaction | None, command: InitProducer, wall_ms: Millis
) -> Transaction | None:
    """None if a new producer id is needed for it."""
    has_expected = command.expected_producer_id != NO_PRODUCER_ID
    expected_epoch = command.expected_epoch if has_expected else None
    if before is None:
        if command.new_producer_id == NO_PRODUCER_ID:
            return None
        before = state_transitions.created(
            command.transactional_id, command.new_producer_id, command.timeout_ms, wall_ms
        )
    elif before.is_exhausted and expected_epoch in (None, before.producer_epoch):
        if command.new_producer_id == NO_PRODUCER_ID:
            return None
        return state_transitions.producer_id_rotated(
            before,
            command.new_producer_id,
            command.timeout_ms,
            wall_ms,
            keeps_last_epoch=has_expected,
        )
    return state_transitions.epoch_bumped(before, command.timeout_ms, expected_epoch, wall_ms)


def _check_expected(before: Transaction, command: InitProducer) -> None:
    """A producer that recovers must be the one we know, or the one whose epochs have just ended
    and that has not heard of its new id. Whoever opened a transaction has heard of its epoch: one
    in another epoch has been replaced, and must not abort what its successor is at. (Kafka lets it
    do so, and tells it afterwards.)"""
    expected = command.expected_producer_id
    is_open = before.state is State.ONGOING
    if expected == before.producer_id and is_open:
        if command.expected_epoch != before.producer_epoch:
            raise fenced_producer(before, command.expected_epoch)
        return
    is_renamed = expected == before.previous_producer_id and command.expected_epoch >= EPOCH_LAST
    is_known = expected in (NO_PRODUCER_ID, before.producer_id) or (
        not is_open and (is_renamed or before.producer_epoch == NO_PRODUCER_EPOCH)
    )
    if not is_known:
        raise ApiError(
            Error.PRODUCER_FENCED,
            f"{before.transactional_id} belongs to producer {before.producer_id}, not {expected}",
        )


def _verified(transaction: Transaction, command: AddPartitions) -> dict[TopicPartition, Error]:
    return {
        partition: Error.NONE
        if partition in transaction.partitions
        else Error.TRANSACTION_ABORTABLE
        for partition in command.partitions
    }


def _still_completing(transaction: Transaction) -> ApiError:
    return ApiError(
        Error.CONCURRENT_TRANSACTIONS,
        f"the last transaction of {transaction.transactional_id} is still being completed",
    )
