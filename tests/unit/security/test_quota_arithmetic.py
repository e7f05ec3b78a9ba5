"""Rates, windows, waiting times and tokens: the figures are those of Apache Kafka's classes."""

from __future__ import annotations

import pytest

from moldau.security.quotas.sampled_rate import THROTTLE_MS_MAX, SampledRate
from moldau.security.quotas.token_bucket import TokenBucket

START = 1_000_000


def test_a_burst_after_silence_is_spread_over_ten_seconds() -> None:
    rate = SampledRate()
    rate.record(10_000, START)
    assert rate.window_ms(START) == 10_000
    assert rate.throttle_ms(1_000, START) == 0
    rate.record(500, START)
    # 1,050 a second where 1,000 are allowed: 5 % of ten seconds.
    assert rate.throttle_ms(1_000, START) == 500


def test_the_window_grows_with_the_sample_under_way_and_never_beyond_the_oldest() -> None:
    rate = SampledRate()
    for second in range(12):
        rate.record(1_000, START + second * 1_000)
    # The first sample is eleven seconds old and gone.
    assert rate.window_ms(START + 11_000) == 10_000
    assert rate.window_ms(START + 11_999) == 10_999
    assert rate.rate(START + 11_999) == pytest.approx(11_000 / 10.999)


def test_a_sample_counts_until_its_last_event_is_eleven_seconds_old() -> None:
    rate = SampledRate()
    rate.record(50_000, START)
    rate.record(0, START + 900)
    assert rate.rate(START + 11_899) == pytest.approx(50_000 / 11.899)
    assert rate.rate(START + 11_900) == 0


def test_a_sample_is_closed_by_the_first_event_after_its_second() -> None:
    rate = SampledRate()
    rate.record(1, START)
    rate.record(1, START + 5_000)
    rate.record(1, START + 5_999)
    rate.record(1, START + 6_000)
    # Three samples; the oldest began at the start.
    assert rate.window_ms(START + 6_000) == 6_000 + 4_000


def test_what_is_taken_back_was_never_there() -> None:
    rate = SampledRate()
    rate.record(5_000, START)
    rate.record(900_000, START + 100)
    assert rate.throttle_ms(1_000, START + 100) > 0
    rate.record(-900_000, START + 100)
    assert rate.throttle_ms(1_000, START + 100) == 0
    assert rate.rate(START + 100) == pytest.approx(5_000 / 10.1)


def test_a_wait_has_a_bound_that_the_answer_can_say() -> None:
    rate = SampledRate()
    rate.record(1e12, START)
    assert rate.throttle_ms(0.001, START) == THROTTLE_MS_MAX


def test_an_idle_rate_says_what_a_new_one_says() -> None:
    rate = SampledRate(3, 100)
    assert rate.is_idle(START)
    rate.record(7, START)
    assert not rate.is_idle(START + 299)
    assert rate.is_idle(START + 300)
    assert rate.rate(START + 300) == 0
    assert rate.window_ms(START + 300) == SampledRate(3, 100).window_ms(START + 300)


def test_a_bucket_begins_full_and_holds_eleven_seconds_worth() -> None:
    bucket = TokenBucket()
    assert bucket.tokens(5, START) == 55
    bucket.take(60, 5, START)
    assert bucket.throttle_ms(5, START) == 1_000
    assert bucket.throttle_ms(5, START + 999) == 1
    assert bucket.throttle_ms(5, START + 1_000) is None
    assert bucket.tokens(5, START + 60_000) == 55
    assert bucket.is_full(5, START + 60_000)


def test_a_smaller_quota_makes_a_smaller_bucket_of_a_full_one() -> None:
    bucket = TokenBucket()
    bucket.take(10, 10, START)
    assert bucket.tokens(1, START) == 11


@pytest.mark.parametrize("tokens", [-0.0001, -0.4])
def test_a_bucket_that_is_hardly_empty_is_empty_all_the_same(tokens: float) -> None:
    bucket = TokenBucket()
    bucket.take(55 - tokens, 5, START)
    assert bucket.throttle_ms(5, START) == round(-tokens * 200)
