"""What a request costs its client, and for whom nothing is counted."""

from __future__ import annotations

import copy
import random
from functools import partial

from moldau.broker.access.quota_keeper import ClientQuotaKeeper
from moldau.config.broker_config import BrokerConfig
from moldau.handlers.quota_keeping import NO_MUTATIONS, UNLIMITED_BYTES, Usage
from moldau.handlers.request_context import RequestContext
from moldau.model.errors import ApiError, Error
from moldau.net.loop_time import LoopTime
from moldau.security.naming.principal import Principal
from moldau.security.quotas.budgets import NS_PER_MS, TimeBudget
from moldau.security.quotas.sampled_rate import SampledRate
from tests.support import seeds
from tests.support.virtual_time import ManualClock

PRODUCE, FETCH, METADATA, LEADER_AND_ISR = 0, 1, 3, 4
ALICE = (("user", "alice"),)


class Worked(Usage):
    """A handler that has worked as long as a test says."""

    def __init__(self, request_bytes: int, worked_ms: int, before_wait_ms: int = 0) -> None:
        super().__init__(request_bytes)
        self._worked_ns = worked_ms * 1_000_000
        self.before_wait_ns = before_wait_ms * 1_000_000


class Connected:
    client_software = ("", "")

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.loop_time: LoopTime | None = LoopTime()
        if clock is not None:
            self.loop_time = LoopTime(lambda: clock.now_ms * NS_PER_MS)

    def pause(self, pause_ms: int) -> None:
        raise AssertionError


def keeper(clock: ManualClock | None = None, **quotas: float) -> ClientQuotaKeeper:
    made = ClientQuotaKeeper(BrokerConfig.parse({})[0], clock or ManualClock())
    made.follow({ALICE: quotas} if quotas else {})
    return made


def ctx(
    api: int, usage: Usage | None, connection: Connected | None = None, user: str = "alice"
) -> RequestContext:
    principal = Principal("User", user)
    return RequestContext(api, 9, "c1", "PLAINTEXT", principal, connection=connection, usage=usage)


def test_without_quotas_nothing_is_counted() -> None:
    quotas = keeper()
    assert quotas.is_open
    context = ctx(PRODUCE, Worked(10**9, 10**6))
    assert quotas.settle(context, None) == 0
    assert quotas.settle_fetch(context, 10**9) == 0
    assert quotas.fetch_bytes_max(context) == UNLIMITED_BYTES
    assert quotas.mutations(context, is_strict=True) is NO_MUTATIONS
    quotas.follow({(("ip", None),): {"connection_creation_rate": 5.0}})
    assert quotas.is_open


def test_the_longer_wait_counts_and_acks_0_waits_for_its_bytes_only() -> None:
    quotas = keeper(producer_byte_rate=1_000, request_percentage=1.0)
    # 11,000 bytes: a second. 150 ms of work where a window has 100: capped at a second.
    assert quotas.settle(ctx(PRODUCE, Worked(11_000, 0)), None) == 1_000
    assert quotas.settle(ctx(PRODUCE, Worked(0, 10**6)), None) == 1_000
    assert quotas.settle(ctx(METADATA, Worked(0, 150)), None) == 1_000
    assert quotas.settle(ctx(METADATA, Worked(0, 150), user="bob"), None) == 0
    quotas.follow({ALICE: {"request_percentage": 100.0}})
    assert quotas.settle(ctx(METADATA, Worked(0, 1)), None) == 0


def test_what_brokers_ask_costs_nothing_unless_they_are_denied() -> None:
    quotas = keeper(request_percentage=0.001)
    context = ctx(LEADER_AND_ISR, Worked(0, 500))
    assert quotas.settle(context, None) == 0
    assert quotas.settle(context, ApiError(Error.STALE_BROKER_EPOCH)) == 0
    assert quotas.settle(context, ApiError(Error.CLUSTER_AUTHORIZATION_FAILED)) > 0


def test_a_fetch_that_has_to_wait_is_as_if_it_had_not_been() -> None:
    quotas = keeper(consumer_byte_rate=1_000, request_percentage=50.0)
    context = ctx(FETCH, Worked(100, 0))
    assert quotas.fetch_bytes_max(context) == 10_000
    assert quotas.settle_fetch(context, 12_000) == 2_000
    assert quotas.settle_fetch(context, 10_000) == 0
    # It has asked for itself: nobody counts it again.
    assert quotas.settle(context, None) == 0


def test_the_loops_time_is_paid_for_once() -> None:
    quotas = keeper(request_percentage=100.0)
    connection = Connected(ManualClock())
    loop_time = connection.loop_time
    assert loop_time is not None
    context = ctx(METADATA, Worked(0, 4_000), connection)

    def turn() -> None:
        quotas.settle(context, None)

    loop_time.turn(lambda: None)  # before anybody could pay
    loop_time.turn(turn)
    # 4 s of the handler; what is left of the turn is less than nothing, and not given back.
    request = quotas.share_of(context).request
    assert isinstance(request, TimeBudget)
    assert request.per_second(1_000_000) == 40
    # Of a handler that waited, the first step is in its turn already.
    quotas.settle(ctx(METADATA, Worked(0, 3_000, before_wait_ms=2_000), connection), None)
    assert request.per_second(1_000_000) == 50


def test_budgets_are_the_same_whatever_connection_a_client_comes_by() -> None:
    quotas = keeper(producer_byte_rate=1_000)
    assert quotas.settle_produce(ctx(PRODUCE, None), 10_000, 0) == 0
    assert quotas.settle_produce(ctx(PRODUCE, None), 1_000, 0) == 1_000
    quotas.drop_idle()
    assert quotas.settle_produce(ctx(PRODUCE, None), 0, 0) == 1_000
    quotas.follow({})
    assert quotas.settle_produce(ctx(PRODUCE, None), 10**6, 0) == 0


