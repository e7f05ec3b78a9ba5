"""The broker's log speaks of transactions as Kafka's does."""

from __future__ import annotations

from moldau.model.errors import Error
from moldau.transactions.transaction_facts import Cause, MarkersRefused, TransactionMoved
from moldau.transactions.transaction_log_lines import COORDINATOR_LOGGER, lines
from moldau.transactions.transaction_states import State
from tests.support.transactions import A0, transaction


def test_a_producer_that_starts_is_named_with_its_epoch_and_partition() -> None:
    started = transaction(transactional_id="XXX-TID-0", producer_id=1004, producer_epoch=1)
    (line,) = lines([TransactionMoved(started)], partition=15, node_id=3)
    assert line.logger == COORDINATOR_LOGGER
    assert line.text == (
        "[TransactionCoordinator id=3] Initialized transactionalId XXX-TID-0 with producerId 1004 "
        "and producer epoch 1 on partition __transaction_state-15"
    )


def test_a_time_out_is_told() -> None:
    aborted = TransactionMoved(transaction(State.PREPARE_ABORT), Cause.TIMEOUT)
    (line,) = lines([aborted], partition=15, node_id=3)
    assert line.text == (
        "[TransactionCoordinator id=3] Completed rollback of ongoing transaction for "
        "transactionalId tid due to timeout"
    )


def test_a_refused_marker_is_told_and_the_usual_moves_are_not() -> None:
    facts = [
        TransactionMoved(transaction(State.ONGOING)),
        TransactionMoved(transaction(State.PREPARE_COMMIT)),
        TransactionMoved(transaction(State.COMPLETE_COMMIT), Cause.MARKERS),
        MarkersRefused("tid", A0, Error.INVALID_PRODUCER_EPOCH),
    ]
    (line,) = lines(facts, partition=15, node_id=3)
    assert "a-0" in line.text
    assert "INVALID_PRODUCER_EPOCH" in line.text


def test_an_id_cannot_forge_a_line() -> None:
    forged = TransactionMoved(transaction(transactional_id="a\n[2026] ERROR b"))
    (line,) = lines([forged], partition=0, node_id=0)
    assert "\n" not in line.text
    assert r"a\n[2026] ERROR b" in line.text
