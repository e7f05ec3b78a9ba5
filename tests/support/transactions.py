"""A transaction coordinator for tests: given transactions, when a command, then a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.engine.machine import Decision, Send, Volatile
from moldau.model.clock import Now
from moldau.model.cluster import PartitionImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.transactions.transaction_commands import WriteMarkers
from moldau.transactions.transaction_facts import Topics, TopicsSeen, Transaction, TransactionMoved
from moldau.transactions.transaction_machine import TransactionMachine
from moldau.transactions.transaction_settings import TransactionSettings
from moldau.transactions.transaction_states import State

TOKEN = 7
NOW = 50_000
WALL = 1_618_475_062_543
EPOCH = 4
"""The coordinator's."""
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS: Mapping[TopicPartition, int] = {A0: 1, A1: 2, B0: 1}


def topics_of(leaders: Mapping[TopicPartition, int]) -> Topics:
    """As the cluster image has them, by the leader of each partition."""
    topics = {}
    for name in sorted({place.topic for place in leaders}):
        count = max(place.partition for place in leaders if place.topic == name) + 1
        led_by = [leaders[TopicPartition(name, partition)] for partition in range(count)]
        rows = tuple(PartitionImage(leader, 0, (leader,), (leader,)) for leader in led_by)
        topics[name] = TopicImage(name, name.encode().ljust(16), rows)
    return topics


def transaction(state: State = State.EMPTY, **changes: Any) -> Transaction:
    """Of `tid`, with producer 1000 in epoch 5; it has two partitions unless it is at rest."""
    is_open = state in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
    fields = {
        "transactional_id": "tid",
        "producer_id": 1000,
        "producer_epoch": 5,
        "timeout_ms": 60_000,
        "state": state,
        "partitions": frozenset({A0, A1}) if is_open else frozenset(),
        "start_ms": -1 if state is State.EMPTY else WALL - 500,
        "update_ms": WALL - 100,
        "previous_producer_id": 1000,
    }
    return Transaction(**{**fields, **changes})


def ongoing(**changes: Any) -> Transaction:
    return transaction(State.ONGOING, **changes)


def machine(
    *transactions: Transaction,
    leaders: Mapping[TopicPartition, int] = LEADERS,
    settings: TransactionSettings | None = None,
) -> TransactionMachine:
    made = TransactionMachine(EPOCH, settings or TransactionSettings())
    made.apply(TopicsSeen(topics_of(leaders)))
    for each in transactions:
        made.apply(TransactionMoved(each))
    return made


def decide(
    on: TransactionMachine, command: object, now_ms: int = NOW, wall_ms: int = WALL
) -> Decision:
    return on.decide(command, TOKEN, Now(wall_ms, now_ms))


def run(
    on: TransactionMachine, command: object, now_ms: int = NOW, wall_ms: int = WALL
) -> Decision:
    """Decide and apply."""
    decision = decide(on, command, now_ms, wall_ms)
    for fact in decision.facts:
        on.apply(fact.fact if isinstance(fact, Volatile) else fact)
    return decision


def outcome(decision: Decision) -> Any:
    (reply,) = decision.replies
    assert reply.token == TOKEN
    return reply.outcome


def refusal(decision: Decision) -> Error:
    """The error, if that is all there is to the decision."""
    told = outcome(decision)
    assert isinstance(told, ApiError), told
    assert not decision.facts, decision.facts
    assert not decision.sends, decision.sends
    return told.error


def moved(decision: Decision) -> list[Transaction]:
    return [fact.after for fact in decision.facts if isinstance(fact, TransactionMoved)]


def states(decision: Decision) -> list[State]:
    return [each.state for each in moved(decision)]


def sent(decision: Decision) -> dict[Any, WriteMarkers]:
    """By broker."""
    messages = {}
    for destination, message in decision.sends:
        assert isinstance(message, WriteMarkers)
        assert destination not in messages, f"two messages to broker {destination}"
        messages[destination] = message
    return messages


def all_written(send: Send | WriteMarkers, error: Error = Error.NONE) -> Any:
    """The answer of a broker that did, or could not do, all of it."""
    message = send.message if isinstance(send, Send) else send
    assert isinstance(message, WriteMarkers)
    return message.failed(error)
