"""The table of states against Kafka's, and every move in it made by something."""

from __future__ import annotations

import pytest

from moldau.transactions import state_transitions
from moldau.transactions.transaction_facts import VERSION_2, Transaction
from moldau.transactions.transaction_states import (
    EXPIRABLE,
    MOVES,
    PREPARED,
    STATES_BY_LABEL,
    State,
)
from tests.support.transactions import A0, WALL, transaction

PREVIOUS = {
    # Kafka's table says where a state may come from.
    State.EMPTY: {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.ONGOING: {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.PREPARE_COMMIT: {State.ONGOING},
    State.PREPARE_ABORT: {
        State.ONGOING,
        State.PREPARE_EPOCH_FENCE,
        State.EMPTY,
        State.COMPLETE_COMMIT,
        State.COMPLETE_ABORT,
    },
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
    State.DEAD: {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.PREPARE_EPOCH_FENCE: {State.ONGOING},
}


def make(before: Transaction, state: State) -> Transaction:
    match state:
        case State.EMPTY:
            return state_transitions.epoch_bumped(before, 60_000, None, WALL)
        case State.ONGOING:
            return state_transitions.partitions_added(before, frozenset({A0}), WALL, VERSION_2)
        case State.PREPARE_COMMIT | State.PREPARE_ABORT:
            return state_transitions.prepared(
                before,
                committed=state is State.PREPARE_COMMIT,
                client_version=VERSION_2,
                wall_ms=WALL,
            )
        case State.COMPLETE_COMMIT | State.COMPLETE_ABORT:
            return state_transitions.completed(before, WALL)
        case State.DEAD:
            return state_transitions.dead(before)
        case _:
            return state_transitions.fenced(before)


def test_the_moves_are_kafkas() -> None:
    for after, sources in PREVIOUS.items():
        assert {before for before in State if after in MOVES[before]} == sources, after


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_a_move_outside_the_table_cannot_be_made(before: State, after: State) -> None:
    given = transaction(before)
    if after in MOVES[before]:
        assert make(given, after).state is after
    elif before in PREPARED and after in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        # There is not even a way to ask for it: completing follows what was decided.
        assert make(given, after).state in MOVES[before]
    else:
        with pytest.raises(AssertionError):
            make(given, after)


def test_names_and_numbers_are_kafkas() -> None:
    assert {label: int(state) for label, state in STATES_BY_LABEL.items()} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
        "Dead": 6,
        "PrepareEpochFence": 7,
    }
    assert all(State.DEAD in MOVES[state] for state in EXPIRABLE)
