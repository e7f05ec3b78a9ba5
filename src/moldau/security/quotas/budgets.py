"""What clients have used of one kind of quota: one budget for all that share it.

Bounded: an idle budget says what a new one would say, so it may go when there are too many, and
goes after an hour in any case, as Apache Kafka's sensors do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from moldau.model.names import Millis
from moldau.security.quotas.client_limits import ClientLimits, Tags
from moldau.security.quotas.quota_entities import QuotaEntity
from moldau.security.quotas.sampled_rate import SampledRate
from moldau.security.quotas.token_bucket import TokenBucket

BUDGETS_MAX = 10_000
DROPPED_AT_ONCE = BUDGETS_MAX // 10
IDLE_MS_MAX = 60 * 60 * 1000
NOTHING_WAITS = -1
NS_PER_MS = 1_000_000
UNBOUNDED = 2**59
"""More than anybody can spend in a sample."""


class Window(NamedTuple):
    samples: int = 11
    sample_ms: Millis = 1_000


class Budget(Protocol):
    limit: float | None
    """None while there is no quota for its clients, though there are some for others."""
    used_ms: Millis

    def is_idle(self, now: Millis) -> bool: ...

    def retire(self) -> None: ...


class RateBudget:
    """Of bytes, or of whatever else is counted, measured over samples.

    What is certain to stay below the limit, within the sample under way, is only added up: most
    requests cost a comparison. It is recorded before anything else is asked, so the answers are
    those that recording each of them would give. Where every call counts (`client_share.py`) this
    is done in place: `value < room and now_ns < until_ns`, then `room` is less by the value and
    `last_ns` is now. Nanoseconds are of the clock that the milliseconds are of."""

    __slots__ = (
        "_given",
        "_limit",
        "_rate",
        "_used_ms",
        "last_ns",
        "room",
        "throttle_ms_max",
        "until_ns",
    )

    unit = 1.0
    """What is spent is counted in parts; so many of them are one of what the limit is in."""

    def __init__(self, window: Window, throttle_ms_max: Millis | None = None) -> None:
        self._limit: float | None = None
        self._rate = SampledRate(*window)
        self.throttle_ms_max = throttle_ms_max
        self._used_ms: Millis = 0
        self.room: float = 0
        """What may still be spent before the rate has to be looked at; less than it was `_given` by
        what is spent and not recorded yet."""
        self.until_ns = 0
        """When it has to be looked at in any case."""
        self.last_ns = NOTHING_WAITS
        """When the last was spent of what is not recorded yet."""
        self._given: float = 0

    @property
    def limit(self) -> float | None:
        return None if self._limit is None else self._limit / self.unit

    @limit.setter
    def limit(self, limit: float | None) -> None:
        self.retire()
        self._limit = None if limit is None else limit * self.unit

    @property
    def used_ms(self) -> Millis:
        return max(self._used_ms, self.last_ns // NS_PER_MS)

    @used_ms.setter
    def used_ms(self, now: Millis) -> None:
        self._used_ms = now

    @property
    def rate(self) -> SampledRate:
        """With all that was spent."""
        if self.last_ns != NOTHING_WAITS:
            self._used_ms = self.last_ns // NS_PER_MS
            self._rate.record(self._take_waiting(), self._used_ms)
            self.last_ns = NOTHING_WAITS
        return self._rate

    def _take_waiting(self) -> float:
        waiting, self._given = self._given - self.room, self.room
        return waiting

    def retire(self) -> None:
        """Nothing is certain any more: whoever keeps this budget has to ask whether it holds."""
        self._give(self.rate, 0, 0)

    def spend(self, value: float, now: Millis) -> Millis:
        """Record it; how long its client has to wait."""
        return 0 if self._is_certain(value, now) else self._judge(value, now)

    def _is_certain(self, value: float, now: Millis) -> bool:
        now_ns = now * NS_PER_MS
        if value >= self.room or now_ns >= self.until_ns:
            return False
        self.room -= value
        self.last_ns = now_ns
        return True

    def _judge(self, value: float, now: Millis) -> Millis:
        rate, limit = self.rate, self._limit
        rate.record(value, now)
        self._used_ms = now
        throttle_ms = 0 if limit is None else rate.throttle_ms(limit, now)
        room = 0.0 if throttle_ms else UNBOUNDED if limit is None else rate.room(limit)
        self._give(rate, min(room, UNBOUNDED), now)
        if self.throttle_ms_max is not None and throttle_ms > self.throttle_ms_max:
            return self.throttle_ms_max
        return throttle_ms

    def _give(self, rate: SampledRate, room: float, now: Millis) -> None:
        self.room = self._given = int(room)
        self.until_ns = rate.steady_until_ms * NS_PER_MS if room > 0 else 0

    def note(self, value: float, now: Millis) -> None:
        """Record what nobody has to wait for now; negative to take back."""
        if value < 0 or not self._is_certain(value, now):
            self.rate.record(value, now)
            self._used_ms = now
            self._give(self._rate, 0, now)

    def per_second(self, now: Millis) -> float:
        """What is spent, as the limit is told."""
        return self.rate.rate(now) / self.unit

    def throttle_ms(self, now: Millis) -> Millis:
        """How long its clients would have to wait now."""
        return 0 if self._limit is None else self.rate.throttle_ms(self._limit, now)

    def is_idle(self, now: Millis) -> bool:
        return self.rate.is_idle(now)


class TimeBudget(RateBudget):
    """Of the time that the loop spends, in nanoseconds; the limit is in per cent of a second.

    No more can be spent than passes. So while less time has passed than may be spent, all of it is
    only added up: before `until_ns` whoever spends in passing (`net/loop_time.py`) adds to
    `spent_ns` and sets `last_ns`."""

    __slots__ = ("spent_ns",)

    unit = 1e9 / 100.0

    def __init__(self, window: Window, throttle_ms_max: Millis | None = None) -> None:
        super().__init__(window, throttle_ms_max)
        self.spent_ns = 0

    def _take_waiting(self) -> float:
        waiting, self.spent_ns = self.spent_ns, 0
        return waiting

    def _is_certain(self, value: float, now: Millis) -> bool:
        now_ns = now * NS_PER_MS
        if now_ns + value >= self.until_ns:
            return False
        # It may have been worked before the room was measured.
        self.until_ns -= int(value)
        self.spent_ns += int(value)
        self.last_ns = now_ns
        return True

    def _give(self, rate: SampledRate, room: float, now: Millis) -> None:
        now_ns = now * NS_PER_MS
        self.until_ns = 0
        if room > 0:
            self.until_ns = min(rate.steady_until_ms * NS_PER_MS, now_ns + int(room))


class TokenBudget:
    """Of changes that the controller makes."""

    __slots__ = ("bucket", "limit", "used_ms")

    def __init__(self, window: Window) -> None:
        self.limit: float | None = None
        self.bucket = TokenBucket(*window)
        self.used_ms: Millis = 0

    def spend(self, count: float, now: Millis) -> None:
        self.used_ms = now
        if self.limit is not None:
            self.bucket.take(count, self.limit, now)

    def throttle_ms(self, now: Millis) -> Millis | None:
        """How long to wait for more; None if there is some left."""
        return None if self.limit is None else self.bucket.throttle_ms(self.limit, now)

    def is_idle(self, now: Millis) -> bool:
        return self.limit is None or self.bucket.is_full(self.limit, now)

    def retire(self) -> None:
        """Nobody spends of it without asking."""


B = TypeVar("B", bound=Budget)
K = TypeVar("K")


class BoundedBudgets(Generic[K, B]):
    """By whoever they are for, made when they are first needed."""

    __slots__ = ("_budgets", "_new", "dropped")

    def __init__(self, new: Callable[[], B]) -> None:
        self._new = new
        self._budgets: dict[K, B] = {}
        self.dropped = 0
        """Counts how often some went: who keeps one has to ask for it again then."""

    def __len__(self) -> int:
        return len(self._budgets)

    def items(self) -> Iterable[tuple[K, B]]:
        return self._budgets.items()

    def get(self, key: K) -> B | None:
        return self._budgets.get(key)

    def make(self, key: K, now: Millis) -> B:
        if len(self._budgets) >= BUDGETS_MAX:
            self._make_room(now)
        budget = self._budgets[key] = self._new()
        budget.used_ms = now
        return budget

    def clear(self) -> None:
        self._drop(list(self._budgets))

    def drop_idle(self, now: Millis) -> None:
        self._drop([key for key, b in self._budgets.items() if now - b.used_ms >= IDLE_MS_MAX])

    def _make_room(self, now: Millis) -> None:
        idle = [key for key, budget in self._budgets.items() if budget.is_idle(now)]
        if not idle:
            by_use = sorted(self._budgets, key=lambda key: self._budgets[key].used_ms)
            idle = by_use[:DROPPED_AT_ONCE]
        self._drop(idle)

    def _drop(self, gone: Sequence[K]) -> None:
        for key in gone:
            self._budgets.pop(key).retire()
        if gone:
            self.dropped += 1


class Budgets(Generic[B]):
    """Of the clients, for one kind of quota."""

    __slots__ = ("_budgets", "_changes", "limits")

    def __init__(self, new: Callable[[], B]) -> None:
        self._budgets = BoundedBudgets[Tags, B](new)
        self._changes = 0
        self.limits = ClientLimits({})

    def __len__(self) -> int:
        return len(self._budgets)

    def items(self) -> Iterable[tuple[Tags, B]]:
        return self._budgets.items()

    @property
    def generation(self) -> int:
        """Grows when budgets go, or may be others: who keeps one has to ask for it again then."""
        return self._changes + self._budgets.dropped

    def follow(self, limits: Mapping[QuotaEntity, float]) -> None:
        """New quotas hold at once, for what was used before as well."""
        self._changes += 1
        self.limits = ClientLimits(limits)
        if self.limits.is_empty:
            self._budgets.clear()
        for tags, budget in self._budgets.items():
            budget.limit = self.limits.limit_of(tags)

    def of(self, user: str, client_id: str, now: Millis) -> B | None:
        """None while there are no quotas of this kind."""
        if self.limits.is_empty:
            return None
        tags = self.limits.tags_of(user, client_id)
        budget = self._budgets.get(tags)
        if budget is None:
            budget = self._budgets.make(tags, now)
            budget.limit = self.limits.limit_of(tags)
        return budget

    def drop_idle(self, now: Millis) -> None:
        self._budgets.drop_idle(now)
