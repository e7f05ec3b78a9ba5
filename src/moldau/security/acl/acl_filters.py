"""Filters over access control lists, as DescribeAcls and DeleteAcls carry them."""

from __future__ import annotations

from typing import NamedTuple

from moldau.security.acl.acl_model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)


class AclFilter(NamedTuple):
    """None and ANY match everything."""

    type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        entry = acl.entry
        return (
            self.matches_resource(acl.resource)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def matches_resource(self, resource: ResourcePattern) -> bool:
        if self.type not in (ResourceType.ANY, resource.type):
            return False
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, resource.pattern):
            return False
        if self.name is None or self.name == resource.name:
            return True
        if self.pattern is not PatternType.MATCH:
            return False
        if resource.pattern is PatternType.PREFIXED:
            return self.name.startswith(resource.name)
        return resource.name == WILDCARD

    @property
    def fault(self) -> str | None:
        """Why the filter cannot be used; None if it can."""
        if self.type is ResourceType.UNKNOWN:
            return "The filter names an unknown resource type"
        if self.pattern is PatternType.UNKNOWN:
            return "The filter names an unknown pattern type"
        if self.operation is Operation.UNKNOWN:
            return "The filter names an unknown operation"
        if self.permission is Permission.UNKNOWN:
            return "The filter names an unknown permission type"
        return None
