"""Timers on the loop: one wake-up however many wait, and none lost to a failing callback."""

from __future__ import annotations

import pytest

from moldau.engine.timers import Timers
from tests.support.virtual_time import ManualTime


def test_callbacks_run_at_their_time_in_order() -> None:
    time = ManualTime()
    timers = Timers(time.clock, time.call_later)
    start_ms = time.clock.now_ms
    ran: list[tuple[str, int]] = []
    for name, delay_ms in (("c", 5000), ("a", 10), ("b", 430)):
        timers.after(delay_ms, lambda n=name: ran.append((n, time.clock.now_ms - start_ms)))
    time.pass_ms(10_000)
    assert ran == [("a", 10), ("b", 430), ("c", 5000)]


def test_a_cancelled_callback_never_runs() -> None:
    time = ManualTime()
    timers = Timers(time.clock, time.call_later)
    ran: list[str] = []
    timers.after(10, lambda: ran.append("no")).cancel()
    time.pass_ms(100)
    assert ran == []


def test_a_callback_can_cancel_another_of_the_same_instant() -> None:
    time = ManualTime()
    timers = Timers(time.clock, time.call_later)
    ran: list[str] = []
    timers.after(10, lambda: second.cancel())
    second = timers.after(10, lambda: ran.append("no"))
    time.pass_ms(100)
    assert ran == []


def test_the_loop_knows_of_one_wakeup_only() -> None:
    time = ManualTime()
    timers = Timers(time.clock, time.call_later)
    handles = [timers.after(500 + number % 1000, lambda: None) for number in range(10_000)]
    assert len(time.pending) == 1
    assert time.wakeups_made == 1
    timers.after(3, lambda: None)
    assert len(time.pending) == 1
    for handle in handles:
        handle.cancel()
    time.pass_ms(10_000)
    assert time.pending == []


def test_a_callback_may_set_a_timer() -> None:
    time = ManualTime()
    timers = Timers(time.clock, time.call_later)
    ran: list[int] = []

    def again() -> None:
        ran.append(time.clock.now_ms)
        if len(ran) < 3:
            timers.after(100, again)

    start_ms = time.clock.now_ms
    timers.after(100, again)
    time.pass_ms(1000)
    assert [at_ms - start_ms for at_ms in ran] == [100, 200, 300]


def test_a_failing_callback_does_not_take_others_with_it() -> None:
    time = ManualTime()
    timers = Timers(time.clock, time.call_later)
    ran: list[str] = []

    def fail() -> None:
        raise ValueError("on purpose")

    timers.after(10, fail)
    timers.after(10, lambda: ran.append("same instant"))
    timers.after(20, lambda: ran.append("later"))
    with pytest.raises(ValueError):
        time.pass_ms(10)
    time.pass_ms(100)
    assert ran == ["same instant", "later"]


def test_a_negative_delay_is_due_at_once() -> None:
    time = ManualTime()
    timers = Timers(time.clock, time.call_later)
    ran: list[str] = []
    timers.after(-5, lambda: ran.append("now"))
    time.pass_ms(0)
    assert ran == ["now"]


def test_nothing_runs_after_close() -> None:
    time = ManualTime()
    timers = Timers(time.clock, time.call_later)
    ran: list[str] = []
    timers.after(10, lambda: ran.append("no"))
    timers.close()
    time.pass_ms(100)
    assert ran == []
