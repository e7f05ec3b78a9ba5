"""Delegation tokens: create, renew, expire, describe (KIP-48).

Brokers hand them out over connections that are logged in only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.client.admin.admin_requests import AdminRequests
from moldau.wire.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)


class DelegationToken(NamedTuple):
    """`owner`, `requester` and `renewers` are principals such as `User:alice`."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    issued_ms: int
    expires_ms: int
    lives_until_ms: int
    renewers: list[str]


class TokensAdmin(AdminRequests):
    async def create_delegation_token(
        self,
        *,
        renewers: Iterable[str] = (),
        owner: str | None = None,
        max_lifetime_ms: int = -1,
        timeout_ms: int | None = None,
    ) -> DelegationToken:
        """A token for who is logged in, or for `owner`; -1 is the broker's lifetime.

        admin.create_delegation_token(renewers=["User:alice"]).token_id
        """
        named = list(renewers)
        kind, name = (None, None) if owner is None else _split(owner)
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_split, named)
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        row = await self._from_controller(request, timeout_ms)
        requester = row.token_requester_principal_name or row.principal_name
        return DelegationToken(
            row.token_id,
            row.hmac,
            f"{row.principal_type}:{row.principal_name}",
            f"{row.token_requester_principal_type or row.principal_type}:{requester}",
            row.issue_timestamp_ms,
            row.expiry_timestamp_ms,
            row.max_timestamp_ms,
            named,
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """When the token will expire now."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        row = await self._from_controller(request, timeout_ms)
        return int(row.expiry_timestamp_ms)

    async def expire_delegation_token(
        self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """When the token will expire now; -1 ends it at once."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        row = await self._from_controller(request, timeout_ms)
        return int(row.expiry_timestamp_ms)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationToken]:
        """The tokens of these principals, or all that one may see."""
        rows = None
        if owners is not None:
            rows = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_split, owners)
            ]
        response = await self._from_any(DescribeDelegationTokenRequest(owners=rows), timeout_ms)
        return [
            DelegationToken(
                row.token_id,
                row.hmac,
                f"{row.principal_type}:{row.principal_name}",
                f"{row.token_requester_principal_type}:{row.token_requester_principal_name}",
                row.issue_timestamp,
                row.expiry_timestamp,
                row.max_timestamp,
                [f"{each.principal_type}:{each.principal_name}" for each in row.renewers],
            )
            for row in response.tokens
        ]


def _split(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not colon or not name:
        raise ValueError(f"principal {principal!r} must be of the form User:name")
    return kind, name
