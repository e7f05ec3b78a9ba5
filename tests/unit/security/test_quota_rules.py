"""Whom a quota is for, who shares it, which changes are good and what a question finds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.model.errors import ApiError, Error
from moldau.security.quotas import budgets as budget_room
from moldau.security.quotas.budgets import Budgets, RateBudget, TimeBudget, TokenBudget, Window
from moldau.security.quotas.client_limits import ClientLimits, Tags
from moldau.security.quotas.connection_rates import ConnectionRates
from moldau.security.quotas.quota_changes import AskedChange, judged
from moldau.security.quotas.quota_entities import QuotaEntity, parse_values
from moldau.security.quotas.quota_filters import Component, Match, described
from moldau.security.quotas.sampled_rate import SampledRate
from tests.support import seeds

ALICE = (("user", "alice"),)
ANY_USER = (("user", None),)
ONE = (("client-id", "c1"),)
ANY_CLIENT = (("client-id", None),)
PAIR = (*ALICE, *ONE)
HOST = (("ip", "10.0.0.1"),)


def limits(*entities: QuotaEntity) -> ClientLimits:
    """The limit of each is its place."""
    return ClientLimits({entity: place for place, entity in enumerate(entities, 1)})


PRECEDENCE = [
    PAIR,
    (*ALICE, *ANY_CLIENT),
    ALICE,
    (*ANY_USER, *ONE),
    (*ANY_USER, *ANY_CLIENT),
    ANY_USER,
    ONE,
    ANY_CLIENT,
]


@pytest.mark.parametrize("strongest", range(len(PRECEDENCE)))
def test_the_most_specific_quota_holds(strongest: int) -> None:
    known = ClientLimits(
        {entity: float(n) for n, entity in enumerate(PRECEDENCE) if n >= strongest}
    )
    tags = known.tags_of("alice", "c1")
    # With only the weakest one left there is one form, and it is looked up as that.
    assert known.limit_of(tags) == strongest
    shares_user = any(kind == "user" for kind, _ in PRECEDENCE[strongest])
    shares_client = any(kind == "client-id" for kind, _ in PRECEDENCE[strongest])
    assert tags == Tags("alice" if shares_user else "", "c1" if shares_client else "")


def test_where_one_form_is_set_everybody_is_told_apart_by_it() -> None:
    assert limits(ONE).tags_of("bob", "c9") == Tags("", "c9")
    assert limits(ALICE).tags_of("bob", "c9") == Tags("bob", "")
    assert limits(PAIR).tags_of("bob", "c9") == Tags("bob", "c9")
    assert limits(ALICE, ONE).tags_of("bob", "c9") == Tags("", "c9")
    assert limits().tags_of("bob", "c9") == Tags("", "c9")


def test_a_default_gives_each_its_own_budget() -> None:
    known = limits(ANY_USER, ONE)
    assert known.tags_of("bob", "c1") == Tags("bob", "")
    assert known.limit_of(known.tags_of("bob", "c1")) == 1
    assert known.limit_of(Tags("", "other")) is None


def refusal(change: AskedChange, unknown: frozenset[str] = frozenset()) -> str:
    rows = judged([change], unknown)
    assert not rows.good
    (found,) = rows.refused.values()
    assert found.error is Error.INVALID_REQUEST
    return found.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (AskedChange((), []), "Invalid empty client quota entity"),
        (AskedChange((("role", "x"),), []), "Unhandled client quota entity type: role"),
        (AskedChange((("user", ""),), []), "Empty user not supported"),
        (AskedChange(ALICE, [("nonsense", 1.0)]), "Invalid configuration key nonsense"),
        (AskedChange(ALICE, [("connection_creation_rate", 1.0)]), "Invalid configuration key"),
        (AskedChange(HOST, [("producer_byte_rate", 1.0)]), "Invalid configuration key"),
        (
            AskedChange(ALICE, [("request_percentage", 0.0)]),
            "Quota request_percentage must be greater than 0",
        ),
        (AskedChange(ALICE, [("producer_byte_rate", float("nan"))]), "must be greater than 0"),
        (
            AskedChange(ALICE, [("producer_byte_rate", 1.5)]),
            "producer_byte_rate cannot be a fractional value.",
        ),
        (AskedChange(ALICE, [("producer_byte_rate", 1e19)]), "is too large for a LONG."),
        (AskedChange(HOST, [("connection_creation_rate", 3e9)]), "is too large for an INT."),
        (
            AskedChange(ALICE, [("request_percentage", 1.0), ("request_percentage", None)]),
            "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})",
        ),
    ],
)
def test_a_bad_change_is_refused_in_kafkas_words(change: AskedChange, words: str) -> None:
    assert words in refusal(change)


def test_an_address_stands_alone_and_must_be_one() -> None:
    mixed = AskedChange((*HOST, *ALICE), [])
    assert "IP entity shouldnot be combined" in refusal(mixed)
    bad = AskedChange((("ip", "no.such"),), [("connection_creation_rate", 5.0)])
    words = "no.such is not a valid IP or resolvable host."
    assert refusal(bad, frozenset({"no.such"})) == words
    good = AskedChange((("ip", None),), [("connection_creation_rate", 5.0)])
    assert judged([good], frozenset({"no.such"})).good


def test_the_first_change_of_an_entity_is_made_and_the_second_refused() -> None:
    rows = judged(
        [
            AskedChange(PAIR, [("producer_byte_rate", 5.0)]),
            AskedChange((*ONE, *ALICE), [("producer_byte_rate", 6.0)]),
        ],
        frozenset(),
    )
    assert [change.entity for change in rows.good] == [PAIR]
    assert len(rows.refused) == 1


def test_a_change_leaves_what_is_no_quota() -> None:
    change = AskedChange(
        ALICE, [("producer_byte_rate", 1048576.0000001), ("consumer_byte_rate", None)]
    )
    (good,) = judged([change], frozenset()).good
    before = {"SCRAM-SHA-256": "salt=x", "consumer_byte_rate": "5", "request_percentage": "2.5"}
    after = good.apply(before)
    assert after == {
        "SCRAM-SHA-256": "salt=x",
        "request_percentage": "2.5",
        "producer_byte_rate": "1048576",
    }
    assert parse_values(ALICE, after) == {"producer_byte_rate": 1048576, "request_percentage": 2.5}
    (both,) = judged([AskedChange(ALICE, [("request_percentage", 50.0)])], frozenset()).good
    assert both.apply({}) == {"request_percentage": "50.0"}


def test_nobody_can_remove_a_credential_by_a_quota() -> None:
    (change,) = judged([AskedChange(ALICE, [("SCRAM-SHA-256", None)])], frozenset()).good
    assert change.apply({"SCRAM-SHA-256": "salt=x"}) == {"SCRAM-SHA-256": "salt=x"}


@pytest.mark.parametrize("text", ["-1", "nan", "much"])
def test_a_stored_value_that_is_no_quota_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_values(ALICE, {"producer_byte_rate": text})


QUOTAS: Mapping[QuotaEntity, Mapping[str, float]] = {
    entity: {"request_percentage": 1.0} for entity in (ALICE, ANY_USER, PAIR, ONE, HOST)
}


def found(*components: Component, is_strict: bool = False) -> set[QuotaEntity]:
    return {entity for entity, _ in described(QUOTAS, components, is_strict=is_strict)}


def test_a_question_finds_what_matches_all_of_it() -> None:
    alice = Component("user", Match.EXACT, "alice")
    any_user = Component("user", Match.SPECIFIED, None)
    assert found() == set(QUOTAS)
    assert found(alice) == {ALICE, PAIR}
    assert found(alice, is_strict=True) == {ALICE}
    assert found(Component("user", Match.DEFAULT, None)) == {ANY_USER}
    assert found(any_user) == {ALICE, ANY_USER, PAIR}
    assert found(any_user, Component("client-id", Match.EXACT, "c1")) == {PAIR}
    assert found(Component("ip", Match.SPECIFIED, None)) == {HOST}
    assert found(is_strict=True) == set()


@pytest.mark.parametrize(
    ("components", "error", "words"),
    [
        ([("", 0, "x")], 42, "Invalid empty entity type."),
        ([("user", 0, "x"), ("user", 1, None)], 42, "cannot appear more than once"),
        ([("role", 0, "x")], 35, "Unsupported entity type role"),
        ([("user", 0, None)], 42, "MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", 1, "x")], 42, "MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", 2, "x")], 42, "MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("user", 3, None)], 42, "Unknown match type 3"),
        ([("ip", 2, None), ("user", 2, None)], 42, "IP filter component should not be used"),
    ],
)
def test_a_bad_question_is_refused_in_kafkas_words(
    components: list[tuple[str, int, str | None]], error: int, words: str
) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        found(*(Component(*each) for each in components))
    assert refused.value.error == error


def test_new_quotas_hold_for_what_was_used_before() -> None:
    budgets = Budgets(lambda: RateBudget(Window()))
    assert budgets.of("alice", "c1", 0) is None
    budgets.follow({ONE: 1_000})
    mine = budgets.of("alice", "c1", 0)
    assert mine is not None
    assert mine is budgets.of("bob", "c1", 5)
    assert mine.spend(20_000, 10) > 0
    budgets.follow({ONE: 5_000})
    assert mine.spend(1, 10) == 0
    budgets.follow({})
    assert budgets.of("alice", "c1", 20) is None


def test_a_wait_for_request_time_is_no_longer_than_a_sample() -> None:
    budget = RateBudget(Window(), throttle_ms_max=1_000)
    budget.limit = 1
    assert budget.spend(1_000_000, 0) == 1_000


def test_budgets_are_bounded_and_idle_ones_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_room, "BUDGETS_MAX", 10)
    monkeypatch.setattr(budget_room, "DROPPED_AT_ONCE", 2)
    budgets = Budgets(lambda: RateBudget(Window()))
    budgets.follow({ANY_CLIENT: 1_000})
    for number in range(10):
        budget = budgets.of("", f"c{number}", number)
        assert budget is not None
        budget.spend(10, number)
    generation = budgets.generation
    budgets.of("", "one too many", 100)
    assert len(budgets) == 9
    assert budgets.generation > generation
    # The two that were used longest ago had to go; half a minute later nobody's use counts.
    kept = budgets.of("", "c2", 100)
    assert kept is not None
    assert kept.rate.rate(100) > 0
    budgets.of("", "c0", 30_000)
    budgets.of("", "again one too many", 30_000)
    assert len(budgets) < 5


def test_what_nobody_used_for_an_hour_goes() -> None:
    budgets = Budgets(lambda: TokenBudget(Window()))
    budgets.follow({ANY_USER: 5})
    budgets.of("alice", "", 0)
    budgets.drop_idle(60 * 60 * 1000 - 1)
    assert len(budgets) == 1
    budgets.drop_idle(60 * 60 * 1000)
    assert not len(budgets)


def test_connections_may_come_in_bursts_and_wait_a_sample_at_the_most() -> None:
    rates = ConnectionRates(Window(), is_protected=lambda name: name == "BROKERS")
    rates.limit(2, {"CLIENTS": 1, "BROKERS": 100})
    # Ten seconds' worth at once; then each waits for its turn.
    assert [rates.came("CLIENTS", 0) for _ in range(12)] == [0] * 10 + [1_000, 1_000]
    assert [rates.came("BROKERS", 0) for _ in range(900)] == [0] * 900
    rates.limit(2, {"CLIENTS": 2})
    assert rates.came("CLIENTS", 1) == 0


def test_a_connection_that_its_address_may_not_make_counts_for_nobody() -> None:
    rates = ConnectionRates(Window(), is_protected=lambda name: False)
    rates.limit(2, {"CLIENTS": 2})
    rates.limit_addresses({"10.0.0.1": 1})
    for number in range(30):
        assert rates.came("CLIENTS", 0) == 0
        throttle_ms = rates.came_from("10.0.0.1", "CLIENTS", 0)
        assert bool(throttle_ms) == (number >= 10)
    # The others find the broker as it was left by ten.
    assert [rates.came("CLIENTS", 0) for _ in range(10)] == [0] * 10
    assert rates.came("CLIENTS", 0) == 500
    assert rates.came_from("10.0.0.2", "CLIENTS", 0) == 0
    rates.limit_addresses({"10.0.0.1": 5}, default=1)
    assert rates.came_from("10.0.0.1", "CLIENTS", 0) == 0
    assert [rates.came_from("10.0.0.2", "CLIENTS", 0) > 0 for _ in range(11)] == [False] * 10 + [
        True
    ]


@pytest.mark.parametrize("limit", [0, 0.0])
def test_a_limit_of_nothing_lets_nothing_pass(limit: float) -> None:
    budget = RateBudget(Window(), throttle_ms_max=1_000)
    budget.limit = limit
    assert budget.spend(1, 0) == 1_000


@pytest.mark.parametrize("kind", [RateBudget, TimeBudget])
def test_a_budget_answers_as_if_each_event_were_recorded(kind: type[RateBudget]) -> None:
    chance = seeds.chance()
    for _ in range(60):
        window = Window(chance.choice([1, 2, 11]), chance.choice([100, 1_000]))
        budget, plain = kind(window), SampledRate(*window)
        limits = (None, 10.0, 1_000.0, 1e6)
        budget.limit = limit = chance.choice(limits)
        now = chance.randrange(10**6)
        for _ in range(300):
            now += chance.choice([0, 0, 0, 1, 7, 90, 999, 1_000, 12_000])
            value = chance.choice([0, 1, 3, 500, 20_000]) * int(kind.unit)
            if chance.random() < 0.05:
                budget.limit = limit = chance.choice(limits)
            if chance.random() < 0.1:
                value *= chance.choice([-1, 1])
                plain.record(value, now)
                budget.note(value, now)
                continue
            plain.record(value, now)
            expected = 0 if limit is None else plain.throttle_ms(limit * kind.unit, now)
            assert budget.spend(value, now) == expected
            if chance.random() < 0.2:
                assert budget.is_idle(now) == plain.is_idle(now)
                assert budget.rate.rate(now) == plain.rate(now)
