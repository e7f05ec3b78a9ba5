"""Freed memory goes back to the system when a broker has grown, and seldom otherwise."""

from __future__ import annotations

import asyncio
import sys

import pytest

from moldau.broker.freed_memory import (
    GROWN_BYTES,
    LOOKS_MAX,
    FreedMemory,
    process_bytes,
    trim_heaps,
)


class Process:
    """What a process holds, and how often it was trimmed."""

    def __init__(self) -> None:
        self.bytes = 50_000_000
        self.trimmed = 0
        self.freed = FreedMemory(lambda: self.bytes, self._trim)

    def _trim(self) -> None:
        self.trimmed += 1

    def look(self) -> None:
        async def look() -> None:
            waiting = self.freed.look()
            if waiting is not None:
                await waiting

        asyncio.run(look())


def test_a_broker_that_has_not_grown_is_left_alone() -> None:
    process = Process()
    for _ in range(3 * LOOKS_MAX):
        process.bytes += GROWN_BYTES // (4 * LOOKS_MAX)
        process.look()
    assert process.trimmed == 0


def test_growth_is_looked_at_once_and_again_only_when_it_goes_on() -> None:
    process = Process()
    process.bytes += GROWN_BYTES
    process.look()
    process.look()
    assert process.trimmed == 1
    process.bytes += GROWN_BYTES
    process.look()
    assert process.trimmed == 2


def test_a_broker_that_stays_large_is_trimmed_now_and_then() -> None:
    process = Process()
    process.bytes += GROWN_BYTES
    for _ in range(1 + 3 * LOOKS_MAX):
        process.look()
    assert process.trimmed == 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone gives back")
def test_what_this_process_has_freed_between_things_in_use_is_given_back() -> None:
    resident_bytes = process_bytes()
    assert resident_bytes is not None
    # Written to: memory that is only asked for may not be there at all.
    kept = [b"x" * 100_000 for _ in range(2_000)]
    del kept[::2]
    before = resident_bytes()
    trim_heaps()
    assert resident_bytes() < before - 50_000_000
