"""Who is given which producer id and epoch: nobody gets what belongs to somebody who lives.

Each story is told twice: in one life of the coordinator, and with another that has only the log
between the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error
from moldau.transactions.transaction_commands import (
    AbortTimedOut,
    EndTransaction,
    InitProducer,
    ProducerGranted,
    TimedOut,
)
from moldau.transactions.transaction_facts import EPOCH_LAST, VERSION_1, VERSION_2, TransactionMoved
from moldau.transactions.transaction_records import TransactionCodec
from tests.support.transaction_world import World
from tests.support.transcript_producer import PLACE, Producer

Between = Callable[[World], None]


def nothing(world: World) -> None:
    pass


def another_coordinator(world: World) -> None:
    world.crash(kept=len(world.log))


@pytest.fixture(params=[nothing, another_coordinator])
def between(request: pytest.FixtureRequest) -> Between:
    step: Between = request.param
    return step


def error_of(outcome: Any) -> Error:
    assert isinstance(outcome, ApiError), outcome
    return outcome.error


def end_of(producer: Producer, committed: bool) -> EndTransaction:
    """The request itself, to be sent more than once."""
    return EndTransaction(
        producer.transactional_id,
        producer.id,
        producer.epoch,
        committed,
        producer.version,
    )


def in_epoch(world: World, transactional_id: str, epoch: int) -> None:
    """The id was used so often before."""
    command = InitProducer(transactional_id, 60_000, new_producer_id=next(world.producer_ids))
    (fact,) = world.machine.decide(command, 0, Now(0, 0)).facts
    assert isinstance(fact, TransactionMoved)
    used = TransactionMoved(fact.after._replace(producer_epoch=epoch))
    world.log += TransactionCodec().encode([used], world.wall_ms)
    another_coordinator(world)


@pytest.mark.parametrize("committed", [True, False])
def test_a_fenced_producer_gets_nothing_of_a_successor_that_keeps_its_epoch(
    committed: bool, between: Between
) -> None:
    world = World.of([PLACE])
    old, new = Producer(world, "id", VERSION_2), Producer(world, "id", VERSION_1)
    old.init_transactions()
    new.init_transactions()
    assert (old.id, old.epoch + 1) == (new.id, new.epoch)
    new.send("first of the successor")
    assert new.end(committed) == ProducerGranted()
    between(world)
    # One epoch behind, and in the state that it asks for: yet this was never its transaction.
    assert error_of(old.end(committed)) == Error.PRODUCER_FENCED
    assert error_of(old.end(not committed)) == Error.PRODUCER_FENCED
    new.send("half of a transaction", sequence=1)
    between(world)
    assert error_of(old.end(True)) == Error.PRODUCER_FENCED
    assert new.end(False) == ProducerGranted()
    assert world.partitions[PLACE].visible() == ["first of the successor"] * committed


@pytest.mark.parametrize("committed", [True, False])
def test_a_lost_answer_is_given_again_with_the_same_epoch(
    committed: bool, between: Between
) -> None:
    world = World.of([PLACE])
    producer = Producer(world, "id", VERSION_2)
    producer.init_transactions()
    producer.send("once")
    request = end_of(producer, committed)
    told = world.ask(request)
    for _ in range(2):
        between(world)
        assert world.ask(request) == told == ProducerGranted(producer.id, producer.epoch + 1)
    assert error_of(world.ask(end_of(producer, not committed))) == Error.INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_a_lost_answer_that_told_a_new_producer_id_is_given_again(
    committed: bool, between: Between
) -> None:
    world = World.of([PLACE])
    in_epoch(world, "id", EPOCH_LAST - 1)
    producer = Producer(world, "id", VERSION_2)
    producer.init_transactions()
    assert producer.epoch == EPOCH_LAST
    producer.send("once")
    request = end_of(producer, committed)
    told = world.ask(request)
    assert told.producer_id != producer.id
    for _ in range(2):
        between(world)
        assert world.ask(request) == told
    successor = Producer(world, "id", VERSION_1)
    successor.init_transactions()
    assert (successor.id, successor.epoch) == (told.producer_id, 1)
    between(world)
    assert error_of(world.ask(request)) == Error.INVALID_PRODUCER_ID_MAPPING


def test_a_successor_under_a_new_producer_id_is_not_taken_for_the_last_of_the_old_one(
    between: Between,
) -> None:
    world = World.of([PLACE])
    in_epoch(world, "id", EPOCH_LAST - 1)
    old, new = Producer(world, "id", VERSION_2), Producer(world, "id", VERSION_1)
    old.init_transactions()
    new.init_transactions()
    assert (old.epoch, new.epoch) == (EPOCH_LAST, 0)
    between(world)
    assert error_of(old.end(False)) == Error.PRODUCER_FENCED
    new.send("of the successor")
    new.end(True)
    between(world)
    assert error_of(old.end(True)) == Error.INVALID_PRODUCER_ID_MAPPING
    assert error_of(old.recover()) == Error.PRODUCER_FENCED


def test_who_was_aborted_by_time_may_abort_too_until_somebody_takes_over(
    between: Between,
) -> None:
    world = World.of([PLACE])
    old = Producer(world, "id", VERSION_2)
    old.init_transactions()
    old.send("too slow")
    abort, commit = end_of(old, False), end_of(old, True)
    world.now_ms += 60_001
    assert world.ask(AbortTimedOut()) == TimedOut(("id",))
    between(world)
    assert error_of(world.ask(commit)) == Error.INVALID_TXN_STATE
    assert world.ask(abort) == ProducerGranted(old.id, old.epoch + 1)
    new = Producer(world, "id", VERSION_1)
    new.init_transactions()
    assert new.epoch == old.epoch + 2, "the epoch that fenced is nobody's who took over"
    new.send("of the successor")
    new.end(False)
    between(world)
    old.epoch += 1
    assert error_of(old.end(False)) == Error.PRODUCER_FENCED
    assert error_of(world.ask(abort)) == Error.PRODUCER_FENCED


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2])
def test_a_fenced_producer_that_recovers_does_not_abort_its_successor(
    version: int, between: Between
) -> None:
    world = World.of([PLACE])
    old, new = Producer(world, "id", version), Producer(world, "id", version)
    old.init_transactions()
    new.init_transactions()
    new.send("of the successor")
    between(world)
    assert error_of(old.recover()) == Error.PRODUCER_FENCED
    assert isinstance(new.end(True), ProducerGranted)
    assert world.partitions[PLACE].visible() == ["of the successor"]


def test_a_late_copy_of_a_recovery_does_not_abort_what_came_after_it() -> None:
    world = World.of([PLACE])
    producer = Producer(world, "id", VERSION_1)
    producer.init_transactions()
    copy = InitProducer("id", 60_000, producer.id, producer.epoch)
    assert isinstance(producer.recover(), ProducerGranted)
    producer.send("after it")
    assert error_of(world.ask(copy)) == Error.PRODUCER_FENCED
    assert producer.end(True) == ProducerGranted()
    assert world.partitions[PLACE].visible() == ["after it"]
