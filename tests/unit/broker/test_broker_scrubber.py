"""The scrubber of a broker: when it looks, how fast it reads, that it ends when told to."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any, cast

import pytest

from moldau.broker.segment_scrubber import Scrubber, ScrubberParts
from moldau.broker.segment_scrubber_pass import ScrubberPass, Stopped
from moldau.config.broker_config import BrokerConfig
from tests.support.virtual_time import ManualClock

NOTHING = cast(Any, None)


class PatientEvent(Event):
    """Waiting takes no time but the clock's."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._clock.now_ms += round(timeout * 1000)
        return self.is_set()


def parts(clock: ManualClock, **settings: int) -> ScrubberParts:
    given = {key.replace("_", "."): str(value) for key, value in settings.items()}
    config, _ = BrokerConfig.parse(given)
    return ScrubberParts(NOTHING, NOTHING, NOTHING, None, lambda: config, clock, NOTHING)


def test_it_reads_no_faster_than_it_may() -> None:
    clock = ManualClock(0)
    around = parts(clock, log_scrubber_bytes_per_second=1_000_000)
    scrubbing = ScrubberPass(around, PatientEvent(clock))
    started_ms = clock.monotonic_ms()
    for _ in range(1000):
        scrubbing._paced(16_384)
    took_s = (clock.monotonic_ms() - started_ms) / 1000
    assert took_s == pytest.approx(16.384, rel=0.05)


def test_it_ends_when_the_broker_stops_and_when_it_is_turned_off() -> None:
    clock = ManualClock(0)
    stopping = PatientEvent(clock)
    scrubbing = ScrubberPass(parts(clock, log_scrubber_bytes_per_second=1_000), stopping)
    stopping.set()
    with pytest.raises(Stopped):
        scrubbing._paced(1)
    off = ScrubberPass(parts(clock, log_scrubber_bytes_per_second=0), PatientEvent(clock))
    with pytest.raises(Stopped):
        off._paced(1)


def test_it_is_off_unless_a_pace_is_set_and_waits_for_its_first_pass() -> None:
    clock = ManualClock(0)
    assert Scrubber(parts(clock)).look() is None
    scrubber = Scrubber(
        parts(clock, log_scrubber_bytes_per_second=1, log_initial_task_delay_ms=5_000)
    )
    assert scrubber.look() is None
    clock.now_ms += 5_000
    due = scrubber.look()
    assert asyncio.iscoroutine(due)
    due.close()
    scrubber.stop()
    assert scrubber.look() is None
