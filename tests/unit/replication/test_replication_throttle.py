"""A rate that replication is held to, and which replicas it is about."""

from __future__ import annotations

from moldau.replication.following.replication_throttle import LEADER_RATE, Throttle, names, rate_of


def throttle(limit: int | None) -> Throttle:
    made = Throttle(samples_max=3, sample_ms=1_000)
    made.limit_bytes_per_second = limit
    return made


def test_without_a_limit_nothing_is_too_much() -> None:
    free = throttle(None)
    free.record(10**9, now=0)
    assert not free.is_exceeded(now=1)


def test_a_rate_above_the_limit_is_exceeded_until_time_has_made_up_for_it() -> None:
    slow = throttle(1_000)
    slow.record(2_500, now=0)
    assert slow.is_exceeded(now=10)
    assert slow.is_exceeded(now=2_400)
    assert not slow.is_exceeded(now=2_600)


def test_samples_older_than_the_window_count_no_longer() -> None:
    slow = throttle(1_000)
    slow.record(1_000_000, now=0)
    assert slow.is_exceeded(now=3_000)
    assert not slow.is_exceeded(now=3_001)


def test_a_setting_names_replicas_by_partition_and_broker_or_all() -> None:
    assert names(("*",), 3, 1)
    assert names(("0:1", "3:1"), 3, 1)
    assert not names(("3:2",), 3, 1)
    assert not names((), 3, 1)


def test_a_brokers_own_rate_wins_over_that_of_the_cluster() -> None:
    configs = {"1": {LEADER_RATE: "10"}, "<default>": {LEADER_RATE: "20"}}
    assert rate_of(LEADER_RATE, 1, configs) == 10
    assert rate_of(LEADER_RATE, 2, configs) == 20
    assert rate_of(LEADER_RATE, 2, {}) is None
