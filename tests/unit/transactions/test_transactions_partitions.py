"""Adding partitions to a transaction, and asking whether they are in it."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.model.errors import Error
from moldau.transactions.transaction_commands import AddPartitions
from moldau.transactions.transaction_states import State
from tests.support.transactions import (
    A0,
    A1,
    B0,
    WALL,
    decide,
    machine,
    moved,
    ongoing,
    outcome,
    refusal,
    transaction,
)

PREPARED = [State.PREPARE_COMMIT, State.PREPARE_ABORT]


def add(*partitions: Any, **changes: Any) -> AddPartitions:
    return AddPartitions(
        **{
            "transactional_id": "tid",
            "producer_id": 1000,
            "producer_epoch": 5,
            "partitions": frozenset(partitions or (A0,)),
            **changes,
        }
    )


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_the_first_partition_begins_a_transaction(state: State) -> None:
    decision = decide(machine(transaction(state)), add(A0, B0, client_version=2))
    assert outcome(decision) == {A0: Error.NONE, B0: Error.NONE}
    (after,) = moved(decision)
    assert after.state is State.ONGOING
    assert after.partitions == {A0, B0}
    assert (after.start_ms, after.update_ms, after.client_version) == (WALL, WALL, 2)
    assert (after.producer_id, after.producer_epoch) == (1000, 5)


def test_more_partitions_leave_the_start_of_the_transaction_alone() -> None:
    given = ongoing()
    (after,) = moved(decide(machine(given), add(A0, B0)))
    assert after.partitions == {A0, A1, B0}
    assert (after.start_ms, after.update_ms) == (given.start_ms, WALL)


def test_partitions_that_are_in_it_are_answered_without_a_write() -> None:
    decision = decide(machine(ongoing()), add(A1))
    assert outcome(decision) == {A1: Error.NONE}
    assert not decision.facts


@pytest.mark.parametrize("verify_only", [False, True])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"transactional_id": "other"}, Error.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": 1}, Error.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 4}, Error.PRODUCER_FENCED),
        ({"producer_epoch": 6}, Error.PRODUCER_FENCED),
    ],
)
def test_only_the_current_producer_may_ask(
    verify_only: bool, changes: dict[str, Any], error: Error
) -> None:
    decision = decide(machine(ongoing()), add(verify_only=verify_only, **changes))
    assert refusal(decision) == error


@pytest.mark.parametrize("state", PREPARED)
def test_a_decided_transaction_takes_no_partitions(state: State) -> None:
    on = machine(transaction(state))
    assert refusal(decide(on, add())) == Error.CONCURRENT_TRANSACTIONS
    # Its producer may have got another epoch meanwhile: it has to ask again.
    assert refusal(decide(on, add(producer_epoch=4))) == Error.CONCURRENT_TRANSACTIONS
    assert refusal(decide(on, add(verify_only=True))) == Error.CONCURRENT_TRANSACTIONS
    assert refusal(decide(on, add(verify_only=True, producer_epoch=4))) == Error.PRODUCER_FENCED


def test_verifying_tells_for_each_partition_and_changes_nothing() -> None:
    decision = decide(machine(ongoing()), add(A0, B0, verify_only=True))
    assert outcome(decision) == {A0: Error.NONE, B0: Error.TRANSACTION_ABORTABLE}
    assert not decision.facts


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_no_partition_is_in_a_transaction_that_is_not_open(state: State) -> None:
    decision = decide(machine(transaction(state)), add(A0, verify_only=True))
    assert outcome(decision) == {A0: Error.TRANSACTION_ABORTABLE}
