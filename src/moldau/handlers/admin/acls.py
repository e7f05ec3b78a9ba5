"""DescribeAcls, CreateAcls, DeleteAcls: the access control lists, if the broker keeps any."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from moldau.cluster.tree.access_control_lists import matching
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.security.acl.acl_filters import AclFilter
from moldau.security.acl.acl_model import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from moldau.wire.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

NOT_DESCRIBED = "No Authorizer is configured on the broker"
NOT_CHANGED = "No Authorizer is configured."
KEEPS_NONE = "The authorizer of this broker decides by rules of its own and keeps no lists."

E = TypeVar("E", bound=IntEnum)


async def describe_acls(
    request: DescribeAclsRequest, ctx: RequestContext, on: Services
) -> DescribeAclsResponse:
    if on.access_lists is None:
        raise _no_lists(on, NOT_DESCRIBED)
    asked = _filter(request)
    if asked.fault is not None:
        raise ApiError(Error.INVALID_REQUEST, asked.fault)
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                pattern_type=resource.pattern,
                acls=[
                    AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for entry in entries
                ],
            )
            for resource, entries in matching(on.access_lists.acls, asked).items()
        ]
    )


async def create_acls(
    request: CreateAclsRequest, ctx: RequestContext, on: Services
) -> CreateAclsResponse:
    rows: list[ApiError | None]
    if on.access_lists is None:
        rows = [_no_lists(on, NOT_CHANGED) for _ in request.creations]
    else:
        rows = await on.access_lists.create([_acl(row) for row in request.creations])
    return CreateAclsResponse(
        results=[
            AclCreationResult()
            if row is None
            else AclCreationResult(error_code=row.error, error_message=row.message)
            for row in rows
        ]
    )


async def delete_acls(
    request: DeleteAclsRequest, ctx: RequestContext, on: Services
) -> DeleteAclsResponse:
    rows: list[list[Acl] | ApiError]
    if on.access_lists is None:
        rows = [_no_lists(on, NOT_CHANGED) for _ in request.filters]
    else:
        rows = await on.access_lists.delete([_filter(row) for row in request.filters])
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=row.error, error_message=row.message)
            if isinstance(row, ApiError)
            else DeleteAclsFilterResult(matching_acls=[_deleted(acl) for acl in row])
            for row in rows
        ]
    )


def _no_lists(on: Services, without_authorizer: str) -> ApiError:
    sentence = without_authorizer if on.authorizer.is_open else KEEPS_NONE
    return ApiError(Error.SECURITY_DISABLED, sentence)


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    resource, entry = acl
    return DeleteAclsMatchingAcl(
        resource_type=resource.type,
        resource_name=resource.name,
        pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _filter(row: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _known(ResourceType, row.resource_type_filter),
        row.resource_name_filter,
        _known(PatternType, row.pattern_type_filter),
        row.principal_filter,
        row.host_filter,
        _known(Operation, row.operation),
        _known(Permission, row.permission_type),
    )


def _acl(row: AclCreation) -> Acl:
    resource = ResourcePattern(
        _known(ResourceType, row.resource_type),
        row.resource_name,
        _known(PatternType, row.resource_pattern_type),
    )
    operation, permission = (
        _known(Operation, row.operation),
        _known(Permission, row.permission_type),
    )
    return Acl(resource, Entry(row.principal, row.host, operation, permission))


def _known(words: type[E], number: int) -> E:
    """What a newer client may know is unknown here."""
    try:
        return words(number)
    except ValueError:
        return words(0)
