"""Timers in buckets of buckets: adding and cancelling cost the same with ten or a million of them.

Pure. Level 0 has one bucket per millisecond, each further level buckets twenty times as wide; a
timer waits in the widest bucket it needs and moves down as its time comes near. A heap of buckets,
not of timers, tells when something has to happen next, and it holds at most twenty per level.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

from moldau.model.names import Millis

BUCKETS_PER_LEVEL = 20

T = TypeVar("T")


class WheelTimer(Generic[T]):
    __slots__ = ("_bucket", "at_ms", "is_cancelled", "item")

    def __init__(self, item: T, at_ms: Millis) -> None:
        self.item = item
        self.at_ms = at_ms
        self.is_cancelled = False
        self._bucket: dict[WheelTimer[T], None] | None = None

    def cancel(self) -> None:
        """Also stops one that `advance` has returned already but that was not acted on yet."""
        self.is_cancelled = True
        if self._bucket is not None:
            del self._bucket[self]
            self._bucket = None

    def _move_to(self, bucket: dict[WheelTimer[T], None] | None) -> None:
        self._bucket = bucket
        if bucket is not None:
            bucket[self] = None


class TimingWheel(Generic[T]):
    __slots__ = ("_buckets", "_now_ms", "_soonest")

    def __init__(self, now_ms: Millis = 0) -> None:
        self._now_ms = now_ms
        self._buckets: dict[tuple[Millis, Millis], dict[WheelTimer[T], None]] = {}
        """By start and width; a dict as bucket keeps timers of one instant in order."""
        self._soonest: list[tuple[Millis, Millis]] = []

    def add(self, item: T, at_ms: Millis) -> WheelTimer[T]:
        """A time that has passed is due at the next `advance`."""
        timer = WheelTimer(item, at_ms)
        self._place(timer)
        return timer

    def next_at_ms(self) -> Millis | None:
        """When `advance` has something to do: never later than the first timer is due."""
        soonest = self._soonest
        while soonest and not self._buckets[soonest[0]]:
            # Cancelled to the last timer: nobody has to wake for this one.
            del self._buckets[heappop(soonest)]
        return soonest[0][0] if soonest else None

    def advance(self, now_ms: Millis) -> list[WheelTimer[T]]:
        """Move the time; returns the timers that are due by now, the earliest first."""
        due: list[WheelTimer[T]] = []
        while self._soonest and self._soonest[0][0] <= now_ms:
            key = heappop(self._soonest)
            bucket = self._buckets.pop(key)
            self._now_ms = max(self._now_ms, key[0])
            for timer in bucket:
                if timer.at_ms <= self._now_ms:
                    timer._move_to(None)
                    due.append(timer)
                else:
                    self._place(timer)
        self._now_ms = max(self._now_ms, now_ms)
        return due

    def _place(self, timer: WheelTimer[T]) -> None:
        delay_ms = timer.at_ms - self._now_ms
        width_ms = 1
        while delay_ms >= width_ms * BUCKETS_PER_LEVEL:
            width_ms *= BUCKETS_PER_LEVEL
        start_ms = max(timer.at_ms, self._now_ms) // width_ms * width_ms
        key = (start_ms, width_ms)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = {}
            heappush(self._soonest, key)
        timer._move_to(bucket)
