"""The audit log: who was allowed and denied what, by which rule.

Denials are told at INFO, grants at DEBUG, in Kafka's words, by the logger that Kafka's
kafka-authorizer.log is made of. Of a crowd of denials of one principal at one address some are
told and the rest is counted; nobody can hide theirs behind those of somebody else.
"""

from __future__ import annotations

import logging

from moldau.handlers.authorization import Count, Resource
from moldau.handlers.request_context import RequestContext
from moldau.model.log_line_limit import LogLimit, of_caller
from moldau.security.acl.acl_model import Operation
from moldau.security.acl.acl_store import Verdict
from moldau.security.acl.authorizer import audit_line
from moldau.wire.apis import api

LINES_PER_CALLER = 200
"""In ten seconds."""

log = logging.getLogger("kafka.authorizer.logger")
log.addFilter(LogLimit(lines_per_window=LINES_PER_CALLER))


def audit(
    verdict: Verdict, ctx: RequestContext, operation: Operation, resource: Resource, count: Count
) -> None:
    level = logging.DEBUG if verdict.is_allowed else logging.INFO
    if log.isEnabledFor(level):
        row = api(ctx.api_key)
        principal, host = str(ctx.principal), ctx.client_host
        line = audit_line(
            verdict,
            principal,
            host,
            operation,
            resource.type,
            resource.name,
            row.name if row else str(ctx.api_key),
            count(),
        )
        log.log(level, "%s", line, extra=of_caller(principal, host))


def tells_grants() -> bool:
    return log.isEnabledFor(logging.DEBUG)
