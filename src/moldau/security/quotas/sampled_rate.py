"""A rate over the last samples, measured as Apache Kafka measures its quotas.

A sample is closed by the first event after its time, not by a clock; one whose last event is
older than the whole window counts no more. The window is never taken for shorter than all samples
but one: a burst is spread over about ten seconds, so the first one after silence passes.
"""

from __future__ import annotations

from math import floor

from moldau.model.names import Millis

THROTTLE_MS_MAX = 2**31 - 1


class SampledRate:
    __slots__ = (
        "_current",
        "_lasts",
        "_oldest_start",
        "_purge_at",
        "_sample_ms",
        "_samples_max",
        "_starts",
        "_total",
        "_values",
    )

    def __init__(self, samples_max: int = 11, sample_ms: Millis = 1_000) -> None:
        self._samples_max = samples_max
        self._sample_ms = sample_ms
        self._starts: list[Millis] = []
        self._lasts: list[Millis] = []
        self._values: list[float] = []
        self._current = -1
        self._total: float = 0
        self._oldest_start: Millis = 0
        self._purge_at: Millis = 0
        """No sample is too old before that."""

    def record(self, value: float, now: Millis) -> None:
        """A negative value takes back what was recorded a moment ago."""
        current = self._current
        if current < 0 or now - self._starts[current] >= self._sample_ms:
            current = self._advance(now)
        self._values[current] += value
        self._lasts[current] = now
        self._total += value

    def throttle_ms(self, limit: float, now: Millis) -> Millis:
        """How long to be silent until the rate is down to the limit (per second); 0 if it is."""
        window_ms = self.window_ms(now)
        rate = self._total / (window_ms / 1000.0)
        if rate <= limit:
            return 0
        if limit <= 0:
            return THROTTLE_MS_MAX
        throttle_ms = (rate - limit) / limit * window_ms + 0.5
        return floor(throttle_ms) if throttle_ms < THROTTLE_MS_MAX else THROTTLE_MS_MAX

    @property
    def steady_until_ms(self) -> Millis:
        """Until then events count for the sample under way, and no other one gets too old."""
        return min(self._starts[self._current] + self._sample_ms, self._purge_at)

    def room(self, limit: float) -> float:
        """How much more is within the limit whenever it comes in this sample: the window may be
        longer than all samples but one, and is never shorter."""
        return limit * (self._samples_max - 1) * self._sample_ms / 1000.0 - self._total

    def rate(self, now: Millis) -> float:
        """Per second."""
        window_ms = self.window_ms(now)
        return self._total / (window_ms / 1000.0)

    def window_ms(self, now: Millis) -> Millis:
        if now >= self._purge_at:
            self._purge(now)
        elapsed_ms = now - self._oldest_start
        missing = self._samples_max - 1 - elapsed_ms // self._sample_ms
        if missing > 0:
            elapsed_ms += missing * self._sample_ms
        return elapsed_ms or 1

    def is_idle(self, now: Millis) -> bool:
        """Whether nothing of it counts any more: a new one would say the same."""
        oldest_ms = self._samples_max * self._sample_ms
        return all(now - last >= oldest_ms for last in self._lasts)

    def _advance(self, now: Millis) -> int:
        # One sample more than the window has: the oldest may still reach into it.
        current = (self._current + 1) % (self._samples_max + 1)
        if current == len(self._starts):
            if not current:
                self._purge_at = now + self._samples_max * self._sample_ms
            self._starts.append(now)
            self._lasts.append(now)
            self._values.append(0)
        else:
            self._reset(current, now)
        self._current = current
        self._sum_up()
        return current

    def _purge(self, now: Millis) -> None:
        if self._current < 0:
            self._advance(now)
        oldest_ms = self._samples_max * self._sample_ms
        for index, last in enumerate(self._lasts):
            if now - last >= oldest_ms:
                self._reset(index, now)
        self._sum_up()
        self._purge_at = min(self._lasts) + oldest_ms

    def _reset(self, index: int, now: Millis) -> None:
        self._starts[index] = self._lasts[index] = now
        self._values[index] = 0

    def _sum_up(self) -> None:
        # Anew each time: sums of fractions would drift.
        self._total = sum(self._values)
        self._oldest_start = min(self._starts)
