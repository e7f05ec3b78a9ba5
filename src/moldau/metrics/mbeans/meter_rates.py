"""How fast counters grow: averages over one, five and fifteen minutes, as those of Kafka's meters.

Whoever keeps them notes all counters every five seconds. What does not grow costs a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from moldau.metrics.metric_definition import Samples, Tags

TICK_SECONDS = 5
MINUTES = (1, 5, 15)
STILL = (0.0, 0.0, 0.0)
SLOWEST = 1e-9
"""A slower rate is none."""


class _Meter(NamedTuple):
    counted: int
    rates: tuple[float, ...]


class MeterRates:
    def __init__(self) -> None:
        self._meters: dict[str, dict[Tags, _Meter]] = {}

    def of(self, bean: str, tags: Tags) -> tuple[float, ...]:
        """A second, over `MINUTES`."""
        meter = self._meters.get(bean, {}).get(tags)
        return STILL if meter is None else meter.rates

    def note(self, bean: str, samples: Samples, seconds: float) -> Iterator[None]:
        """What the counters of a metric are now, so many seconds after the last time. Each step
        is a place to rest at. Series that are gone are forgotten."""
        before = self._meters.get(bean, {})
        after: dict[Tags, _Meter] = {}
        shares = [1 - math.exp(-seconds / (60 * minutes)) for minutes in MINUTES]
        for sample in samples:
            if sample is None:
                yield
                continue
            tags, count = sample
            meter = before.get(tags)
            if meter is None:
                # Counters begin with 0.
                rate = count / seconds
                after[tags] = _Meter(count, (rate, rate, rate) if count else STILL)
            elif meter.counted == count and meter.rates is STILL:
                after[tags] = meter
            else:
                after[tags] = _grown(meter, count, seconds, shares)
        self._meters[bean] = after


def _grown(meter: _Meter, count: int, seconds: float, shares: list[float]) -> _Meter:
    now = max(0, count - meter.counted) / seconds
    rates = tuple(
        rate + share * (now - rate) for rate, share in zip(meter.rates, shares, strict=True)
    )
    return _Meter(count, STILL if max(rates) < SLOWEST else rates)
