"""The bell: nothing that rings is missed, and what rang long ago does not end a wait."""

from __future__ import annotations

import threading
import time

from moldau.client.consumer_bell import Bell


def never() -> bool:
    return False


def test_a_ring_ends_a_wait() -> None:
    bell = Bell()
    threading.Timer(0.05, bell.ring).start()
    began = time.monotonic()
    bell.wait(30, never)
    assert time.monotonic() - began < 10


def test_what_rings_while_the_waiter_looks_around_is_not_missed() -> None:
    bell = Bell()

    def ring_first() -> bool:
        bell.ring()
        return False

    began = time.monotonic()
    bell.wait(30, ring_first)
    assert time.monotonic() - began < 10


def test_earlier_rings_do_not_end_a_wait() -> None:
    bell = Bell()
    bell.ring()
    bell.wait(0.01, never)
    bell.ring()
    bell.ring()
    began = time.monotonic()
    bell.wait(0.05, never)
    assert time.monotonic() - began > 0.04


def test_nobody_waits_where_there_is_no_need() -> None:
    bell = Bell()
    began = time.monotonic()
    bell.wait(30, lambda: True)
    bell.wait(0, never)
    bell.wait(-1, never)
    assert time.monotonic() - began < 10
