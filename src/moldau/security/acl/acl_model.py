"""The words of access control lists, numbered as the protocol does, and one list entry."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

WILDCARD = "*"
ANY_USER = "User:*"
CLUSTER_NAME = "kafka-cluster"


def pascal_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


class ResourceType(IntEnum):
    """What kind of thing an access control list protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How its resource name is meant."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In filters: everything that would apply to the name."""
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What it allows or denies."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether it allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.type.name}, name={self.name}, "
            f"patternType={self.pattern.name})"
        )


class Entry(NamedTuple):
    """Who may, or may not, do what, from where."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


class Acl(NamedTuple):
    resource: ResourcePattern
    entry: Entry


SUPPORTED_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What can be allowed on each kind of resource, in the order of the numbers."""

IMPLIED: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""What is allowed to whoever is allowed one of the others. Denials imply nothing."""


def fault_of(acl: Acl) -> str | None:
    """Why an entry cannot be created, in Kafka's words; None if it can."""
    resource, entry = acl
    if resource.type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return "Invalid resourceType"
    if resource.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {resource.pattern.name}"
    if not resource.name:
        return "Resource name should not be empty"
    if resource.type is ResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        return "Invalid operation"
    if entry.permission in (Permission.UNKNOWN, Permission.ANY):
        return "Invalid permissionType"
    if ":" not in entry.principal:
        return f"Could not parse principal from `{entry.principal}` (no colon is present)"
    if "/" in resource.name:
        return f"Resource name {resource.name} must not contain a slash"
    return None
