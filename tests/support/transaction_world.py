"""A small world for the transaction coordinator: its log as bytes, partitions, and a network.

Decisions go through the codec into the log and are released when the log is committed, as the
engine does it. Partitions check producers by the rules of the real log. A world crashes, loses and
repeats messages when it is told to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

from moldau.engine.machine import NO_TOKEN, Decision, Reply, Send, Volatile
from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records.batch import read_header
from moldau.records.batch_codec import ControlType, EndMarker, decode_batch
from moldau.storage.log_state.producer_state import ProducerStates
from moldau.transactions.transaction_commands import (
    Loaded,
    MarkersWritten,
    ProducerIdNeeded,
    TopicsChanged,
    WriteMarkers,
)
from moldau.transactions.transaction_facts import TransactionMoved
from moldau.transactions.transaction_machine import TransactionMachine
from moldau.transactions.transaction_records import TransactionCodec
from moldau.transactions.transaction_settings import TransactionSettings
from moldau.transactions.transaction_states import PREPARED
from tests.support.transactions import topics_of

WALL_START = 1_600_000_000_000


class Row(NamedTuple):
    """A record or a marker in a partition."""

    producer_id: int
    producer_epoch: int
    payload: str | None = None
    marker: ControlType | None = None
    coordinator_epoch: int = -1
    decided: int = -1
    """The place of the decision in the coordinator's log, for a marker."""

    def __str__(self) -> str:
        who = f"producerId: {self.producer_id} producerEpoch: {self.producer_epoch}"
        if self.marker is None:
            return f"{who} payload: {self.payload}"
        return f"{who} endTxnMarker: {self.marker.name} coordinatorEpoch: {self.coordinator_epoch}"


class Partition:
    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self.rows: list[Row] = []
        self.producers = ProducerStates(str(name))

    def append(self, producer_id: int, epoch: int, sequence: int, payload: str) -> None:
        offset = len(self.rows)
        if self.producers.duplicate_of(producer_id, epoch, sequence, sequence):
            return
        self.producers.check_data(producer_id, epoch, sequence, True, offset)
        self.producers.record_data(producer_id, epoch, sequence, offset, offset, 0, True)
        self.rows.append(Row(producer_id, epoch, payload))

    def is_ongoing(self, producer_id: int, epoch: int) -> bool:
        entry = self.producers.entry(producer_id)
        return entry is not None and entry.epoch == epoch and entry.txn_first_offset >= 0

    def mark(self, message: WriteMarkers, decided: int) -> Error:
        kind = ControlType.COMMIT if message.committed else ControlType.ABORT
        marker = EndMarker(kind, message.coordinator_epoch)
        producer_id, epoch, offset = message.producer_id, message.producer_epoch, len(self.rows)
        try:
            self.producers.check_marker(
                producer_id, epoch, marker, offset, message.transaction_version
            )
        except ApiError as refusal:
            return refusal.error
        self.producers.record_marker(producer_id, epoch, marker, offset, 0)
        self.rows.append(Row(producer_id, epoch, None, kind, message.coordinator_epoch, decided))
        return Error.NONE

    def visible(self) -> list[str]:
        """What a read_committed consumer is given."""
        open_rows: dict[int, list[str]] = {}
        seen: list[str] = []
        for row in self.rows:
            if row.marker is None:
                assert row.payload is not None
                open_rows.setdefault(row.producer_id, []).append(row.payload)
            else:
                ended = open_rows.pop(row.producer_id, [])
                seen += ended if row.marker is ControlType.COMMIT else []
        return seen


class InFlight(NamedTuple):
    broker: int
    message: WriteMarkers
    decided: int


class Held(NamedTuple):
    position: int
    replies: tuple[Reply, ...]
    sends: tuple[InFlight, ...]


