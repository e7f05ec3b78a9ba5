"""Looking at transactions, time-outs, expiry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moldau.model.errors import Error
from moldau.transactions.transaction_commands import (
    AbortTimedOut,
    DescribeTransaction,
    EndTransaction,
    Expired,
    ExpireTransactionalIds,
    ListTransactions,
    ProducerGranted,
    ResendMarkers,
    TimedOut,
)
from moldau.transactions.transaction_facts import (
    EPOCH_LAST,
    EPOCH_MAX,
    VERSION_2,
    Cause,
    TransactionalIdExpired,
    TransactionMoved,
)
from moldau.transactions.transaction_settings import TransactionSettings
from moldau.transactions.transaction_states import EXPIRABLE, State
from tests.support.transactions import (
    A0,
    A1,
    NOW,
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
    transaction,
)

LATE = WALL - 500 + 60_000 + 1
"""One millisecond after the time-out of `ongoing()`."""


def test_describing_shows_the_transaction_as_it_is() -> None:
    on = machine(ongoing())
    assert outcome(decide(on, DescribeTransaction("tid"))) == ongoing()
    unknown = decide(on, DescribeTransaction("other"))
    assert refusal(unknown) == Error.TRANSACTIONAL_ID_NOT_FOUND


def test_describing_a_decided_transaction_shows_the_partitions_that_await_a_marker() -> None:
    on = machine(ongoing())
    send, _ = run(on, EndTransaction("tid", 1000, 5, True)).sends
    run(on, all_written(send))
    described = outcome(decide(on, DescribeTransaction("tid")))
    assert described.state is State.PREPARE_COMMIT
    assert described.partitions == {A1}


class Ending:
    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        return text.endswith(self.text)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"idle", "open", "done"}),
        ({"states": frozenset({State.ONGOING})}, {"open"}),
        ({"states": frozenset()}, set()),
        ({"producer_ids": frozenset({1, 3})}, {"idle", "done"}),
        ({"older_than_ms": 499}, {"idle", "open"}),
        ({"older_than_ms": 500}, {"idle"}),
        ({"pattern": Ending("ne")}, {"done"}),
        ({"pattern": Ending("n"), "producer_ids": frozenset({1})}, set()),
    ],
)
def test_listing_obeys_every_filter(filters: dict[str, Any], expected: set[str]) -> None:
    on = machine(
        transaction(transactional_id="idle", producer_id=1),
        ongoing(transactional_id="open", producer_id=2),
        transaction(
            State.COMPLETE_ABORT, transactional_id="done", producer_id=3, start_ms=WALL - 10
        ),
    )
    listed = outcome(decide(on, ListTransactions(**filters)))
    assert {each.transactional_id for each in listed} == expected


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    on = machine(ongoing())
    assert outcome(decide(on, AbortTimedOut(), wall_ms=LATE - 1)) == TimedOut(())
    decision = run(on, AbortTimedOut(), wall_ms=LATE)
    assert outcome(decision) == TimedOut(("tid",))
    assert decision.facts[0] == TransactionMoved(
        transaction(
            State.PREPARE_ABORT,
            producer_epoch=6,
            last_producer_epoch=5,
            update_ms=LATE,
            client_version=VERSION_2,
        ),
        Cause.TIMEOUT,
    )
    for send in decision.sends:
        run(on, all_written(send))
    late_commit = EndTransaction("tid", 1000, 5, True)
    assert refusal(decide(on, late_commit)) == Error.PRODUCER_FENCED
    # A newer client knows from the epoch that its abort is done.
    late_abort = EndTransaction("tid", 1000, 5, False, VERSION_2)
    assert outcome(decide(on, late_abort)) == ProducerGranted(1000, 6)
    assert (
        refusal(decide(on, replace(late_commit, client_version=VERSION_2)))
        == Error.INVALID_TXN_STATE
    )


@pytest.mark.parametrize("state", [state for state in State if state is not State.ONGOING])
def test_only_open_transactions_time_out(state: State) -> None:
    on = machine(transaction(state, start_ms=0))
    assert outcome(decide(on, AbortTimedOut(), wall_ms=LATE)) == TimedOut(())


def test_a_transaction_of_an_outside_coordinator_never_times_out() -> None:
    on = machine(ongoing(timeout_ms=2**31 - 1))
    assert outcome(decide(on, AbortTimedOut(), wall_ms=WALL + 2**40)) == TimedOut(())


def test_a_time_out_in_the_last_epoch_waits_for_a_new_producer_id() -> None:
    on = machine(
        ongoing(producer_epoch=EPOCH_LAST),
        ongoing(transactional_id="other", partitions=frozenset({A0})),
    )
    first = run(on, AbortTimedOut(), wall_ms=LATE)
    assert outcome(first) == TimedOut(("other",), producer_ids_needed=1)
    decision = run(on, AbortTimedOut((2000,)), wall_ms=LATE)
    assert outcome(decision) == TimedOut(("tid",))
    assert {m.producer_epoch for m in sent(decision).values()} == {EPOCH_MAX}
    assert moved(decision)[0].next_producer_id == 2000


def test_a_job_stops_where_one_batch_would_get_too_large() -> None:
    small = TransactionSettings(decision_bytes_max=300)
    names = [f"tid-{number}" for number in range(5)]
    on = machine(*(ongoing(transactional_id=name) for name in names), settings=small)
    aborted = []
    for _ in range(9):
        result = outcome(run(on, AbortTimedOut(), wall_ms=LATE))
        aborted += result.aborted
        if not result.has_more:
            break
    assert aborted == names
    idle = machine(*(transaction(transactional_id=name) for name in names), settings=small)
    expired = []
    for _ in range(9):
        result = outcome(run(idle, ExpireTransactionalIds(), wall_ms=WALL + 2**40))
        expired += result.transactional_ids
        if not result.has_more:
            break
    assert expired == names
    assert not idle.transactions


@pytest.mark.parametrize("state", State)
def test_an_id_that_is_not_used_any_more_is_forgotten(state: State) -> None:
    on = machine(transaction(state), settings=TransactionSettings(id_expiration_ms=1000))
    too_early = run(on, ExpireTransactionalIds(), wall_ms=WALL - 100 + 999)
    assert outcome(too_early) == Expired(())
    decision = run(on, ExpireTransactionalIds(), wall_ms=WALL - 100 + 1000)
    if state in EXPIRABLE:
        assert decision.facts == (TransactionalIdExpired("tid"),)
        assert outcome(decision) == Expired(("tid",))
        assert "tid" not in on.transactions
    else:
        assert outcome(decision) == Expired(())


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_time_out_is_counted_from_the_stored_start_by_the_wall_clock(step_ms: int) -> None:
    on = machine(ongoing())
    monotonic_ms = NOW - step_ms
    assert outcome(decide(on, AbortTimedOut(), monotonic_ms, LATE - 1)) == TimedOut(())
    assert outcome(decide(on, AbortTimedOut(), monotonic_ms, LATE)) == TimedOut(("tid",))


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_silent_markers_are_counted_by_the_monotonic_clock(step_ms: int) -> None:
    on = machine(ongoing())
    run(on, EndTransaction("tid", 1000, 5, True))
    wall_ms = WALL + step_ms
    silence_ms = on.settings.markers_timeout_ms
    assert outcome(decide(on, ResendMarkers(), NOW + silence_ms - 1, wall_ms)) == 0
    assert outcome(decide(on, ResendMarkers(), NOW + silence_ms, wall_ms)) == 1
