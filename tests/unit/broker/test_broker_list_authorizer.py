"""What is allowed is remembered by the lists that hold, and not while the audit log tells it."""

from __future__ import annotations

import logging

import pytest

from moldau.broker.access.audit_log import log
from moldau.broker.access.list_authorizer import ListAuthorizer
from moldau.broker.broker_log.log_setup import BrokerLoggers
from moldau.security.acl.acl_store import Acls
from moldau.security.acl.authorizer import Authorizer


@pytest.fixture(autouse=True)
def _usual_levels() -> object:
    before = log.level
    yield
    log.setLevel(before)


def test_grants_that_are_told_are_not_remembered() -> None:
    log.setLevel(logging.INFO)
    authorizer, loggers = ListAuthorizer(Authorizer()), BrokerLoggers()
    loggers.on_change = authorizer.follow_log_levels
    first = authorizer.memory
    assert first is not None
    authorizer.follow(Acls())
    second = authorizer.memory
    assert second is not None
    assert second is not first
    loggers.set_level("kafka.authorizer.logger", "DEBUG")
    assert authorizer.memory is None
    authorizer.follow(Acls())
    assert authorizer.memory is None
    loggers.set_level("kafka.authorizer.logger", "INFO")
    assert authorizer.memory is not None
