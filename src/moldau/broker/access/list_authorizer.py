"""The authorizer that handlers ask: access control lists, super users, and the audit log.

Denials are told at INFO, grants at DEBUG, in Kafka's words, by the logger that Kafka's
kafka-authorizer.log is made of. What only filters an answer is not told.
"""

from __future__ import annotations

import logging

from moldau.handlers.authorization import Resource
from moldau.handlers.request_context import RequestContext
from moldau.model.log_line_limit import LogLimit
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.security.acl.acl_store import Acls
from moldau.security.acl.authorizer import Authorizer, audit_line
from moldau.wire.apis import api

log = logging.getLogger("kafka.authorizer.logger")
log.addFilter(LogLimit())


class ListAuthorizer:
    is_open = False

    def __init__(self, rules: Authorizer) -> None:
        self._rules = rules

    def follow(self, acls: Acls) -> None:
        self._rules = self._rules.with_acls(acls)

    def allows(
        self,
        ctx: RequestContext,
        operation: Operation,
        resource: Resource,
        *,
        count: int = 1,
        is_logged: bool = True,
    ) -> bool:
        principal, host = str(ctx.principal), ctx.client_host
        verdict = self._rules.verdict(principal, host, operation, resource.type, resource.name)
        level = logging.DEBUG if verdict.is_allowed else logging.INFO
        if is_logged and log.isEnabledFor(level):
            row = api(ctx.api_key)
            request = row.name if row else str(ctx.api_key)
            line = audit_line(
                verdict, principal, host, operation, resource.type, resource.name, request, count
            )
            log.log(level, "%s", line)
        return verdict.is_allowed

    def allows_somewhere(
        self, ctx: RequestContext, operation: Operation, type: ResourceType
    ) -> bool:
        return self._rules.allows_on_any(str(ctx.principal), ctx.client_host, operation, type)
