"""Which request a fault strikes, how often, and what a mistyped name gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.testing.network_faults import Exchange, Fault, Kind, api_key
from moldau.testing.proxy import Proxy

PRODUCE = Exchange(api_key=0, version=11, correlation_id=7, client_id="writer")
FETCH = Exchange(api_key=1, version=13, correlation_id=8, client_id="reader")


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


def test_a_request_is_found_by_its_name_in_any_case_and_by_its_key() -> None:
    assert api_key("Produce") == api_key("produce") == api_key(0) == 0
    assert api_key("OffsetCommit") == 8


def test_a_mistyped_request_gets_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="'Prodce'; did you mean 'Produce'"):
        api_key("Prodce")
    with pytest.raises(ValueError, match="no request with the key 9999"):
        api_key(9999)


def test_a_fault_strikes_only_its_own_request(proxy: Proxy) -> None:
    fault = Fault(Kind.DELAY, proxy, api_key=0)
    assert not fault.strikes(FETCH)
    assert fault.strikes(PRODUCE)
    assert fault.hits == 1


def test_a_fault_strikes_only_its_own_client(proxy: Proxy) -> None:
    fault = Fault(Kind.DELAY, proxy, client_id="reader")
    assert [fault.strikes(PRODUCE), fault.strikes(FETCH)] == [False, True]


def test_a_fault_is_over_when_its_count_is_used_up(proxy: Proxy) -> None:
    fault = Fault(Kind.LOSE_ANSWER, proxy, count=2)
    assert [fault.strikes(PRODUCE) for _ in range(3)] == [True, True, False]


def test_a_fault_that_ended_strikes_no_more(proxy: Proxy) -> None:
    with Fault(Kind.LOSE_ANSWER, proxy) as fault:
        assert fault.strikes(PRODUCE)
    assert not fault.strikes(PRODUCE)


def test_waiting_for_a_fault_that_does_not_strike_says_how_often_it_did(proxy: Proxy) -> None:
    fault = Fault(Kind.DELAY, proxy)
    fault.strikes(PRODUCE)
    fault.wait(1, timeout=0)
    with pytest.raises(TimeoutError, match=r"\(delay\) struck 1 times within 0 s, 2 were awaited"):
        fault.wait(2, timeout=0)
