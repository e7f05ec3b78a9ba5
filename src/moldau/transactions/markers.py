"""The second phase: markers to every partition of a decided transaction.

Pure. The outcome is durable before the first marker leaves, so markers may be sent again at any
time: by a new coordinator, after an error, or after silence. Answers count for the round in which
the marker left; a round ends with silence, so that no marker of an earlier one can still be on its
way when the transaction is completed. In version 1 it would end the next transaction, which has
the same epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.engine.machine import Decision, Reply, Send, Timer, Token, Volatile
from moldau.model.cluster import NO_LEADER
from moldau.model.errors import Error
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.transactions import moves
from moldau.transactions.commands import RetryMarkers, WriteMarkers
from moldau.transactions.facts import (
    Cause,
    MarkersAnswered,
    MarkersRefused,
    MarkersSent,
    Transaction,
    TransactionMoved,
)
from moldau.transactions.settings import TransactionSettings
from moldau.transactions.states import State

LeaderOf = Callable[[TopicPartition], BrokerId | None]
"""The leader of a partition, NO_LEADER while it has none, None if there is no such partition."""

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


class Steps:
    """A decision in the making."""

    __slots__ = (
        "facts",
        "is_introduced",
        "now_ms",
        "replies",
        "round",
        "sends",
        "timers",
        "wall_ms",
    )

    def __init__(
        self, wall_ms: Millis, now_ms: Millis, round: int, *, is_introduced: bool = True
    ) -> None:
        """`round` is the last one that has begun before this decision. `is_introduced`: whoever
        coordinates has been told of all partitions, so that one it does not know was deleted."""
        self.is_introduced = is_introduced
        self.wall_ms = wall_ms
        self.now_ms = now_ms
        self.round = round
        self.facts: list[object] = []
        self.timers: list[Timer] = []
        self.replies: list[Reply] = []
        self.sends: list[Send] = []

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
    """Plans the sending for one coordinator: adds to the steps of a decision, keeps nothing."""

    __slots__ = ("_coordinator_epoch", "_leader_of", "_settings")

    def __init__(
        self, coordinator_epoch: int, settings: TransactionSettings, leader_of: LeaderOf
    ) -> None:
        self._coordinator_epoch = coordinator_epoch
        self._settings = settings
        self._leader_of = leader_of

    def send(
        self,
        transaction: Transaction,
        awaited: Awaited,
        steps: Steps,
        *,
        is_new_round: bool = False,
    ) -> None:
        """Send what is not on its way, wait for leaders where there is none, give up partitions
        that are gone, and complete the transaction if nothing is left to wait for."""
        name = transaction.transactional_id
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        gone, leaderless = set(), set()
        for partition in sorted(awaited.partitions if is_new_round else awaited.unsent):
            leader = self._leader_of(partition)
            if leader is None and steps.is_introduced:
                gone.add(partition)
            elif leader is None or leader == NO_LEADER:
                leaderless.add(partition)
            else:
                by_broker.setdefault(leader, []).append(partition)
        if gone == awaited.partitions:
            self._complete(transaction, steps)
            return
        if gone:
            steps.facts.append(Volatile(MarkersAnswered(name, frozenset(gone))))
        round = steps.begin_round() if is_new_round else awaited.round
        if by_broker or is_new_round:
            led = frozenset(p for partitions in by_broker.values() for p in partitions)
            steps.facts.append(Volatile(MarkersSent(name, led, steps.now_ms, is_new_round)))
        for broker, partitions in by_broker.items():
            message = self._message(transaction, partitions, round)
            steps.sends.append(Send(broker, message))
        if leaderless:
            self.retry_later(name, round, steps, self._settings.markers_retry_ms)

    def answered(
        self,
        transaction: Transaction,
        awaited: Awaited,
        results: Mapping[TopicPartition, Error],
        steps: Steps,
    ) -> None:
        name = transaction.transactional_id
        results = {p: error for p, error in results.items() if p in awaited.partitions}
        for partition, error in sorted(results.items()):
            if error in REFUSED:
                steps.facts.append(Volatile(MarkersRefused(name, partition, error)))
                return
        written = frozenset(p for p, error in results.items() if error in WRITTEN)
        if written == awaited.partitions:
            self._complete(transaction, steps)
            return
        failed = frozenset(results) - written
        if results:
            steps.facts.append(Volatile(MarkersAnswered(name, written, failed)))
        if failed:
            self.retry_later(name, awaited.round, steps, self._settings.markers_retry_ms)

    @staticmethod
    def retry_later(transactional_id: str, round: int, steps: Steps, delay_ms: Millis = 0) -> None:
        command = RetryMarkers(transactional_id, round, steps.wall_ms + delay_ms)
        steps.timers.append(Timer(("markers", transactional_id), steps.now_ms + delay_ms, command))

    @staticmethod
    def _complete(transaction: Transaction, steps: Steps) -> None:
        after = moves.completed(transaction, steps.wall_ms)
        steps.facts.append(TransactionMoved(after, Cause.MARKERS))

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
