"""The wake-up of a poll: no call is missed, and one of long ago does not end a wait."""

from __future__ import annotations

import threading
import time

from moldau.client.consumer.poll_wakeup import PollWakeup


def never() -> bool:
    return False


def test_a_call_ends_a_wait() -> None:
    wakeup = PollWakeup()
    threading.Timer(0.05, wakeup.wake).start()
    began = time.monotonic()
    wakeup.wait(30, never)
    assert time.monotonic() - began < 10


def test_what_rings_while_the_waiter_looks_around_is_not_missed() -> None:
    wakeup = PollWakeup()

    def ring_first() -> bool:
        wakeup.wake()
        return False

    began = time.monotonic()
    wakeup.wait(30, ring_first)
    assert time.monotonic() - began < 10


def test_earlier_rings_do_not_end_a_wait() -> None:
    wakeup = PollWakeup()
    wakeup.wake()
    wakeup.wait(0.01, never)
    wakeup.wake()
    wakeup.wake()
    began = time.monotonic()
    wakeup.wait(0.05, never)
    assert time.monotonic() - began > 0.04


def test_nobody_waits_where_there_is_no_need() -> None:
    wakeup = PollWakeup()
    began = time.monotonic()
    wakeup.wait(30, lambda: True)
    wakeup.wait(0, never)
    wakeup.wait(-1, never)
    assert time.monotonic() - began < 10
