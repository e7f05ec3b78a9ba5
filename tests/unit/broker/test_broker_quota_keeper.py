"""What a request costs its client, and for whom nothing is counted."""

from __future__ import annotations

from moldau.broker.access.quota_keeper import ClientQuotaKeeper
from moldau.config.broker_config import BrokerConfig
from moldau.handlers.quota_keeping import NO_MUTATIONS, UNLIMITED_BYTES, Usage
from moldau.handlers.request_context import RequestContext
from moldau.model.errors import ApiError, Error
from moldau.net.loop_time import LoopTime
from moldau.security.naming.principal import Principal
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

    def __init__(self) -> None:
        self.loop_time: LoopTime | None = LoopTime()

    def pause(self, pause_ms: int) -> None:
        raise AssertionError


def keeper(**quotas: float) -> ClientQuotaKeeper:
    made = ClientQuotaKeeper(BrokerConfig.parse({})[0], ManualClock())
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
    connection = Connected()
    loop_time = connection.loop_time
    assert loop_time is not None
    context = ctx(METADATA, Worked(0, 4_000), connection)

    def turn() -> None:
        quotas.settle(context, None)

    loop_time.turn(lambda: None)  # before anybody could pay
    loop_time.turn(turn)
    # 4 s of the handler; what is left of the turn is less than nothing, and not given back.
    share = quotas._share_of(context)
    assert share.request is not None
    assert 39.9 < share.request.rate.rate(1_000_000) < 41
    # Of a handler that waited, the first step is in its turn already.
    quotas.settle(ctx(METADATA, Worked(0, 3_000, before_wait_ms=2_000), connection), None)
    assert 49.9 < share.request.rate.rate(1_000_000) < 51


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
