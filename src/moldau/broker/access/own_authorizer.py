"""An authorizer by a Python path: loaded at the start, asked by handlers, never believed blindly.

Its code is somebody else's. Whatever it raises denies the one request, and the log says so; a slow
answer is told too, because everybody waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from moldau.broker.access.audit_log import audit
from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.handlers.authorization import Count, Resource, once
from moldau.handlers.request_context import RequestContext
from moldau.model.log_line_limit import LogLimit
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.security.acl.acl_store import SUPER_USER, Verdict
from moldau.security.acl.own_authorizer import Question
from moldau.wire.apis import api

log = logging.getLogger("kafka.server.KafkaServer")
log.addFilter(LogLimit())

SETTING = "authorizer.class.name"
SLOW_SECONDS = 0.05


def loaded(config: BrokerConfig) -> Any:
    """The object, ready to be asked. Raises ConfigError."""
    path = config.authorizer_class_name
    module_name, _, class_name = path.partition(":")
    try:
        found: Any = import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
        made = found()
        if not callable(getattr(made, "allows", None)):
            raise TypeError("it has no method allows; derive it from moldau.authorization")
        configure = getattr(made, "configure", None)
        if configure is not None:
            configure(open_settings(config))
    except Exception as fault:
        limit = f"the authorizer cannot be loaded: {type(fault).__name__}: {fault}"
        raise ConfigError(SETTING, path, " ".join(limit.split())) from fault
    return made


def open_settings(config: BrokerConfig) -> Mapping[str, str]:
    """What somebody else's code may see of the settings: no secrets."""

    def is_secret(key: str) -> bool:
        row = config.row_of(key)
        return row is not None and row.is_sensitive

    return {key: text for key, text in config.given.items() if not is_secret(key)}


class OwnAuthorizer:
    is_open = False
    memory = None

    def __init__(
        self,
        made: Any,
        path: str,
        super_users: frozenset[str],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._made = made
        self._path = path
        self._super_users = super_users
        self._seconds = seconds
        self._allowed, self._denied = Verdict(True, path), Verdict(False, path)

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
        principal = str(ctx.principal)
        if principal in self._super_users:
            verdict = SUPER_USER
        else:
            row = api(ctx.api_key)
            question = Question(
                principal,
                ctx.client_host,
                operation,
                resource.type,
                resource.name,
                row.name if row else str(ctx.api_key),
            )
            is_allowed = self._ask(lambda: self._made.allows(question), question)
            verdict = self._allowed if is_allowed else self._denied
        if is_logged and (logs_denial or verdict.is_allowed):
            audit(verdict, ctx, operation, resource, count)
        return verdict.is_allowed

    def allows_somewhere(
        self, ctx: RequestContext, operation: Operation, type: ResourceType
    ) -> bool:
        principal = str(ctx.principal)
        if principal in self._super_users:
            return True
        ask = getattr(self._made, "allows_somewhere", None)
        if ask is None:
            return False
        what = (principal, ctx.client_host, operation, type)
        return self._ask(lambda: ask(*what), what)

    def _ask(self, question: Callable[[], object], asked: object) -> bool:
        began = self._seconds()
        try:
            answer = question()
        except Exception:
            log.exception("The authorizer %s has failed, so it is denied: %s", self._path, asked)
            return False
        took = self._seconds() - began
        if took > SLOW_SECONDS:
            log.warning(
                "The authorizer %s took %.3f s to answer, while nobody else was served: %s",
                self._path,
                took,
                asked,
            )
        if answer is True or answer is False:
            return answer
        kind = type(answer).__name__
        text = "The authorizer %s answered with a %s, not True or False, so it is denied: %s"
        log.error(text, self._path, kind, asked)
        return False

    def close(self) -> None:
        end = getattr(self._made, "close", None)
        if end is None:
            return
        try:
            end()
        except Exception:
            log.exception("The authorizer %s has failed while it was closed", self._path)
