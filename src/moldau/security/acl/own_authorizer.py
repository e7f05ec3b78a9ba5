"""What a company's own authorizer is: the class to derive from, and what it is asked.

Public as `moldau.authorization`. The broker's side of it is `broker/access/own_authorizer.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.security.acl.acl_model import Operation, ResourceType


class Question(NamedTuple):
    """Who wants to do what to which thing."""

    principal: str
    """For example User:alice; User:ANONYMOUS where nobody has logged in."""
    host: str
    """The client's address as text."""
    operation: Operation
    resource_type: ResourceType
    resource_name: str
    """Of the cluster: kafka-cluster."""
    request: str
    """What the client has sent, by Kafka's name: Produce, Fetch."""


class Authorizer:
    """Decides instead of access control lists; one object for each broker.

        # server.properties: authorizer.class.name=our.rules:OurAuthorizer
        class OurAuthorizer(moldau.authorization.Authorizer):
            def allows(self, question):
                return question.principal in ("User:alice", "User:bob")

    Every method is called on the broker's one loop, so none may wait for a disk or a network: keep
    what is needed in memory, and let a thread of your own bring it up to date. What raises, or
    answers with something else than True or False, denies, and the log says so."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Once before the first question, with all settings of the broker that are no secrets. An
        exception stops the start, with its text."""

    def allows(self, question: Question) -> bool:
        """Whether it may be done. Super users (`super.users`) are never asked about."""
        raise NotImplementedError

    def allows_somewhere(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there is any thing of the type to which this may be done: a producer that is
        idempotent must be allowed to write to some topic. Without this method none is."""
        return False

    def close(self) -> None:
        """When the broker stops."""