@dataclass
class World:
    """`commits_at_once` and `delivers_at_once` make it a simple one, where nothing goes wrong."""

    partitions: dict[TopicPartition, Partition]
    leaders: dict[TopicPartition, int]
    settings: TransactionSettings = field(default_factory=TransactionSettings)
    commits_at_once: bool = True
    delivers_at_once: bool = True
    now_ms: int = 0
    coordinator_epoch: int = 0
    log: list[bytes] = field(default_factory=list)
    decided: list[TransactionMoved] = field(default_factory=list)
    """Every decision on an outcome that is in the log, in order."""
    committed: int = 0
    held: deque[Held] = field(default_factory=deque)
    outcomes: dict[int, Any] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    timers: dict[Any, tuple[int, object]] = field(default_factory=dict)
    network: dict[int, deque[InFlight]] = field(default_factory=dict)
    answers: deque[MarkersWritten] = field(default_factory=deque)
    tokens: count[int] = field(default_factory=lambda: count(1))
    producer_ids: count[int] = field(default_factory=count)
    machine: TransactionMachine = field(init=False)

    def __post_init__(self) -> None:
        self.load()

    @classmethod
    def of(cls, names: Iterable[TopicPartition], **options: Any) -> World:
        names = list(names)
        return cls(
            {name: Partition(name) for name in names},
            {name: 1 + index % 2 for index, name in enumerate(names)},
            **options,
        )

    @property
    def wall_ms(self) -> int:
        return WALL_START + self.now_ms

    # The coordinator

    def submit(self, command: object) -> int:
        """The token; its outcome comes when the log is committed so far."""
        token = next(self.tokens)
        self.waiting.add(token)
        self.run(command, token)
        return token

    def ask(self, command: Any) -> Any:
        """Submit, and again with a new producer id if one is needed."""
        outcome = self.outcomes.pop(self.submit(command))
        if isinstance(outcome, ProducerIdNeeded):
            return self.ask(replace(command, new_producer_id=next(self.producer_ids)))
        return outcome

    def run(self, command: object, token: int) -> Decision:
        decision = self.machine.decide(command, token, Now(self.wall_ms, self.now_ms))
        durable = [fact for fact in decision.facts if not isinstance(fact, Volatile)]
        if durable:
            self.log += TransactionCodec().encode(durable, self.wall_ms)
        for fact in decision.facts:
            self.machine.apply(fact.fact if isinstance(fact, Volatile) else fact)
        self.decided += decisions(durable)
        for timer in decision.timers:
            self.timers.pop(timer.key, None)
            if timer.at is not None:
                self.timers[timer.key] = timer.at, timer.command
        sends = tuple(self.in_flight(send) for send in decision.sends)
        self.held.append(Held(len(self.log), decision.replies, sends))
        if self.commits_at_once:
            self.commit(len(self.log))
        return decision

    def lead(self, place: TopicPartition, leader: int) -> None:
        """The partition has another leader, and the coordinator hears of it."""
        self.leaders[place] = leader
        self.run(TopicsChanged(topics_of(self.leaders)), NO_TOKEN)

    def commit(self, upto: int) -> None:
        self.committed = max(self.committed, upto)
        while self.held and self.held[0].position <= self.committed:
            _, replies, sends = self.held.popleft()
            for token, outcome in replies:
                self.answer(token, outcome)
            for send in sends:
                self.network.setdefault(send.broker, deque()).append(send)
        if self.delivers_at_once:
            self.deliver_all()

    def in_flight(self, send: Send) -> InFlight:
        """Of which outcome it tells is known when it is decided: later there may be another."""
        broker, message = send
        assert isinstance(broker, int)
        assert isinstance(message, WriteMarkers)
        decided = max(
            index
            for index, fact in enumerate(self.decided)
            if fact.after.transactional_id == message.transactional_id
        )
        return InFlight(broker, message, decided)

    def answer(self, token: int, outcome: object) -> None:
        if token != NO_TOKEN:
            # Raises if it was answered before.
            self.waiting.remove(token)
            self.outcomes[token] = outcome

    def load(self) -> None:
        """A coordinator from what is in the log."""
        self.machine = TransactionMachine(self.coordinator_epoch, self.settings)
        codec = TransactionCodec()
        self.decided = []
        for batch in self.log:
            facts = list(codec.decode(read_header(batch), decode_batch(batch)))
            for fact in facts:
                self.machine.apply(fact)
            self.decided += decisions(facts)
        self.run(Loaded(topics_of(self.leaders)), NO_TOKEN)

    def crash(self, kept: int, *, is_same_process: bool = False) -> None:
        """Of what is not committed the first `kept` batches survive. The same process loads a
        partition anew when its log has failed, and then leads it in the same epoch."""
        assert self.committed <= kept <= len(self.log)
        del self.log[kept:]
        self.committed = kept
        self.held.clear()
        self.timers.clear()
        for token in list(self.waiting):
            self.answer(token, ApiError(Error.NOT_COORDINATOR))
        if is_same_process:
            self.now_ms += 1
        else:
            self.coordinator_epoch += 1
        self.load()

    def fire_due(self) -> None:
        for key, (at, command) in list(self.timers.items()):
            if at <= self.now_ms and self.timers.get(key) == (at, command):
                del self.timers[key]
                self.run(command, NO_TOKEN)

    # The network

    def deliver(
        self, broker: int, fault: Callable[[], Error] = lambda: Error.NONE
    ) -> MarkersWritten:
        """The broker's next message is carried out; its answer is not delivered yet."""
        _, message, decided = self.network[broker].popleft()
        results = {}
        for name in message.partitions:
            error = fault()
            if error is Error.NONE and self.leaders.get(name) != broker:
                error = Error.NOT_LEADER_OR_FOLLOWER
            if error is Error.NONE:
                error = self.partitions[name].mark(message, decided)
            results[name] = error
        return message.answer(results)

    def deliver_all(self) -> None:
        while any(self.network.values()) or self.answers:
            for broker in [b for b, queue in self.network.items() if queue]:
                self.answers.append(self.deliver(broker))
            while self.answers:
                self.submit_answer(self.answers.popleft())

    def submit_answer(self, answer: MarkersWritten) -> None:
        token = self.submit(answer)
        if self.commits_at_once:
            self.outcomes.pop(token, None)


def decisions(facts: Iterable[object]) -> list[TransactionMoved]:
    return [
        fact
        for fact in facts
        if isinstance(fact, TransactionMoved) and fact.after.state in PREPARED
    ]
