"""Unsigned tokens that a client makes from the options of its log-in module."""

from __future__ import annotations

import pytest

from moldau.security.sasl.oauthbearer import BearerToken
from moldau.security.sasl.unsecured_login import extensions, unsecured_token
from moldau.security.sasl.unsecured_token import unsecured_validator

NOW_MS = 1_700_000_000_000
NAME = {"unsecuredLoginStringClaim_sub": "alice"}


def test_a_broker_reads_from_a_token_what_the_options_say() -> None:
    options = NAME | {
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_team": "river",
    }
    told = unsecured_validator({})(unsecured_token(options, NOW_MS), NOW_MS)
    assert told == BearerToken("alice", NOW_MS + 60_000, frozenset({"read", "write"}))
    assert extensions(options) == {"team": "river"}


def test_a_token_lasts_an_hour_unless_said_otherwise() -> None:
    told = unsecured_validator({})(unsecured_token(NAME, NOW_MS), NOW_MS)
    assert told.expires_at_ms == NOW_MS + 3_600_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "unsecuredLoginStringClaim_sub must name the user"),
        (NAME | {"unsecuredLoginLifetimeSeconds": "hidden"}, "Seconds must be a number"),
        (NAME | {"unsecuredLoginNumberClaim_x": "hidden"}, "Claim_x must be a number"),
        (NAME | {"clientSecret": "hidden"}, "has no option clientSecret"),
    ],
)
def test_options_that_do_not_do_are_refused_without_their_values(
    options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence) as refusal:
        unsecured_token(options, NOW_MS)
    assert "hidden" not in str(refusal.value)
