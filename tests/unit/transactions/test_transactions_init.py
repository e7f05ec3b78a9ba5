"""InitProducerId: who gets which id and epoch, and what becomes of a predecessor."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.model.errors import ApiError, Error
from moldau.transactions.transaction_commands import InitProducer, ProducerGranted, ProducerIdNeeded
from moldau.transactions.transaction_facts import EPOCH_LAST, EPOCH_MAX, Cause, TransactionMoved
from moldau.transactions.transaction_settings import TransactionSettings
from moldau.transactions.transaction_states import State
from tests.support.transactions import (
    A0,
    A1,
    WALL,
    all_written,
    decide,
    machine,
    moved,
    ongoing,
    outcome,
    refusal,
    run,
    sent,
    states,
    transaction,
)

AT_REST = [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT]


def init(**changes: Any) -> InitProducer:
    return InitProducer(**{"transactional_id": "tid", "timeout_ms": 30_000, **changes})


def recovering(producer_id: int, epoch: int, **changes: Any) -> InitProducer:
    return init(expected_producer_id=producer_id, expected_epoch=epoch, **changes)


def test_a_new_id_needs_a_producer_id_and_starts_in_epoch_0() -> None:
    on = machine()
    asked = decide(on, init())
    assert outcome(asked) == ProducerIdNeeded()
    assert not asked.facts
    decision = decide(on, init(new_producer_id=1004))
    assert outcome(decision) == ProducerGranted(1004, 0)
    (after,) = moved(decision)
    assert after == transaction(
        State.EMPTY,
        producer_id=1004,
        producer_epoch=0,
        previous_producer_id=1004,
        timeout_ms=30_000,
        update_ms=WALL,
    )


def test_a_producer_that_recovers_from_a_forgotten_id_gets_a_new_one() -> None:
    decision = decide(machine(), recovering(77, 3, new_producer_id=1004))
    assert outcome(decision) == ProducerGranted(1004, 0)


@pytest.mark.parametrize("state", AT_REST)
def test_another_producer_with_the_same_id_gets_the_next_epoch(state: State) -> None:
    decision = decide(machine(transaction(state, last_producer_epoch=4)), init())
    assert outcome(decision) == ProducerGranted(1000, 6)
    (after,) = moved(decision)
    assert after.state is State.EMPTY
    assert after.last_producer_epoch == -1
    assert (after.timeout_ms, after.start_ms, after.update_ms) == (30_000, -1, WALL)


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_decided_transaction_is_completed_first(state: State) -> None:
    on = machine(transaction(state))
    assert refusal(decide(on, init())) == Error.CONCURRENT_TRANSACTIONS
    # Kafka asks for the state first, also where the producer is not the one it knows.
    assert refusal(decide(on, recovering(1, 1))) == Error.CONCURRENT_TRANSACTIONS


def test_an_open_transaction_is_aborted_in_a_new_epoch_and_the_client_has_to_ask_again() -> None:
    on = machine(ongoing())
    decision = run(on, init())
    told = outcome(decision)
    assert isinstance(told, ApiError)
    assert told.error == Error.CONCURRENT_TRANSACTIONS
    (fact, *_) = decision.facts
    assert fact == TransactionMoved(
        transaction(
            State.PREPARE_ABORT,
            producer_epoch=6,
            last_producer_epoch=5,
            update_ms=WALL,
            client_version=2,
        ),
        Cause.NEW_PRODUCER,
    )
    assert {broker: m.partitions for broker, m in sent(decision).items()} == {1: (A0,), 2: (A1,)}
    assert all((m.producer_epoch, m.committed) == (6, False) for m in sent(decision).values())
    assert refusal(decide(on, init())) == Error.CONCURRENT_TRANSACTIONS
    for send in decision.sends:
        run(on, all_written(send))
    assert outcome(decide(on, init())) == ProducerGranted(1000, 7)


def test_a_recovering_producer_bumps_its_own_epoch_and_may_repeat_the_request() -> None:
    on = machine(transaction(State.COMPLETE_ABORT))
    assert outcome(run(on, recovering(1000, 5))) == ProducerGranted(1000, 6)
    assert outcome(run(on, recovering(1000, 5))) == ProducerGranted(1000, 6)
    assert outcome(run(on, recovering(1000, 6))) == ProducerGranted(1000, 7)


@pytest.mark.parametrize(("producer_id", "epoch"), [(1000, 3), (1000, 6), (999, 5)])
def test_a_producer_that_was_replaced_is_fenced(producer_id: int, epoch: int) -> None:
    on = machine(transaction(State.COMPLETE_COMMIT, last_producer_epoch=4))
    assert refusal(decide(on, recovering(producer_id, epoch))) == Error.PRODUCER_FENCED


@pytest.mark.parametrize(("producer_id", "epoch"), [(1000, 4), (1000, 6), (999, EPOCH_LAST)])
def test_a_producer_that_was_replaced_does_not_abort_its_successor(
    producer_id: int, epoch: int
) -> None:
    on = machine(ongoing(last_producer_epoch=4, previous_producer_id=999))
    assert refusal(decide(on, recovering(producer_id, epoch))) == Error.PRODUCER_FENCED


def test_a_recovering_producer_may_abort_its_own_transaction_and_go_on() -> None:
    # It added a partition and never heard of it.
    on = machine(ongoing())
    decision = run(on, recovering(1000, 5))
    assert states(decision) == [State.PREPARE_ABORT]
    for send in decision.sends:
        run(on, all_written(send))
    assert outcome(run(on, recovering(1000, 5))) == ProducerGranted(1000, 6)


def test_a_successor_makes_an_older_repetition_fail() -> None:
    on = machine(transaction())
    run(on, recovering(1000, 5))
    assert outcome(run(on, init())) == ProducerGranted(1000, 7)
    assert refusal(decide(on, recovering(1000, 5))) == Error.PRODUCER_FENCED
    assert refusal(decide(on, recovering(1000, 6))) == Error.PRODUCER_FENCED


def test_the_last_epoch_is_given_out_and_the_next_producer_gets_another_id() -> None:
    on = machine(transaction(producer_epoch=EPOCH_LAST - 1))
    assert outcome(run(on, init())) == ProducerGranted(1000, EPOCH_LAST)
    assert outcome(decide(on, init())) == ProducerIdNeeded()
    decision = run(on, init(new_producer_id=2000))
    assert outcome(decision) == ProducerGranted(2000, 0)
    (after,) = moved(decision)
    assert (after.previous_producer_id, after.last_producer_epoch) == (1000, -1)


def test_a_recovering_producer_whose_epochs_ended_may_repeat_the_request() -> None:
    on = machine(transaction(producer_epoch=EPOCH_LAST))
    assert outcome(decide(on, recovering(1000, EPOCH_LAST))) == ProducerIdNeeded()
    first = run(on, recovering(1000, EPOCH_LAST, new_producer_id=2000))
    assert outcome(first) == ProducerGranted(2000, 0)
    assert outcome(run(on, recovering(1000, EPOCH_LAST))) == ProducerGranted(2000, 0)
    # An older process with the old id is not the one that repeats.
    assert refusal(decide(on, recovering(1000, EPOCH_LAST - 1))) == Error.PRODUCER_FENCED


def test_a_wrong_epoch_of_an_exhausted_id_is_fenced_and_takes_no_new_id() -> None:
    on = machine(transaction(producer_epoch=EPOCH_LAST))
    assert refusal(decide(on, recovering(1000, 3))) == Error.PRODUCER_FENCED


def test_taking_over_an_open_transaction_in_the_last_epoch_goes_on_under_another_id() -> None:
    on = machine(ongoing(producer_epoch=EPOCH_LAST))
    assert outcome(decide(on, init())) == ProducerIdNeeded()
    decision = run(on, init(new_producer_id=2000))
    assert all(m.producer_epoch == EPOCH_MAX for m in sent(decision).values())
    for send in decision.sends:
        run(on, all_written(send))
    assert on.transactions["tid"].producer_id == 2000
    assert outcome(decide(on, init())) == ProducerGranted(2000, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_timeout_beyond_the_limit_is_refused(timeout_ms: int) -> None:
    on = machine(settings=TransactionSettings(timeout_max_ms=900_000))
    decision = decide(on, init(timeout_ms=timeout_ms, new_producer_id=1))
    assert refusal(decision) == Error.INVALID_TRANSACTION_TIMEOUT
    assert states(decide(on, init(timeout_ms=900_000, new_producer_id=1))) == [State.EMPTY]
