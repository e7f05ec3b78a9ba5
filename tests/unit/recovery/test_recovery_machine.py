"""What a recovering worker does next: the order, the numbers, and what it falls back to."""

from __future__ import annotations

import pytest

from moldau.recovery import FullSnapshots, Increment, RecoveryError
from moldau.recovery.recovery_machine import Begin, Kind, LoadFull, RecoveryMachine
from moldau.recovery.snapshot_records import FULLS_KEPT


def machine(records: int = 10, seconds: float = 60.0) -> RecoveryMachine:
    return RecoveryMachine(FullSnapshots(records, seconds), "T-0", now=0.0)


def fenced(**policy: float) -> RecoveryMachine:
    made = machine(**policy)  # type: ignore[arg-type]
    made.fenced()
    return made


def reading(found: Increment | None = None, **policy: float) -> RecoveryMachine:
    made = fenced(**policy)
    step = made.found(found, None, 0)
    if isinstance(step, LoadFull):
        made.loaded(found.end if found else 0)
    return made


def do(made: RecoveryMachine, *offsets: int) -> Increment:
    """A transaction with these records."""
    for offset in offsets:
        assert made.kind(offset) is Kind.NEW
        made.applied(offset)
    increment = made.next_increment()
    made.committed(increment)
    return increment


def test_the_numbers_1000_0_1001_1002() -> None:
    first = reading()
    do(first, *range(1001))
    first.command()
    assert first.full_due(1.0)
    assert first.full_begun(1.0) == 1000
    first.full_stored(0)
    last = do(first, 1001)
    assert (last.full, last.end) == (0, 1001)

    successor = fenced()
    assert successor.found(last, 1002, 0) == LoadFull(0)
    assert successor.loaded(1000) == Begin(1001)
    kinds = [successor.kind(offset) for offset in (1000, 1001, 1002)]
    assert kinds == [Kind.DONE, Kind.REPLAY, Kind.NEW]


def test_nothing_is_restored_before_the_rival_is_fenced() -> None:
    with pytest.raises(RuntimeError, match="first fence, then restore"):
        machine().found(Increment(7), 8, 0)
    with pytest.raises(RuntimeError, match="before the state was loaded"):
        fenced().kind(0)


def test_the_first_of_all_begins_where_the_input_begins() -> None:
    made = fenced()
    assert made.found(None, None, 500) == Begin(500)
    assert do(made, 500, 501) == Increment(501, (), 500, 0)


def test_without_a_full_snapshot_everything_is_computed_again() -> None:
    made = fenced()
    assert made.found(Increment(1000), 1001, 0) == Begin(0)
    assert (made.kind(1000), made.kind(1001)) == (Kind.REPLAY, Kind.NEW)


def test_a_torn_full_snapshot_is_replaced_by_an_earlier_one_and_then_by_the_beginning() -> None:
    made = fenced()
    assert made.found(Increment(90, (8, 5, 2)), 91, 0) == LoadFull(8)
    assert made.not_loaded() == LoadFull(5)
    assert made.not_loaded() == LoadFull(2)
    assert made.not_loaded() == Begin(0)


def test_a_full_snapshot_ahead_of_what_is_committed_is_not_used() -> None:
    made = fenced()
    made.found(Increment(90, (8,)), 91, 0)
    assert made.loaded(91) == Begin(0)


def test_a_full_snapshot_is_not_used_if_the_records_after_it_are_gone() -> None:
    made = fenced()
    made.found(Increment(90, (8, 5)), 91, 51)
    assert made.loaded(40) == LoadFull(5)
    with pytest.raises(RecoveryError, match="the input begins at offset 51 instead of 0"):
        made.loaded(30)
    whole = fenced()
    whole.found(Increment(90, (8,)), 91, 95)
    assert whole.loaded(90) == Begin(91)


def test_an_increment_that_was_lost_is_made_up_for_by_the_offset_of_the_group() -> None:
    behind = fenced()
    assert behind.found(Increment(80, (8,)), 91, 0) == LoadFull(8)
    behind.loaded(70)
    assert (behind.kind(90), behind.kind(91)) == (Kind.REPLAY, Kind.NEW)
    without = fenced()
    assert without.found(None, 91, 0) == Begin(0)
    assert (without.kind(90), without.kind(91)) == (Kind.REPLAY, Kind.NEW)
    with pytest.raises(RecoveryError):
        fenced().found(None, 91, 1)


def test_an_expired_offset_of_the_group_changes_nothing() -> None:
    made = fenced()
    assert made.found(Increment(80), None, 0) == Begin(0)
    assert (made.kind(80), made.kind(81)) == (Kind.REPLAY, Kind.NEW)


def test_full_snapshots_are_due_by_records_by_time_by_command_and_before_a_stop() -> None:
    by_records = reading(records=3)
    do(by_records, 0, 1)
    assert not by_records.full_due(1.0)
    do(by_records, 2)
    assert by_records.full_due(1.0)
    by_time = reading(seconds=5.0)
    assert not by_time.full_due(100.0)
    do(by_time, 0)
    assert not by_time.full_due(4.9)
    assert by_time.full_due(5.0)
    stopping = reading()
    assert not stopping.full_due(1.0, is_stopping=True)
    do(stopping, 0)
    assert not stopping.full_due(1.0)
    assert stopping.full_due(1.0, is_stopping=True)
    stopping.command()
    assert stopping.full_due(1.0)
    stopping.full_begun(1.0)
    assert not stopping.full_due(99.0, is_stopping=True)


def test_a_full_snapshot_holds_committed_records_only() -> None:
    made = reading(records=1)
    made.applied(0)
    assert not made.full_due(99.0)
    replaying = fenced(records=1)
    replaying.found(Increment(9), 10, 0)
    replaying.applied(5)
    assert not replaying.full_due(99.0)


def test_an_increment_knows_the_latest_full_snapshots() -> None:
    made = reading(records=1)
    for number in range(FULLS_KEPT + 2):
        do(made, 2 * number)
        made.full_begun(0.0)
        made.full_stored(number * 10)
        assert made.has_news
        last = do(made, 2 * number + 1)
        assert last.full == number * 10
        assert last.number == number + 1
        assert not made.has_news
    assert last.fulls == tuple(range((FULLS_KEPT + 1) * 10, 10, -10))
