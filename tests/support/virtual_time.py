"""Time that passes when a test says so: a clock, and the loop's call_later on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


class ManualClock:
    """Both kinds of time, in step until somebody sets the wall clock: `wall_step_ms`."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms
        self.wall_step_ms = 0

    def wall_ms(self) -> int:
        return self.now_ms + self.wall_step_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


@dataclass
class _Wakeup:
    at_ms: int
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class ManualTime:
    """`call_later` and the clock; `pass_ms` moves both and runs what comes due, in order."""

    clock: ManualClock = field(default_factory=ManualClock)
    wakeups: list[_Wakeup] = field(default_factory=list)
    wakeups_made: int = 0

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> _Wakeup:
        wakeup = _Wakeup(self.clock.now_ms + round(delay_s * 1000), callback)
        self.wakeups.append(wakeup)
        self.wakeups_made += 1
        return wakeup

    @property
    def pending(self) -> list[_Wakeup]:
        return [wakeup for wakeup in self.wakeups if not wakeup.is_cancelled]

    def pass_ms(self, delay_ms: int) -> None:
        end_ms = self.clock.now_ms + delay_ms
        while due := [wakeup for wakeup in self.pending if wakeup.at_ms <= end_ms]:
            wakeup = min(due, key=lambda each: each.at_ms)
            self.wakeups.remove(wakeup)
            self.clock.now_ms = max(self.clock.now_ms, wakeup.at_ms)
            wakeup.callback()
        self.clock.now_ms = end_ms
