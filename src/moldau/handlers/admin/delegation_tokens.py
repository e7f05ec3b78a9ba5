"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken.

The four ask the authorizer themselves: what a client may do depends on whose token it is. None is
served where nobody is known: without a log-in or a certificate, or to a client that has itself
logged in by a token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from moldau.cluster.tree.stored_delegation_tokens import DelegationTokens
from moldau.handlers.authorization import Resource
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.security.naming.principal import ANONYMOUS, USER, Principal
from moldau.security.tokens.delegation_token import DelegationToken
from moldau.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

NO_TIME = -1
"""The timestamps of what is refused before the token is looked at."""


async def create_delegation_token(
    request: CreateDelegationTokenRequest, ctx: RequestContext, on: Services
) -> CreateDelegationTokenResponse:
    requester = ctx.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
    renewers = tuple(Principal(row.principal_type, row.principal_name) for row in request.renewers)
    refusal = _refusal(owner, renewers, ctx, on)
    if refusal is not None:
        response.error_code = refusal
        response.issue_timestamp_ms = NO_TIME
        response.expiry_timestamp_ms = response.max_timestamp_ms = NO_TIME
        return response
    try:
        tokens = _enabled(on)
        token = await tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except ApiError as fault:
        response.error_code = fault.error
        return response
    response.issue_timestamp_ms = token.issued_at_ms
    response.expiry_timestamp_ms = token.expires_at_ms
    response.max_timestamp_ms = token.max_at_ms
    response.token_id = token.id
    response.hmac = tokens.mac(token.id)
    return response


def _refusal(
    owner: Principal, renewers: tuple[Principal, ...], ctx: RequestContext, on: Services
) -> Error | None:
    requester = ctx.principal
    if not _may_ask(ctx):
        return Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if (owner.type, owner.name) != (requester.type, requester.name):
        user = Resource(ResourceType.USER, str(owner))
        if not on.authorizer.allows(ctx, Operation.CREATE_TOKENS, user):
            return Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(each.type != USER for each in renewers):
        return Error.INVALID_PRINCIPAL_TYPE
    return None


async def renew_delegation_token(
    request: RenewDelegationTokenRequest, ctx: RequestContext, on: Services
) -> RenewDelegationTokenResponse:
    def renew(tokens: DelegationTokens) -> Awaitable[Millis]:
        return tokens.renew(bytes(request.hmac), ctx.principal, request.renew_period_ms)

    error, expires_ms = await _new_end(renew, ctx, on)
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)


async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, ctx: RequestContext, on: Services
) -> ExpireDelegationTokenResponse:
    def expire(tokens: DelegationTokens) -> Awaitable[Millis]:
        return tokens.expire(bytes(request.hmac), ctx.principal, request.expiry_time_period_ms)

    error, expires_ms = await _new_end(expire, ctx, on)
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)


async def _new_end(
    change: Callable[[DelegationTokens], Awaitable[Millis]], ctx: RequestContext, on: Services
) -> tuple[Error, Millis]:
    if not _may_ask(ctx):
        return Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
    try:
        return Error.NONE, await change(_enabled(on))
    except ApiError as fault:
        return fault.error, 0


async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, ctx: RequestContext, on: Services
) -> DescribeDelegationTokenResponse:
    if not _may_ask(ctx):
        error = Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return DescribeDelegationTokenResponse(error_code=error)
    if on.delegation_tokens is None:
        return DescribeDelegationTokenResponse(error_code=Error.DELEGATION_TOKEN_AUTH_DISABLED)
    tokens = on.delegation_tokens
    wanted = _wanted(request)
    visible = sorted(
        (token for token in tokens.tokens if wanted(token) and _may_see(token, ctx, on)),
        key=lambda token: (token.issued_at_ms, token.id),
    )
    return DescribeDelegationTokenResponse(
        tokens=[_described(token, tokens.mac(token.id)) for token in visible]
    )


def _wanted(request: DescribeDelegationTokenRequest) -> Callable[[DelegationToken], bool]:
    if request.owners is None:
        return lambda token: True
    owners = {Principal(row.principal_type, row.principal_name) for row in request.owners}
    return lambda token: not owners.isdisjoint((token.owner, *token.renewers))


def _may_see(token: DelegationToken, ctx: RequestContext, on: Services) -> bool:
    if token.is_of(ctx.principal):
        return True
    this = Resource(ResourceType.DELEGATION_TOKEN, token.id)
    theirs = Resource(ResourceType.USER, str(token.owner))
    return on.authorizer.allows(ctx, Operation.DESCRIBE, this) or on.authorizer.allows(
        ctx, Operation.DESCRIBE_TOKENS, theirs
    )


def _described(token: DelegationToken, mac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.max_at_ms,
        token_id=token.id,
        hmac=mac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
    )


def _may_ask(ctx: RequestContext) -> bool:
    if ctx.principal.is_token_authenticated or ctx.security_protocol == "PLAINTEXT":
        return False
    return ctx.security_protocol != "SSL" or ctx.principal != ANONYMOUS


def _enabled(on: Services) -> DelegationTokens:
    """Raises ApiError."""
    if on.delegation_tokens is None:
        raise ApiError(Error.DELEGATION_TOKEN_AUTH_DISABLED)
    return on.delegation_tokens
