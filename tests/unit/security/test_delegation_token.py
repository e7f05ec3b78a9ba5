"""The rules of delegation tokens, with the numbers that Apache Kafka 4.3 gives."""

from __future__ import annotations

import pytest

from moldau.model.errors import ApiError, Error
from moldau.security.naming.principal import Principal
from moldau.security.tokens.delegation_token import (
    FOREVER,
    DelegationToken,
    TokenRules,
    expired,
    token_mac,
    token_password,
)

ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))
RULES = TokenRules(max_lifetime_ms=7000, expiry_ms=1000)


def issue(lifetime_ms: int = -1, now_ms: int = 50_000) -> DelegationToken:
    return RULES.issue("id", ALICE, ALICE, (BOB,), lifetime_ms, now_ms)


@pytest.mark.parametrize(
    "lifetime_ms, max_at_ms, expires_at_ms",
    [
        (-1, 57_000, 51_000),
        (0, 57_000, 51_000),
        (9000, 57_000, 51_000),
        (2000, 52_000, 51_000),
        (10, 50_010, 50_010),
    ],
)
def test_a_token_lives_as_long_as_asked_and_allowed(
    lifetime_ms: int, max_at_ms: int, expires_at_ms: int
) -> None:
    token = issue(lifetime_ms)
    assert (token.max_at_ms, token.expires_at_ms) == (max_at_ms, expires_at_ms)


def test_a_lifetime_without_end_does_not_overflow() -> None:
    endless = TokenRules(FOREVER, FOREVER).issue("id", ALICE, ALICE, (), -1, 50_000)
    assert (endless.max_at_ms, endless.expires_at_ms) == (FOREVER, FOREVER)


@pytest.mark.parametrize(
    "period_ms, expires_at_ms",
    [(-1, 51_500), (0, 51_500), (200, 50_700), (5000, 51_500)],
)
def test_a_renewal_is_capped_by_the_setting(period_ms: int, expires_at_ms: int) -> None:
    assert RULES.renewed(issue(), BOB, period_ms, 50_500).expires_at_ms == expires_at_ms


def test_a_renewal_is_capped_by_the_age_of_the_token() -> None:
    assert RULES.renewed(issue(1200), ALICE, -1, 50_900).expires_at_ms == 51_200


@pytest.mark.parametrize(
    "caller, now_ms, error",
    [
        (EVE, 50_500, Error.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, 51_001, Error.DELEGATION_TOKEN_EXPIRED),
        (EVE, 51_001, Error.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_only_owners_and_renewers_renew_and_only_what_lives(
    caller: Principal, now_ms: int, error: Error
) -> None:
    with pytest.raises(ApiError) as refusal:
        RULES.renewed(issue(), caller, -1, now_ms)
    assert refusal.value.error is error


def test_a_token_ends_at_once_or_later() -> None:
    assert expired(issue(), BOB, -1, 60_000) is None
    later = expired(issue(), ALICE, 3000, 50_500)
    assert later is not None
    assert later.expires_at_ms == 53_500
    for caller, error in (
        (EVE, Error.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, Error.DELEGATION_TOKEN_EXPIRED),
    ):
        with pytest.raises(ApiError) as refusal:
            expired(issue(), caller, 0, 60_000)
        assert refusal.value.error is error


def test_nobody_but_a_user_can_own_a_token() -> None:
    """A log-in makes a user of the owner's name: an owner of another type would become one."""
    with pytest.raises(ApiError) as refusal:
        RULES.issue("id", Principal("Group", "bob"), ALICE, (), -1, 0)
    assert refusal.value.error is Error.INVALID_PRINCIPAL_TYPE


def test_a_token_does_not_keep_how_its_requester_logged_in() -> None:
    by_token = Principal("User", "alice", is_token_authenticated=True)
    token = RULES.issue("id", by_token, by_token, (), -1, 0)
    assert token.owner == token.requester == ALICE
    assert token.is_of(by_token)


def test_the_mac_is_the_one_that_apache_kafka_computes() -> None:
    mac = token_mac(b"secret", "MTIzNDU2Nzg5MDEyMzQ1Ng")
    assert len(mac) == 64
    assert token_password(mac) == (
        "XceyEwy5q26Nr224ge1f5sqL4hN2AkWSiBPgXGeS0M/NSGzrqEpevV6Vyzp/ABmVD/fXtTIlUhxfw4mJ33qscw=="
    )
