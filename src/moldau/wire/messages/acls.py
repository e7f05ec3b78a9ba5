"""Access control lists.

Resource types, pattern types, operations and permissions are Kafka's numbers; in a filter null
names and the number 1 match anything.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    string,
)


class DescribeAclsRequest(Message, versions="0-3", flexible="2+"):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+", default="")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+", default="")
    host_filter: str | None = string(nullable="0+", default="")
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Message, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default="")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Message, versions="0-3", flexible="2+"):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default="")


class CreateAclsResponse(Message, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+", default="")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+", default="")
    host_filter: str | None = string(nullable="0+", default="")
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Message, versions="0-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
