"""Who may do what on this broker: super users, the lists, and the log's line about a decision.

Nothing here changes: when a list changes whoever holds an authorizer gets another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from moldau.security.acl.acl_model import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Operation,
    ResourceType,
)
from moldau.security.acl.acl_store import NOBODY, SUPER_USER, Acls, Verdict


@dataclass(frozen=True, slots=True)
class Authorizer:
    acls: Acls = field(default_factory=Acls)
    super_users: frozenset[str] = NOBODY
    is_open_without_acls: bool = False

    def with_acls(self, acls: Acls) -> Authorizer:
        return replace(self, acls=acls)

    def verdict(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> Verdict:
        if principal in self.super_users:
            return SUPER_USER
        return self.acls.verdict(
            principal, host, operation, kind, name, is_open=self.is_open_without_acls
        )

    def allows(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        return self.verdict(principal, host, operation, kind, name).is_allowed

    def allows_on_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        return principal in self.super_users or self.acls.allows_on_any(
            principal, host, operation, kind, is_open=self.is_open_without_acls
        )

    def allowed_operations(
        self, principal: str, host: str, kind: ResourceType, name: str = CLUSTER_NAME
    ) -> int:
        """A bit for every operation that is allowed (KIP-430)."""
        return bit_field(
            operation
            for operation in SUPPORTED_OPERATIONS[kind]
            if self.allows(principal, host, operation, kind, name)
        )


def bit_field(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


def audit_line(
    verdict: Verdict,
    principal: str,
    host: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
    request: str,
    count: int = 1,
) -> str:
    """What Kafka's kafka-authorizer.log says about a decision."""
    outcome = "Allowed" if verdict.is_allowed else "Denied"
    return (
        f"Principal = {principal} is {outcome} operation = {operation.name} "
        f"from host = {host} on resource = {_resource_text(kind)}:LITERAL:{name} "
        f"for request = {request} with resourceRefCount = {count} based on rule {verdict.rule}"
    )


def _resource_text(kind: ResourceType) -> str:
    return "".join(word.capitalize() for word in kind.name.split("_"))
