"""Producers that do at random what transactional producers may do, and remember what came of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.transactions.transaction_commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    ProducerGranted,
    ProducerIdNeeded,
)
from moldau.transactions.transaction_facts import VERSION_1, VERSION_2
from moldau.transactions.transaction_records import TransactionCodec
from moldau.transactions.transaction_settings import TransactionSettings
from tests.support.transaction_world import World

PLACES = [TopicPartition("t", number) for number in range(4)]
IDS = ["tid-a", "tid-b"]
TIMEOUT_MS = 2_000
SETTINGS = TransactionSettings(
    markers_timeout_ms=1_000, markers_retry_ms=50, id_expiration_ms=600_000
)
ONCE_MORE = frozenset({Error.CONCURRENT_TRANSACTIONS, Error.NOT_COORDINATOR})
CODEC = TransactionCodec()


@dataclass
class Attempt:
    """One transaction as its producer saw it."""

    label: str
    appended: list[tuple[TopicPartition, str]] = field(default_factory=list)
    outcome: str = "open"
    """open, committed, aborted or unknown."""


@dataclass
class Write:
    """A batch on its way: registered or verified first, then appended."""

    place: TopicPartition
    sequence: int
    payload: str
    step: str = "add"
    token: int | None = None


class LateWrite(NamedTuple):
    place: TopicPartition
    producer_id: int
    epoch: int
    sequence: int
    payload: str


class Success(NamedTuple):
    """Something that only the producer of the id may do was done, in the order of tokens."""

    token: int
    client: Client
    is_grant: bool


@dataclass(eq=False)
class Client:
    world: World
    rng: random.Random
    name: str
    transactional_id: str
    version: int
    id: int = -1
    epoch: int = -1
    is_dead: bool = False
    token: int | None = None
    command: Any = None
    successes: list[Success] = field(default_factory=list)
    added: set[TopicPartition] = field(default_factory=set)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    write: Write | None = None
    attempt: Attempt | None = None
    attempts: list[Attempt] = field(default_factory=list)
    late_writes: list[LateWrite] = field(default_factory=list)
    late_requests: list[Any] = field(default_factory=list)

    def act(self) -> None:
        if self.is_dead:
            return
        if self.token is not None:
            self._look_for_answer()
        elif self.command is not None:
            self._send(self.command)
        elif self.id < 0:
            self._send(InitProducer(self.transactional_id, TIMEOUT_MS))
        elif self.write is not None:
            self._continue_write()
        elif self.attempt is not None and self.attempt.appended and self.rng.random() < 0.4:
            self._end(self.rng.random() < 0.7)
        elif self.version == VERSION_2 and self.rng.random() < 0.05:
            self._end(False)
        elif self.attempt is None and self.rng.random() < 0.1:
            self._recover()
        else:
            self._begin_write()
        if self.version == VERSION_2 and self.write is not None and self.rng.random() < 0.1:
            self._abort_impatiently()

    def die(self) -> None:
        self.is_dead = True
        if self.attempt is not None and self.attempt.outcome == "open":
            ended = isinstance(self.command, EndTransaction)
            self.attempt.outcome = "unknown" if ended else "aborted"

    def _send(self, command: Any) -> None:
        self.command = command
        self.token = self.world.submit(command)

    def _look_for_answer(self) -> None:
        assert self.token is not None
        if self.token not in self.world.outcomes:
            return
        outcome, token = self.world.outcomes.pop(self.token), self.token
        self.token = None
        self._leave_a_copy()
        if isinstance(outcome, ProducerIdNeeded):
            new_id = next(self.world.producer_ids)
            self.command = replace(self.command, new_producer_id=new_id)
        elif isinstance(outcome, ApiError):
            if outcome.error not in ONCE_MORE:
                self.die()
        elif isinstance(self.command, InitProducer):
            assert isinstance(outcome, ProducerGranted)
            is_new = self.command.expected_producer_id < 0
            self._become(outcome)
            self.command = None
            self.successes.append(Success(token, self, is_grant=is_new))
        else:
            assert isinstance(outcome, ProducerGranted)
            self.successes.append(Success(token, self, is_grant=False))
            self._ended(outcome)

    def _leave_a_copy(self) -> None:
        """The connection broke, the request was sent again on another one, and the first copy is
        still to arrive. (Of an EndTxn of version 1 it could end the next transaction: its epoch
        is the same. That is why there is a version 2.)"""
        is_harmless = isinstance(self.command, InitProducer) or self.version == VERSION_2
        if is_harmless and self.rng.random() < 0.05:
            self.late_requests.append(self.command)

    def _become(self, granted: ProducerGranted) -> None:
        if (self.id, self.epoch) != granted:
            self.sequences.clear()
        self.id, self.epoch = granted

    def _recover(self) -> None:
        """Begin anew after an error, as the same producer (KIP-360)."""
        self._send(InitProducer(self.transactional_id, TIMEOUT_MS, self.id, self.epoch))

    def _end(self, committed: bool) -> None:
        self._send(
            EndTransaction(
                self.transactional_id,
                self.id,
                self.epoch,
                committed,
                self.version,
            )
        )

    def _ended(self, granted: ProducerGranted) -> None:
        if self.attempt is not None:
            self.attempt.outcome = "committed" if self.command.committed else "aborted"
        self.attempt = self.command = None
        self.added.clear()
        if self.version == VERSION_2:
            self._become(granted)

    def _abort_impatiently(self) -> None:
        """The write may still arrive, in an epoch that is over by then."""
        late = self.write
        assert late is not None
        if self.command is None and self.token is None and late.token is None:
            self.write = None
            if late.step == "append":
                self.late_writes.append(
                    LateWrite(late.place, self.id, self.epoch, late.sequence, late.payload)
                )
            self._end(False)

    def _begin_write(self) -> None:
        if self.attempt is None:
            self.attempt = Attempt(f"{self.name}-{len(self.attempts)}")
            self.attempts.append(self.attempt)
        place = self.rng.choice(PLACES)
        number = len(self.attempt.appended)
        sequence = self.sequences.get(place, 0)
        self.write = Write(place, sequence, f"{self.attempt.label}/{number}")

    def _continue_write(self) -> None:
        write = self.write
        assert write is not None
        partition = self.world.partitions[write.place]
        if write.token is not None:
            self._look_for_added(write)
        elif write.step == "append":
            try:
                partition.append(self.id, self.epoch, write.sequence, write.payload)
            except ApiError:
                self.die()
                return
            assert self.attempt is not None
            self.attempt.appended.append((write.place, write.payload))
            self.sequences[write.place] = write.sequence + 1
            self.write = None
        elif write.step == "add" and self.version == VERSION_1 and write.place in self.added:
            write.step = "verify"
        elif partition.is_ongoing(self.id, self.epoch) and (
            write.step == "verify" or self.version == VERSION_2
        ):
            write.step = "append"
        else:
            self._ask_for(write)

    def _ask_for(self, write: Write) -> None:
        write.token = self.world.submit(
            AddPartitions(
                self.transactional_id,
                self.id,
                self.epoch,
                frozenset({write.place}),
                verify_only=write.step == "verify",
                client_version=self.version,
            )
        )

    def _look_for_added(self, write: Write) -> None:
        if write.token not in self.world.outcomes:
            return
        assert write.token is not None
        outcome, token = self.world.outcomes.pop(write.token), write.token
        write.token = None
        if isinstance(outcome, ApiError):
            if outcome.error not in ONCE_MORE:
                self.die()
        elif outcome[write.place] is not Error.NONE:
            self.die()
        elif write.step == "add" and self.version == VERSION_1:
            self.successes.append(Success(token, self, is_grant=False))
            self.added.add(write.place)
            write.step = "verify"
        else:
            self.successes.append(Success(token, self, is_grant=False))
            write.step = "append"
            if self.version == VERSION_1:
                # The broker appends in the same breath: an older client's epoch alone would not
                # keep the record out of the next transaction.
                self._continue_write()
