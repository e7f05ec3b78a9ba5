"""How fast connections may come: to the broker, to each of its listeners, from each address.

The rates are averages over Apache Kafka's windows: a short burst passes. Whoever accepts says when
a connection has come and is told how long to wait before the next one, a sample at the most. One
that its address may not make yet counts for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.model.names import Millis
from moldau.security.quotas.budgets import BoundedBudgets, RateBudget, Window

UNLIMITED = 2**31 - 1


class ConnectionRates:
    def __init__(self, window: Window, *, is_protected: Callable[[str], bool]) -> None:
        """`is_protected`: whether a listener is not held to the limit of the whole broker."""
        self._window = window
        self._is_protected = is_protected
        self._broker = self._new()
        self._listeners: dict[str, RateBudget] = {}
        self._addresses = BoundedBudgets[str, RateBudget](self._new)
        self._address_limits: Mapping[str, float] = {}
        self._address_limit: float = UNLIMITED

    def _new(self) -> RateBudget:
        return RateBudget(self._window, throttle_ms_max=self._window.sample_ms)

    def limit(self, broker: float, listeners: Mapping[str, float]) -> None:
        self._broker.limit = _limit(broker)
        for name, limit in listeners.items():
            self._listeners.setdefault(name, self._new()).limit = _limit(limit)

    def limit_addresses(self, limits: Mapping[str, float], default: float = UNLIMITED) -> None:
        self._address_limits, self._address_limit = limits, default
        for address, budget in self._addresses.items():
            budget.limit = _limit(self._limit_of(address))

    def came(self, listener: str, now: Millis) -> Millis:
        """How long to accept nothing more there."""
        throttle_ms = 0
        if not self._is_protected(listener):
            throttle_ms = self._broker.spend(1, now)
        budget = self._listeners.get(listener)
        return throttle_ms if budget is None else max(throttle_ms, budget.spend(1, now))

    def came_from(self, address: str, listener: str, now: Millis) -> Millis:
        """0 if it may stay. If not, how long to make it wait before it is closed."""
        limit = self._limit_of(address)
        if limit >= UNLIMITED:
            return 0
        budget = self._addresses.get(address)
        if budget is None:
            budget = self._addresses.make(address, now)
            budget.limit = limit
        throttle_ms = budget.spend(1, now)
        if throttle_ms:
            budget.note(-1, now)
            if not self._is_protected(listener):
                self._broker.note(-1, now)
            if listener in self._listeners:
                self._listeners[listener].note(-1, now)
        return throttle_ms

    def _limit_of(self, address: str) -> float:
        return self._address_limits.get(address, self._address_limit)


def _limit(rate: float) -> float | None:
    return None if rate >= UNLIMITED else rate
