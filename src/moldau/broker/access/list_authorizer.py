"""The authorizer that handlers ask: access control lists and super users.

Its decisions are told in the audit log.
"""

from __future__ import annotations

from moldau.broker.access.audit_log import audit, tells_grants
from moldau.handlers.authorization import Count, Resource, once
from moldau.handlers.request_context import RequestContext
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.security.acl.acl_store import Acls
from moldau.security.acl.authorizer import Authorizer


class ListAuthorizer:
    is_open = False

    def __init__(self, rules: Authorizer) -> None:
        self._rules = rules
        self.memory: object | None = None
        self.follow_log_levels()

    def follow(self, acls: Acls) -> None:
        self._rules = self._rules.with_acls(acls)
        self.follow_log_levels()

    def follow_log_levels(self) -> None:
        """Called when one has changed: while grants are told, none may be remembered."""
        self.memory = None if tells_grants() else self._rules

    def allows(
        self,
        ctx: RequestContext,
        operation: Operation,
        resource: Resource,
        *,
        count: Count = once,
        is_logged: bool = True,
        logs_denial: bool = True,
    ) -> bool:
        principal, host = str(ctx.principal), ctx.client_host
        verdict = self._rules.verdict(principal, host, operation, resource.type, resource.name)
        if is_logged and (logs_denial or verdict.is_allowed):
            audit(verdict, ctx, operation, resource, count)
        return verdict.is_allowed

    def allows_somewhere(
        self, ctx: RequestContext, operation: Operation, type: ResourceType
    ) -> bool:
        return self._rules.allows_on_any(str(ctx.principal), ctx.client_host, operation, type)
