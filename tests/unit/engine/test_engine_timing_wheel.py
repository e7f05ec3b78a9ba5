"""The timing wheel: right times, and the same work per timer however many there are."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from moldau.engine.timing_wheel import TimingWheel
from tests.support import seeds


def due(wheel: TimingWheel[str], now_ms: int) -> list[str]:
    return [timer.item for timer in wheel.advance(now_ms)]


def test_a_timer_is_due_at_its_time_and_not_before() -> None:
    wheel: TimingWheel[str] = TimingWheel(now_ms=100)
    wheel.add("a", 107)
    assert due(wheel, 106) == []
    assert due(wheel, 107) == ["a"]
    assert due(wheel, 200) == []


def test_a_time_that_has_passed_is_due_at_the_next_advance() -> None:
    wheel: TimingWheel[str] = TimingWheel(now_ms=100)
    wheel.add("late", 50)
    assert wheel.next_at_ms() == 100
    assert due(wheel, 100) == ["late"]


def test_timers_come_out_in_the_order_of_their_times() -> None:
    wheel: TimingWheel[str] = TimingWheel()
    for at_ms in (8_500, 3, 19, 20, 21, 400, 399, 401, 7_999, 8_000, 160_001):
        wheel.add(str(at_ms), at_ms)
    assert due(wheel, 200_000) == [
        *("3", "19", "20", "21", "399", "400", "401", "7999", "8000", "8500", "160001")
    ]


def test_timers_of_one_instant_keep_the_order_they_were_added_in() -> None:
    wheel: TimingWheel[str] = TimingWheel()
    for name in "abc":
        wheel.add(name, 5)
    assert due(wheel, 5) == ["a", "b", "c"]


def test_a_cancelled_timer_never_comes() -> None:
    wheel: TimingWheel[str] = TimingWheel()
    kept, dropped = wheel.add("kept", 500), wheel.add("dropped", 500)
    dropped.cancel()
    dropped.cancel()
    assert wheel.advance(1000) == [kept]


def test_nobody_is_woken_for_timers_that_were_all_cancelled() -> None:
    wheel: TimingWheel[str] = TimingWheel()
    timers = [wheel.add("x", at_ms) for at_ms in range(1, 5000, 7)]
    for timer in timers:
        timer.cancel()
    assert wheel.next_at_ms() is None


def test_the_next_time_is_never_later_than_the_first_timer() -> None:
    rng = seeds.chance(7)
    wheel: TimingWheel[int] = TimingWheel()
    waiting = {at_ms: wheel.add(at_ms, at_ms) for at_ms in rng.sample(range(1, 10_000_000), 500)}
    now_ms = 0
    while waiting:
        next_at_ms = wheel.next_at_ms()
        assert next_at_ms is not None
        assert now_ms <= next_at_ms <= min(waiting)
        now_ms = next_at_ms
        for timer in wheel.advance(now_ms):
            assert timer.at_ms == now_ms
            del waiting[timer.item]


def test_random_timers_fire_exactly_once_and_on_time_whatever_the_steps() -> None:
    for seed in seeds.several(30, first=0):
        rng = random.Random(seed)
        now_ms = rng.randrange(10**9)
        wheel: TimingWheel[int] = TimingWheel(now_ms)
        expected: dict[int, int] = {}
        for step in range(300):
            at_ms = now_ms + rng.choice((1, 19, 20, 400, 8_000, 10**6)) * rng.randrange(1, 20)
            timer = wheel.add(step, at_ms)
            expected[step] = at_ms
            if rng.random() < 0.3:
                timer.cancel()
                del expected[step]
            now_ms += rng.choice((0, 1, 7, 333, 5_000))
            fired = [timer.item for timer in wheel.advance(now_ms)]
            assert fired == sorted(fired, key=lambda item: expected[item])
            assert set(fired) == {item for item, at in expected.items() if at <= now_ms}, seed
            for item in fired:
                del expected[item]


def calls_during(action: Callable[..., object], *args: object) -> tuple[int, object]:
    """How many functions, Python's and C's, the action calls; and what it returns."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        result = action(*args)
    finally:
        sys.setprofile(None)
    return count, result


def test_adding_and_cancelling_cost_the_same_beside_a_million_timers() -> None:
    empty: TimingWheel[int] = TimingWheel()
    full: TimingWheel[int] = TimingWheel()
    rng = random.Random(1)
    for number in range(1_000_000):
        full.add(number, rng.randrange(1, 600_000))
    assert len(full._soonest) <= 20 * 5, "the heap holds buckets, not timers"
    for at_ms in (1, 30, 3_000, 29_999, 500_000):
        calls_alone, alone = calls_during(empty.add, 0, at_ms)
        calls_crowded, crowded = calls_during(full.add, 0, at_ms)
        assert calls_crowded <= calls_alone
        assert calls_during(crowded.cancel)[0] <= calls_during(alone.cancel)[0]
