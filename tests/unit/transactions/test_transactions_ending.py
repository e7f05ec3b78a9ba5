"""EndTxn in every state, for clients of both versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moldau.model.errors import Error
from moldau.transactions.transaction_commands import (
    EndTransaction,
    ProducerGranted,
    ProducerIdNeeded,
)
from moldau.transactions.transaction_facts import (
    EPOCH_LAST,
    EPOCH_MAX,
    VERSION_1,
    VERSION_2,
    Cause,
    TransactionMoved,
)
from moldau.transactions.transaction_states import State
from tests.support.transactions import (
    A0,
    A1,
    EPOCH,
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

PREPARED = [State.PREPARE_COMMIT, State.PREPARE_ABORT]


def end(committed: bool = True, **changes: Any) -> EndTransaction:
    return EndTransaction(
        **{
            "transactional_id": "tid",
            "producer_id": 1000,
            "producer_epoch": 5,
            "committed": committed,
            **changes,
        }
    )


def end_2(committed: bool = True, **changes: Any) -> EndTransaction:
    return end(committed, client_version=VERSION_2, **changes)


@pytest.mark.parametrize("committed", [True, False])
def test_version_1_keeps_its_epoch(committed: bool) -> None:
    on = machine(ongoing())
    decision = run(on, end(committed))
    assert outcome(decision) == ProducerGranted(-1, -1)
    state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
    assert decision.facts[0] == TransactionMoved(transaction(state, update_ms=WALL), Cause.PRODUCER)
    for broker, partition in ((1, A0), (2, A1)):
        message = sent(decision)[broker]
        assert message.partitions == (partition,)
        assert (message.producer_id, message.producer_epoch) == (1000, 5)
        assert (message.committed, message.coordinator_epoch) == (committed, EPOCH)
        assert message.transaction_version == VERSION_1
    for send in decision.sends:
        last = run(on, all_written(send))
    (after,) = moved(last)
    assert after.state is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
    assert (after.producer_epoch, after.partitions) == (5, frozenset())


@pytest.mark.parametrize("committed", [True, False])
def test_version_2_gives_the_next_transaction_its_own_epoch(committed: bool) -> None:
    on = machine(ongoing(client_version=VERSION_2))
    decision = run(on, end_2(committed))
    assert outcome(decision) == ProducerGranted(1000, 6)
    assert all(
        (m.producer_epoch, m.transaction_version) == (6, VERSION_2) for m in sent(decision).values()
    )
    after = moved(decision)[0]
    assert (after.producer_epoch, after.last_producer_epoch) == (6, 5)
    for send in decision.sends:
        last = run(on, all_written(send))
    (complete,) = moved(last)
    assert (complete.producer_id, complete.producer_epoch) == (1000, 6)


@pytest.mark.parametrize("command", [end, end_2])
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", PREPARED)
def test_while_markers_are_written_everybody_has_to_ask_again(
    command: Any, committed: bool, state: State
) -> None:
    on = machine(transaction(state))
    assert refusal(decide(on, command(committed))) == Error.CONCURRENT_TRANSACTIONS
    other = command(committed, producer_epoch=4, producer_id=1)
    assert refusal(decide(on, other)) == Error.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("state", "committed", "error"),
    [
        (State.EMPTY, True, Error.INVALID_TXN_STATE),
        (State.EMPTY, False, Error.INVALID_TXN_STATE),
        (State.COMPLETE_COMMIT, True, Error.NONE),
        (State.COMPLETE_COMMIT, False, Error.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, True, Error.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, False, Error.NONE),
    ],
)
def test_version_1_at_rest_knows_a_repetition_by_the_state(
    state: State, committed: bool, error: Error
) -> None:
    decision = decide(machine(transaction(state)), end(committed))
    if error is Error.NONE:
        assert outcome(decision) == ProducerGranted(-1, -1)
        assert not decision.facts
    else:
        assert refusal(decision) == error


@pytest.mark.parametrize(
    ("state", "committed", "repeated", "expected"),
    [
        # The table of ending.py, row by row.
        (State.EMPTY, False, True, Error.PRODUCER_FENCED),
        (State.EMPTY, False, False, "bump"),
        (State.EMPTY, True, True, Error.PRODUCER_FENCED),
        (State.EMPTY, True, False, Error.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, False, True, "answered"),
        (State.COMPLETE_ABORT, False, False, "bump"),
        (State.COMPLETE_ABORT, True, True, Error.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, True, False, Error.INVALID_TXN_STATE),
        (State.COMPLETE_COMMIT, False, True, Error.INVALID_TXN_STATE),
        (State.COMPLETE_COMMIT, False, False, "bump"),
        (State.COMPLETE_COMMIT, True, True, "answered"),
        (State.COMPLETE_COMMIT, True, False, Error.INVALID_TXN_STATE),
    ],
)
def test_version_2_at_rest_knows_a_repetition_by_the_epoch(
    state: State, committed: bool, repeated: bool, expected: object
) -> None:
    on = machine(transaction(state, client_version=VERSION_2))
    decision = decide(on, end_2(committed, producer_epoch=4 if repeated else 5))
    if expected == "bump":
        assert outcome(decision) == ProducerGranted(1000, 6)
        # No partition has to hear of it: it is complete at once, with a start it never had.
        assert states(decision) == [State.PREPARE_ABORT, State.COMPLETE_ABORT]
        assert {each.start_ms for each in moved(decision)} == {WALL}
        assert not decision.sends
    elif expected == "answered":
        assert outcome(decision) == ProducerGranted(1000, 5)
        assert not decision.facts
    else:
        assert refusal(decision) == expected


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", [State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_a_fenced_producer_is_not_given_the_epoch_of_its_successor(
    state: State, committed: bool
) -> None:
    # The successor ended a transaction in version 1, which keeps its epoch: it still writes in it.
    on = machine(transaction(state, client_version=VERSION_1))
    assert refusal(decide(on, end_2(committed, producer_epoch=4))) == Error.PRODUCER_FENCED


@pytest.mark.parametrize("command", [end, end_2])
@pytest.mark.parametrize("state", [State.EMPTY, State.ONGOING, State.COMPLETE_COMMIT])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"transactional_id": "other"}, Error.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": 1}, Error.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 3}, Error.PRODUCER_FENCED),
        ({"producer_epoch": 6}, Error.PRODUCER_FENCED),
    ],
)
def test_only_the_current_producer_may_end_it(
    command: Any, state: State, changes: dict[str, Any], error: Error
) -> None:
    assert refusal(decide(machine(transaction(state)), command(True, **changes))) == error


@pytest.mark.parametrize("command", [end, end_2])
def test_an_open_transaction_is_not_ended_by_the_epoch_before(command: Any) -> None:
    decision = decide(machine(ongoing()), command(producer_epoch=4))
    assert refusal(decision) == Error.PRODUCER_FENCED


@pytest.mark.parametrize("committed", [True, False])
def test_after_the_last_epoch_version_2_goes_on_under_another_producer_id(committed: bool) -> None:
    on = machine(ongoing(producer_epoch=EPOCH_LAST))
    command = end_2(committed, producer_epoch=EPOCH_LAST)
    assert outcome(decide(on, command)) == ProducerIdNeeded()
    decision = run(on, replace(command, new_producer_id=2000))
    assert outcome(decision) == ProducerGranted(2000, 0)
    assert all(
        (m.producer_id, m.producer_epoch) == (1000, EPOCH_MAX) for m in sent(decision).values()
    )
    assert refusal(decide(on, command)) == Error.CONCURRENT_TRANSACTIONS
    for send in decision.sends:
        run(on, all_written(send))
    after = on.transactions["tid"]
    assert (after.producer_id, after.producer_epoch) == (2000, 0)
    assert (after.next_producer_id, after.last_producer_epoch) == (-1, EPOCH_LAST)
    # The answer was lost: the same request again finds its end under the new id.
    assert outcome(decide(on, command)) == ProducerGranted(2000, 0)
    assert refusal(decide(on, replace(command, committed=not committed))) == Error.INVALID_TXN_STATE


def test_version_1_in_the_last_epoch_needs_no_new_id() -> None:
    on = machine(ongoing(producer_epoch=EPOCH_LAST))
    decision = decide(on, end(producer_epoch=EPOCH_LAST))
    assert states(decision) == [State.PREPARE_COMMIT]


def test_a_client_may_change_its_version_between_transactions() -> None:
    on = machine(ongoing())
    for send in run(on, end_2()).sends:
        run(on, all_written(send))
    assert on.transactions["tid"].state is State.COMPLETE_COMMIT
    # For version 1 the epoch of now is the epoch that ended.
    assert outcome(decide(on, end(producer_epoch=6))) == ProducerGranted(-1, -1)


def test_a_producer_whose_id_was_replaced_by_another_process_is_fenced() -> None:
    rotated = transaction(producer_id=2000, producer_epoch=0, previous_producer_id=1000)
    decision = decide(machine(rotated), end_2(False, producer_epoch=EPOCH_LAST))
    assert refusal(decision) == Error.PRODUCER_FENCED
