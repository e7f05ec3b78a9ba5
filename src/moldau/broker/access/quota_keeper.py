"""Keeps clients to their quotas: what every request costs, and how long its client has to wait.

All clients that share a budget are one here, whatever connection they come by. Nothing is recorded
for a kind of quota that nobody has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from moldau.config.broker_config import BrokerConfig
from moldau.handlers.quota_keeping import NO_MUTATIONS, UNLIMITED_BYTES, Mutations, Usage
from moldau.handlers.request_context import RequestContext
from moldau.metadata.paths import entity_name
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.security.quotas.budgets import (
    Budgets,
    RateBudget,
    TimeBudget,
    TokenBudget,
    Window,
)
from moldau.security.quotas.client_limits import Tags
from moldau.security.quotas.client_share import Share
from moldau.security.quotas.quota_entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from moldau.security.quotas.quota_filters import Quotas
from moldau.wire.schema import Message

log = logging.getLogger("kafka.server.ClientQuotaManager")

PRODUCE: Final = 0
FETCH: Final = 1
AMONG_BROKERS: Final = frozenset({4, 5, 6, 7, 27, 56, 67})
"""Their time counts for nobody, unless they are denied."""
SHARES_MAX: Final = 10_000
NAMES: Final = {
    PRODUCER_BYTE_RATE: "Produce",
    CONSUMER_BYTE_RATE: "Fetch",
    REQUEST_PERCENTAGE: "Request",
    CONTROLLER_MUTATION_RATE: "ControllerMutation",
}


_AnyBudgets = Budgets[RateBudget] | Budgets[TimeBudget] | Budgets[TokenBudget]


class ClientQuotaKeeper:
    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms
        seconds = config.quota_window_size_seconds
        window = Window(config.quota_window_num, seconds * 1000)
        changes = Window(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        )
        self._fetch_seconds = (window.samples - 1) * seconds
        self._produce = Budgets(lambda: RateBudget(window))
        self._fetch = Budgets(lambda: RateBudget(window))
        self._request = Budgets(lambda: TimeBudget(window, throttle_ms_max=window.sample_ms))
        self._mutations = Budgets(lambda: TokenBudget(changes))
        self._by_key: Mapping[str, _AnyBudgets] = {
            PRODUCER_BYTE_RATE: self._produce,
            CONSUMER_BYTE_RATE: self._fetch,
            REQUEST_PERCENTAGE: self._request,
            CONTROLLER_MUTATION_RATE: self._mutations,
        }
        self._limits: dict[str, dict[QuotaEntity, float]] = {key: {} for key in NAMES}
        self._shares: dict[tuple[str, str | None], Share] = {}
        self._generation = 0
        self.is_open = True

    @property
    def counts_time(self) -> bool:
        """Whether anybody has a quota of the time that is spent on requests."""
        return bool(self._limits[REQUEST_PERCENTAGE])

    def follow(self, quotas: Quotas) -> None:
        for key, budgets in self._by_key.items():
            limits = {entity: values[key] for entity, values in quotas.items() if key in values}
            if limits != self._limits[key]:
                _tell(NAMES[key], self._limits[key], limits)
                self._limits[key] = limits
                budgets.follow(limits)
        self._shares.clear()
        self.is_open = not any(self._limits.values())

    def drop_idle(self) -> None:
        """What nobody has used for an hour."""
        now = self._now_ms()
        for budgets in self._by_key.values():
            budgets.drop_idle(now)
        self._shares.clear()

    def used(self) -> Iterator[tuple[str, Tags, float, float]]:
        """Of every budget: the kind of quota, whose it is, what is spent of it by the second, and
        how long (ms) its clients would have to wait now. Of changes what is left, in the place of
        what is spent."""
        now = self._now_ms()
        rates: dict[str, Budgets[RateBudget] | Budgets[TimeBudget]]
        rates = {"Produce": self._produce, "Fetch": self._fetch, "Request": self._request}
        for kind, budgets in rates.items():
            for tags, budget in list(budgets.items()):
                yield kind, tags, budget.per_second(now), budget.throttle_ms(now)
        for tags, changes in list(self._mutations.items()):
            if changes.limit is not None:
                left = changes.bucket.tokens(changes.limit, now)
                yield "ControllerMutation", tags, left, changes.throttle_ms(now) or 0

    # What a request costs

    def settle(self, ctx: RequestContext, outcome: Message | ApiError | None) -> Millis:
        usage = ctx.usage
        if usage is None or ctx.api_key == FETCH:
            return 0
        share = self.share_of(ctx)
        now = self._now_ms()
        throttle_ms = 0
        if ctx.api_key == PRODUCE:
            throttle_ms = share.produce.spend(usage.request_bytes, now)
        if not _is_exempt(ctx, outcome):
            throttle_ms = max(throttle_ms, _charge(ctx, share, usage, now))
        return throttle_ms

    def settle_produce(self, ctx: RequestContext, request_bytes: int, now_ns: int) -> Millis:
        share = self.share_of(ctx)
        now = self._now_ms()
        throttle_ms = share.produce.spend(request_bytes, now)
        loop_time = None if ctx.connection is None else ctx.connection.loop_time
        if loop_time is None:
            return throttle_ms
        loop_time.paid_by(share.request)
        return max(throttle_ms, share.request.spend(loop_time.due_ns(now_ns), now))

    def settle_fetch(self, ctx: RequestContext, response_bytes: int) -> Millis:
        usage = ctx.usage
        if usage is None:
            return 0
        share = self.share_of(ctx)
        now = self._now_ms()
        throttle_ms = _charge(ctx, share, usage, now)
        if share.fetch is not None:
            throttle_ms = max(throttle_ms, share.fetch.spend(response_bytes, now))
            if throttle_ms:
                share.fetch.note(-response_bytes, now)
        return throttle_ms

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        budget = self.share_of(ctx).fetch
        if budget is None or budget.limit is None:
            return UNLIMITED_BYTES
        return int(min(budget.limit * self._fetch_seconds, UNLIMITED_BYTES))

    def mutations(self, ctx: RequestContext, *, is_strict: bool) -> Mutations:
        budget = self.share_of(ctx).mutations
        if budget is None:
            return NO_MUTATIONS
        return _RequestedMutations(budget, self._now_ms, is_strict=is_strict)

    def share_of(self, ctx: RequestContext) -> Share:
        share = self._shares.get((ctx.principal.name, ctx.client_id))
        return share or self._new_share(ctx.principal.name, ctx.client_id)

    def _new_share(self, user: str, client_id: str | None) -> Share:
        asked = user, client_id or "", self._now_ms()
        share = Share(
            self._produce.of(*asked),
            self._fetch.of(*asked),
            self._request.of(*asked),
            self._mutations.of(*asked),
        )
        generation = sum(budgets.generation for budgets in self._by_key.values())
        if generation != self._generation or len(self._shares) >= SHARES_MAX:
            # Some of those that are remembered may have budgets that are gone.
            self._shares.clear()
            self._generation = generation
        self._shares[user, client_id] = share
        return share


def _charge(ctx: RequestContext, share: Share, usage: Usage, now: Millis) -> Millis:
    """The time of its handler; how long its client has to wait. What a handler did before it waited
    is in its turn of the loop, and paid for with that."""
    local_ns = usage.local_ns
    loop_time = None if ctx.connection is None else ctx.connection.loop_time
    if loop_time is not None:
        loop_time.paid_by(share.request)
        if usage.before_wait_ns:
            local_ns -= usage.before_wait_ns
        else:
            loop_time.charge(local_ns)
    return share.request.spend(local_ns, now)


class _RequestedMutations:
    def __init__(
        self, budget: TokenBudget, now_ms: Callable[[], Millis], *, is_strict: bool
    ) -> None:
        self._budget = budget
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._throttled_until_ms: Millis = 0

    def take(self, partitions: int) -> None:
        now = self._now_ms()
        if self._is_strict:
            throttle_ms = self._budget.throttle_ms(now)
            if throttle_ms is not None:
                self._throttled_until_ms = now + throttle_ms
                raise ApiError(Error.THROTTLING_QUOTA_EXCEEDED)
        self._budget.spend(partitions, now)
        if not self._is_strict:
            throttle_ms = self._budget.throttle_ms(now)
            if throttle_ms is not None:
                self._throttled_until_ms = now + throttle_ms

    def throttle_ms(self) -> Millis:
        return max(0, self._throttled_until_ms - self._now_ms())


def _is_exempt(ctx: RequestContext, outcome: Message | ApiError | None) -> bool:
    if ctx.api_key == PRODUCE:
        return outcome is None
    if ctx.api_key not in AMONG_BROKERS:
        return False
    return not (
        isinstance(outcome, ApiError) and outcome.error is Error.CLUSTER_AUTHORIZATION_FAILED
    )


def _tell(
    name: str, before: Mapping[QuotaEntity, float], after: Mapping[QuotaEntity, float]
) -> None:
    for entity, limit in after.items():
        if before.get(entity) != limit:
            log.info("Changing %s quota for %s to %s", name, _words(entity), limit)
    for entity in before.keys() - after.keys():
        log.info("Removing %s quota for %s", name, _words(entity))


def _words(entity: QuotaEntity) -> str:
    return " ".join(
        f"default {kind}" if name is None else f"{kind} {entity_name(name)}"
        for kind, name in entity
    )
