"""The second phase: markers to every partition of a decided transaction.

Pure. The outcome is durable before the first marker leaves, so markers may be sent again at any
time: by a new coordinator, after an error, or after silence. Answers count for the round in which
the marker left; a round ends with silence, so that no marker of an earlier one can still be on its
way when the transaction is completed. In version 1 it would end the next transaction, which has
the same epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.engine.machine import Decision, Reply, Send, Timer, Token, Volatile
from moldau.model.clock import Now
from moldau.model.cluster import NO_LEADER
from moldau.model.errors import Error
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.transactions import state_transitions
from moldau.transactions.transaction_commands import RetryMarkers, WriteMarkers
from moldau.transactions.transaction_facts import (
    Cause,
    MarkersAnswered,
    MarkersRefused,
    MarkersSent,
    Topics,
    Transaction,
    TransactionMoved,
)
from moldau.transactions.transaction_settings import TransactionSettings
from moldau.transactions.transaction_states import State

WRITTEN = frozenset(
    {
        Error.NONE,
        # An old log cannot hold markers, and so cannot hold transactions either.
        Error.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        Error.UNSUPPORTED_VERSION,
    }
)
REFUSED = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.TRANSACTION_COORDINATOR_FENCED})
"""Somebody newer was there. Whatever else goes wrong is tried again: the outcome is decided."""


class Awaited(NamedTuple):
    """The markers of one transaction."""

    round: int
    partitions: frozenset[TopicPartition]
    """Not yet confirmed."""
    unsent: frozenset[TopicPartition]
    """Those of them that are not on their way either."""
    sent_ms: Millis | None = None
    """When the last ones left, by the monotonic clock."""
    is_refused: bool = False

    def sent(self, fact: MarkersSent, round: int) -> Awaited:
        unsent = self.partitions if fact.is_new_round else self.unsent
        return self._replace(round=round, unsent=unsent - fact.partitions, sent_ms=fact.at_ms)

    def answered(self, fact: MarkersAnswered) -> Awaited:
        partitions = self.partitions - fact.written
        return self._replace(partitions=partitions, unsent=(self.unsent | fact.failed) & partitions)


class TransactionDraft:
    """A decision in the making."""

    __slots__ = (
        "_topics",
        "facts",
        "is_introduced",
        "now",
        "replies",
        "round",
        "sends",
        "timers",
    )

    def __init__(self, now: Now, round: int, topics: Topics, *, is_introduced: bool = True) -> None:
        """`round` is the last one that has begun before this decision. `is_introduced`: whoever
        coordinates has been told of all partitions, so that one it does not know was deleted."""
        self.is_introduced = is_introduced
        self.now = now
        self.round = round
        self._topics = topics
        self.facts: list[object] = []
        self.timers: list[Timer] = []
        self.replies: list[Reply] = []
        self.sends: list[Send] = []

    def leader_of(self, place: TopicPartition) -> BrokerId | None:
        """NO_LEADER while it has none, None if there is no such partition."""
        topic = self._topics.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            return None
        return topic.partitions[place.partition].leader

    def begin_round(self) -> int:
        """To be called for every fact that begins one when it is applied."""
        self.round += 1
        return self.round

    def decision(self, token: Token, outcome: object) -> Decision:
        self.replies.append(Reply(token, outcome))
        return Decision(
            tuple(self.facts), tuple(self.timers), tuple(self.replies), tuple(self.sends)
        )


class Markers:
    """Plans the sending for one coordinator: adds to the draft of a decision, keeps nothing."""

    __slots__ = ("_coordinator_epoch", "_settings")

    def __init__(self, coordinator_epoch: int, settings: TransactionSettings) -> None:
        self._coordinator_epoch = coordinator_epoch
        self._settings = settings

    def send(
        self,
        transaction: Transaction,
        awaited: Awaited,
        draft: TransactionDraft,
        *,
        is_new_round: bool = False,
    ) -> None:
        """Send what is not on its way, wait for leaders where there is none, give up partitions
        that are gone, and complete the transaction if nothing is left to wait for."""
        name = transaction.transactional_id
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        gone, leaderless = set(), set()
        for partition in sorted(awaited.partitions if is_new_round else awaited.unsent):
            leader = draft.leader_of(partition)
            if leader is None and draft.is_introduced:
                gone.add(partition)
            elif leader is None or leader == NO_LEADER:
                leaderless.add(partition)
            else:
                by_broker.setdefault(leader, []).append(partition)
        if gone == awaited.partitions:
            self._complete(transaction, draft)
            return
        if gone:
            draft.facts.append(Volatile(MarkersAnswered(name, frozenset(gone))))
        round = draft.begin_round() if is_new_round else awaited.round
        if by_broker or is_new_round:
            led = frozenset(p for partitions in by_broker.values() for p in partitions)
            draft.facts.append(
                Volatile(MarkersSent(name, led, draft.now.monotonic_ms, is_new_round))
            )
        for broker, partitions in by_broker.items():
            message = self._message(transaction, partitions, round)
            draft.sends.append(Send(broker, message))
        if leaderless:
            self.retry_later(name, round, draft, self._settings.markers_retry_ms)

    def answered(
        self,
        transaction: Transaction,
        awaited: Awaited,
        results: Mapping[TopicPartition, Error],
        draft: TransactionDraft,
    ) -> None:
        name = transaction.transactional_id
        results = {p: error for p, error in results.items() if p in awaited.partitions}
        for partition, error in sorted(results.items()):
            if error in REFUSED:
                draft.facts.append(Volatile(MarkersRefused(name, partition, error)))
                return
        written = frozenset(p for p, error in results.items() if error in WRITTEN)
        if written == awaited.partitions:
            self._complete(transaction, draft)
            return
        failed = frozenset(results) - written
        if results:
            draft.facts.append(Volatile(MarkersAnswered(name, written, failed)))
        if failed:
            self.retry_later(name, awaited.round, draft, self._settings.markers_retry_ms)

    @staticmethod
    def retry_later(
        transactional_id: str, round: int, draft: TransactionDraft, delay_ms: Millis = 0
    ) -> None:
        command = RetryMarkers(transactional_id, round)
        draft.timers.append(
            Timer(("markers", transactional_id), draft.now.monotonic_ms + delay_ms, command)
        )

    @staticmethod
    def _complete(transaction: Transaction, draft: TransactionDraft) -> None:
        after = state_transitions.completed(transaction, draft.now.wall_ms)
        draft.facts.append(TransactionMoved(after, Cause.MARKERS))

    def _message(
        self, transaction: Transaction, partitions: list[TopicPartition], round: int
    ) -> WriteMarkers:
        return WriteMarkers(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.state is State.PREPARE_COMMIT,
            self._coordinator_epoch,
            transaction.client_version,
            tuple(partitions),
            round,
        )
