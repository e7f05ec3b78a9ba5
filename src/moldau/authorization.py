"""Decide yourself who may do what: an authorizer of your own in the place of access control lists.

    from moldau.authorization import Authorizer, Operation, Question, ResourceType

    class OurAuthorizer(Authorizer):
        def allows(self, question: Question) -> bool:
            return question.operation is Operation.READ

The broker loads it by `authorizer.class.name=our.rules:OurAuthorizer`, from a module that Python
finds (PYTHONPATH).
"""

from __future__ import annotations

from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.security.acl.own_authorizer import Authorizer, Question

__all__ = ["Authorizer", "Operation", "Question", "ResourceType"]
