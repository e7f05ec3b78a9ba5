"""How long ago the end of a partition went past an offset."""

from __future__ import annotations

from collections import deque

from moldau.broker.monitoring.group_lag import passed_at
from moldau.broker.monitoring.recent_rates import RecentRates

POINTS = deque([(1_000, 10), (2_000, 20), (3_000, 20), (4_000, 60)])


def test_an_offset_between_two_looks_was_passed_between_them() -> None:
    assert passed_at(POINTS, 15) == 1_500
    assert passed_at(POINTS, 10) == 1_000
    assert passed_at(POINTS, 20) == 3_000
    assert passed_at(POINTS, 40) == 3_500


def test_what_was_passed_before_the_first_look_counts_from_it() -> None:
    assert passed_at(POINTS, 3) == 1_000


def test_an_end_that_nobody_wrote_past_has_no_age() -> None:
    assert passed_at(POINTS, 60) is None


def test_rates_are_of_the_last_minute() -> None:
    now, totals = 0, {"a": 0}
    rates = RecentRates(lambda: totals, lambda: now)
    for _ in range(20):
        now += 10_000
        totals = {"a": totals["a"] + 50, "b": 7}
        rates.note()
    assert rates.rates(60) == {"a": 5.0, "b": 0.0}
    totals = {"a": totals["a"] + 600, "b": 7}
    now += 1
    assert rates.rates(60)["a"] == round(900 / 60.001, 4)
