"""Delegation tokens (KIP-48): who has one, how long it is good, and who may prolong or end it.

A token is an id and a MAC of it under the secret that all brokers share. The MAC is the password
of the token and is never stored: whoever has the secret can compute it again. Rules as in 4.3.
"""

from __future__ import annotations

import base64
import hmac
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.security.naming.principal import USER, Principal

FOREVER: Millis = 2**63 - 1
RENEWERS_MAX = 1000
NAME_LENGTH_MAX = 10_000
"""A token is one node of the metadata tree; longer ones would not fit there."""


class DelegationToken(NamedTuple):
    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_at_ms: Millis
    max_at_ms: Millis
    expires_at_ms: Millis

    def is_expired(self, now_ms: Millis) -> bool:
        return self.max_at_ms < now_ms or self.expires_at_ms < now_ms

    def is_of(self, principal: Principal) -> bool:
        """As owner or renewer."""
        return any(_is_same(principal, each) for each in (self.owner, *self.renewers))


def _is_same(left: Principal, right: Principal) -> bool:
    """How somebody logged in does not make them another one."""
    return (left.type, left.name) == (right.type, right.name)


def token_mac(secret: bytes, token_id: str) -> bytes:
    return hmac.digest(secret, token_id.encode(), "sha512")


def token_password(mac: bytes) -> str:
    """What a client shows in a SCRAM log-in."""
    return base64.b64encode(mac).decode("ascii")


class TokenRules(NamedTuple):
    max_lifetime_ms: Millis
    expiry_ms: Millis
    """How long a token is good after it was issued or renewed."""

    def issue(
        self,
        token_id: str,
        owner: Principal,
        requester: Principal,
        renewers: tuple[Principal, ...],
        lifetime_ms: Millis,
        now_ms: Millis,
    ) -> DelegationToken:
        """Raises ApiError."""
        check_names(owner, renewers)
        lifetime_ms = min(lifetime_ms, self.max_lifetime_ms) if lifetime_ms > 0 else 0
        max_at_ms = _later(now_ms, lifetime_ms or self.max_lifetime_ms)
        expires_at_ms = min(max_at_ms, _later(now_ms, self.expiry_ms))
        plain = Principal(requester.type, requester.name)
        return DelegationToken(
            token_id,
            Principal(owner.type, owner.name),
            plain,
            renewers,
            now_ms,
            max_at_ms,
            expires_at_ms,
        )

    def renewed(
        self, token: DelegationToken, caller: Principal, period_ms: Millis, now_ms: Millis
    ) -> DelegationToken:
        """Raises ApiError."""
        if token.is_expired(now_ms):
            raise ApiError(Error.DELEGATION_TOKEN_EXPIRED)
        if not token.is_of(caller):
            raise ApiError(Error.DELEGATION_TOKEN_OWNER_MISMATCH)
        period_ms = min(period_ms, self.expiry_ms) if period_ms > 0 else self.expiry_ms
        return token._replace(expires_at_ms=min(token.max_at_ms, _later(now_ms, period_ms)))


def expired(
    token: DelegationToken, caller: Principal, period_ms: Millis, now_ms: Millis
) -> DelegationToken | None:
    """The token with its new end; None if it ends now. Raises ApiError."""
    if not token.is_of(caller):
        raise ApiError(Error.DELEGATION_TOKEN_OWNER_MISMATCH)
    if period_ms < 0:
        return None
    if token.is_expired(now_ms):
        raise ApiError(Error.DELEGATION_TOKEN_EXPIRED)
    return token._replace(expires_at_ms=min(token.max_at_ms, _later(now_ms, period_ms)))


def check_names(owner: Principal, renewers: tuple[Principal, ...]) -> None:
    """A log-in by token makes a user of its owner's name: there can be no owner of another type.
    Raises ApiError."""
    for each in (owner, *renewers):
        if each.type != USER:
            raise ApiError(Error.INVALID_PRINCIPAL_TYPE)
        if len(each.name) > NAME_LENGTH_MAX:
            sentence = f"a name has {len(each.name)} characters, of {NAME_LENGTH_MAX}"
            raise ApiError(Error.INVALID_REQUEST, sentence)
    if len(renewers) > RENEWERS_MAX:
        sentence = f"the token would have {len(renewers)} renewers, of {RENEWERS_MAX}"
        raise ApiError(Error.INVALID_REQUEST, sentence)


def _later(now_ms: Millis, duration_ms: Millis) -> Millis:
    return min(now_ms + duration_ms, FOREVER)
