"""Requests about delegation tokens: who may ask, for whom, and what the refusals look like."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moldau.cluster.tree.stored_delegation_tokens import DelegationTokens
from moldau.handlers.admin import delegation_tokens as served
from moldau.handlers.authorization import Resource
from moldau.handlers.request_context import RequestContext
from moldau.model.errors import Error
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.security.naming.principal import ANONYMOUS, Principal
from moldau.security.tokens.delegation_token import TokenRules
from moldau.wire.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.support.services import Node, play

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


class Only:
    """Allows what is named, to anybody."""

    is_open = False
    memory: object = None

    def __init__(self, *allowed: tuple[Operation, Resource]) -> None:
        self.allowed = allowed

    def allows(
        self, ctx: RequestContext, operation: Operation, resource: Resource, **how: Any
    ) -> bool:
        return (operation, resource) in self.allowed

    def allows_somewhere(
        self, ctx: RequestContext, operation: Operation, type: ResourceType
    ) -> bool:
        return False


def asked_by(principal: Principal, protocol: str = "SASL_PLAINTEXT") -> RequestContext:
    return RequestContext(38, 3, None, "L", principal, "h", protocol)


async def with_tokens(node: Node) -> DelegationTokens:
    tokens = DelegationTokens(
        node.tree,
        b"secret",
        lambda: TokenRules(7000, 1000),
        clock=node.clock,
        timers=node.timers,
        random_bytes=os.urandom,
        new_salt=lambda: b"salt",
        is_alone=True,
    )
    await tokens.load()
    node.on.delegation_tokens = tokens
    return tokens


@pytest.mark.parametrize(
    "ctx",
    [
        asked_by(ANONYMOUS, "PLAINTEXT"),
        asked_by(ANONYMOUS, "SSL"),
        asked_by(Principal("User", "alice", is_token_authenticated=True), "SASL_SSL"),
    ],
)
def test_nobody_without_a_name_and_no_token_asks_for_tokens(
    tmp_path: Path, ctx: RequestContext
) -> None:
    async def scenario(node: Node) -> None:
        await with_tokens(node)
        error = Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        create = await served.create_delegation_token(
            CreateDelegationTokenRequest(max_lifetime_ms=-1), ctx, node.on
        )
        times = (create.issue_timestamp_ms, create.expiry_timestamp_ms, create.max_timestamp_ms)
        assert (create.error_code, *times) == (error, -1, -1, -1)
        assert create.hmac == b""
        renew = await served.renew_delegation_token(
            RenewDelegationTokenRequest(hmac=b"x"), ctx, node.on
        )
        assert (renew.error_code, renew.expiry_timestamp_ms) == (error, -1)
        expire = await served.expire_delegation_token(
            ExpireDelegationTokenRequest(hmac=b"x"), ctx, node.on
        )
        assert (expire.error_code, expire.expiry_timestamp_ms) == (error, -1)
        describe = await served.describe_delegation_token(
            DescribeDelegationTokenRequest(owners=None), ctx, node.on
        )
        assert describe.error_code == error

    play(scenario, tmp_path)


def test_a_certificate_is_a_name_too(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_tokens(node)
        answer = await served.create_delegation_token(
            CreateDelegationTokenRequest(max_lifetime_ms=-1), asked_by(ALICE, "SSL"), node.on
        )
        assert answer.error_code == 0

    play(scenario, tmp_path)


def test_without_a_secret_there_are_none(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        error, ctx = Error.DELEGATION_TOKEN_AUTH_DISABLED, asked_by(ALICE)
        create = await served.create_delegation_token(
            CreateDelegationTokenRequest(max_lifetime_ms=-1), ctx, node.on
        )
        assert (create.error_code, create.issue_timestamp_ms) == (error, 0)
        assert (create.principal_type, create.principal_name) == ("User", "alice")
        renew = await served.renew_delegation_token(RenewDelegationTokenRequest(), ctx, node.on)
        assert (renew.error_code, renew.expiry_timestamp_ms) == (error, 0)
        describe = await served.describe_delegation_token(
            DescribeDelegationTokenRequest(owners=None), ctx, node.on
        )
        assert describe.error_code == error

    play(scenario, tmp_path)


def test_a_token_for_somebody_else_needs_the_right_to(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_tokens(node)
        request = CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=-1
        )
        node.on.authorizer = Only()
        refused = await served.create_delegation_token(request, asked_by(ALICE), node.on)
        assert refused.error_code == Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
        right = (Operation.CREATE_TOKENS, Resource(ResourceType.USER, "User:bob"))
        node.on.authorizer = Only(right)
        given = await served.create_delegation_token(request, asked_by(ALICE), node.on)
        assert given.error_code == 0
        assert (given.principal_name, given.token_requester_principal_name) == ("bob", "alice")
        own = await served.create_delegation_token(
            CreateDelegationTokenRequest(max_lifetime_ms=-1), asked_by(ALICE), node.on
        )
        assert (own.error_code, own.principal_name) == (0, "alice")

    play(scenario, tmp_path)


def test_renewers_are_users(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_tokens(node)
        renewers = [CreatableRenewers(principal_type="Group", principal_name="x")]
        answer = await served.create_delegation_token(
            CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1),
            asked_by(ALICE),
            node.on,
        )
        assert answer.error_code == Error.INVALID_PRINCIPAL_TYPE
        assert answer.max_timestamp_ms == -1

    play(scenario, tmp_path)


def test_tokens_are_seen_by_owners_renewers_and_whoever_may(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        tokens = await with_tokens(node)
        node.on.authorizer = Only()
        own = await tokens.create(ALICE, ALICE, (), -1)
        node.clock.now_ms += 1
        shared = await tokens.create(BOB, BOB, (ALICE,), -1)
        node.clock.now_ms += 1
        other = await tokens.create(BOB, BOB, (), -1)

        async def seen(owners: list[Principal] | None = None) -> list[str]:
            rows = None
            if owners is not None:
                rows = [
                    DescribeDelegationTokenOwner(principal_type=o.type, principal_name=o.name)
                    for o in owners
                ]
            answer = await served.describe_delegation_token(
                DescribeDelegationTokenRequest(owners=rows), asked_by(ALICE), node.on
            )
            assert answer.error_code == 0
            assert all(row.hmac == tokens.mac(row.token_id) for row in answer.tokens)
            return [row.token_id for row in answer.tokens]

        assert await seen() == [own.id, shared.id]
        assert await seen([]) == []
        assert await seen([BOB]) == [shared.id]
        token = Resource(ResourceType.DELEGATION_TOKEN, other.id)
        node.on.authorizer = Only((Operation.DESCRIBE, token))
        assert await seen() == [own.id, shared.id, other.id]
        user = Resource(ResourceType.USER, "User:bob")
        node.on.authorizer = Only((Operation.DESCRIBE_TOKENS, user))
        assert await seen([BOB]) == [shared.id, other.id]

    play(scenario, tmp_path)


def test_tokens_are_renewed_and_expired_by_their_mac(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        tokens = await with_tokens(node)
        token = await tokens.create(ALICE, ALICE, (), -1)
        mac = tokens.mac(token.id)

        async def renew(by: Principal, hmac: bytes) -> tuple[int, int]:
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=300)
            answer = await served.renew_delegation_token(request, asked_by(by), node.on)
            return answer.error_code, answer.expiry_timestamp_ms

        assert await renew(ALICE, mac) == (0, node.clock.wall_ms() + 300)
        assert await renew(BOB, mac) == (Error.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
        assert await renew(ALICE, b"other") == (Error.DELEGATION_TOKEN_NOT_FOUND, 0)
        request = ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=-1)
        gone = await served.expire_delegation_token(request, asked_by(ALICE), node.on)
        assert (gone.error_code, gone.expiry_timestamp_ms) == (0, node.clock.wall_ms())
        assert await renew(ALICE, mac) == (Error.DELEGATION_TOKEN_NOT_FOUND, 0)

    play(scenario, tmp_path)
