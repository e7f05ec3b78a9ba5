"""A bucket of tokens for changes that come in bursts, with Apache Kafka's arithmetic (KIP-599).

It fills at the rate of the quota and holds what the whole window allows. It may go below zero;
then whoever wants more has to wait until it is back at zero.
"""

from __future__ import annotations

from math import floor, inf

from moldau.model.names import Millis

THROTTLE_MS_MAX = 2**31 - 1


class TokenBucket:
    __slots__ = ("_tokens", "_updated_ms", "_window_seconds")

    def __init__(self, samples_max: int = 11, sample_ms: Millis = 1_000) -> None:
        self._window_seconds = samples_max * sample_ms / 1000
        self._tokens = inf
        """Full, whatever the rate will be."""
        self._updated_ms: Millis = 0

    def take(self, count: float, rate: float, now: Millis) -> None:
        self._tokens = min(rate * self._window_seconds, self.tokens(rate, now) - count)

    def tokens(self, rate: float, now: Millis) -> float:
        refilled = self._tokens + rate * ((now - self._updated_ms) / 1000)
        self._tokens = min(rate * self._window_seconds, refilled)
        self._updated_ms = now
        return self._tokens

    def throttle_ms(self, rate: float, now: Millis) -> Millis | None:
        """How long until it is at zero again; None if it is."""
        tokens = self.tokens(rate, now)
        if tokens >= 0:
            return None
        if rate <= 0:
            return THROTTLE_MS_MAX
        throttle_ms = -tokens / rate * 1000 + 0.5
        return floor(throttle_ms) if throttle_ms < THROTTLE_MS_MAX else THROTTLE_MS_MAX

    def is_full(self, rate: float, now: Millis) -> bool:
        """Then a new one would say the same."""
        return self.tokens(rate, now) >= rate * self._window_seconds