def test_old_clients_are_served_first_and_new_ones_refused() -> None:
    quotas = keeper(controller_mutation_rate=1.0)
    old = quotas.mutations(ctx(19, None), is_strict=False)
    old.take(13)
    assert old.throttle_ms() == 2_000
    new = quotas.mutations(ctx(19, None), is_strict=True)
    try:
        new.take(1)
    except ApiError as refusal:
        assert refusal.error is Error.THROTTLING_QUOTA_EXCEEDED
    else:
        raise AssertionError
    assert new.throttle_ms() == 2_000


def test_a_turn_before_the_first_request_is_paid_for_with_it() -> None:
    clock = ManualClock()
    quotas = keeper(clock, request_percentage=100.0)
    connection = Connected(clock)
    loop_time = connection.loop_time
    assert loop_time is not None

    def work(milliseconds: int, *, asks: bool) -> None:
        clock.now_ms += milliseconds
        if asks:
            settle_produce(quotas, connection, clock, 1)
            clock.now_ms += 100

    loop_time.turn(lambda: work(300, asks=False))
    loop_time.turn(lambda: work(500, asks=False))
    loop_time.turn(lambda: work(200, asks=True))
    request = quotas.share_of(ctx(PRODUCE, None)).request
    assert isinstance(request, TimeBudget)
    assert request.per_second(clock.now_ms) == 110 / 10.1  # 1.1 of 10.1 seconds


def settle_produce(
    quotas: ClientQuotaKeeper, connection: Connected, clock: ManualClock, request_bytes: int
) -> int:
    context = ctx(PRODUCE, None, connection)
    return quotas.settle_produce(context, request_bytes, clock.now_ms * NS_PER_MS)


def test_what_is_covered_would_not_have_had_to_wait() -> None:
    chance = seeds.chance()
    assert sum(BesideRecords(chance).run() for _ in range(60)) > 1_000


class BesideRecords:
    """Two connections of one client; beside them everything is recorded as it comes."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.clock = ManualClock()
        self.bytes_limit = chance.choice([2_000, 100_000])
        self.time_limit = chance.choice([5.0, 50.0])
        self.quotas = keeper(
            self.clock, producer_byte_rate=self.bytes_limit, request_percentage=self.time_limit
        )
        self.share = self.quotas.share_of(ctx(PRODUCE, None))
        self.bytes, self.time = SampledRate(), SampledRate()
        self.paid_until_ms = 0
        self.covered = 0

    def run(self) -> int:
        connections = [Connected(self.clock), Connected(self.clock)]
        for connection in connections:
            self.share.produce.spend(0, self.clock.now_ms)
            self.share.request.spend(0, self.clock.now_ms)
            assert connection.loop_time is not None
            connection.loop_time.paid_by(self.share.request)
        self.bytes.record(0, self.clock.now_ms)
        self.time.record(0, self.clock.now_ms)
        for _ in range(300):
            self.clock.now_ms += self.chance.choice([0, 1, 1, 20, 20, 999, 1_000, 12_000])
            connection = self.chance.choice(connections)
            assert connection.loop_time is not None
            connection.loop_time.turn(partial(self.turn, connection))
        return self.covered

    def turn(self, connection: Connected) -> None:
        chance, clock = self.chance, self.clock
        self.paid_until_ms = clock.now_ms
        for _ in range(chance.randrange(1, 5)):
            clock.now_ms += chance.choice([0, 0, 1, 2, 60])
            self.ask(connection)
        clock.now_ms += chance.choice([0, 1, 30])
        self.pay(self.time)

    def ask(self, connection: Connected) -> None:
        now = self.clock.now_ms
        size = self.chance.choice([100, 1_000, 9_000])
        self.bytes.record(size, now)
        wait_ms = self.bytes.throttle_ms(self.bytes_limit, now)
        if self.share.covers(size, now * NS_PER_MS):
            self.covered += 1
            # It would have been told the same if all had been asked.
            assert wait_ms == 0
            assert self.pay(copy.deepcopy(self.time)) == 0
        else:
            told_ms = settle_produce(self.quotas, connection, self.clock, size)
            assert told_ms == max(wait_ms, self.pay(self.time))
            self.paid_until_ms = now

    def pay(self, time: SampledRate) -> int:
        """For the turn so far."""
        now = self.clock.now_ms
        time.record((now - self.paid_until_ms) * NS_PER_MS, now)
        return min(1_000, time.throttle_ms(self.time_limit * 1e7, now))


def test_a_share_that_was_kept_covers_nothing_once_its_quotas_are_others() -> None:
    quotas = keeper(producer_byte_rate=1e6, request_percentage=100.0)
    share = quotas.share_of(ctx(PRODUCE, None))
    assert not share.covers(10, 0)  # nobody has looked at the rate
    quotas.settle_produce(ctx(PRODUCE, None), 10, 0)
    now_ns = 1_000_000 * NS_PER_MS
    share.request.spend(0, 1_000_000)
    assert share.covers(10, now_ns)
    assert not share.covers(10_000_000, now_ns)
    quotas.follow({ALICE: {"producer_byte_rate": 1.0}})
    assert not share.covers(10, now_ns)
    quotas.follow({ALICE: {"producer_byte_rate": 1e6}})
    kept = quotas.share_of(ctx(PRODUCE, None))
    assert quotas.settle_produce(ctx(PRODUCE, None), 10, 0) == 0
    # Nobody has a quota of time any more: there is always enough.
    assert kept.covers(10, now_ns)
    assert not kept.covers(10, now_ns + 1_000 * NS_PER_MS)
    quotas.follow({})
    assert not kept.covers(10, now_ns)
