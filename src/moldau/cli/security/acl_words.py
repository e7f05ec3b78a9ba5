"""What a line of `moldau acls` asks for: resources, and the entries of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.cli.command_faults import UsageFault
from moldau.cli.flags import Given
from moldau.cli.security.principals import principals
from moldau.security.acl.acl_model import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

if TYPE_CHECKING:
    from moldau.client.admin.security_admin import AclFilter

Wanted = dict[ResourcePattern, list[Entry]]
Operations = tuple[Operation, ...]

CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
RESOURCE_FLAGS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
WRITES = (Operation.WRITE, Operation.DESCRIBE)
PRODUCER: dict[ResourceType, Operations] = {
    ResourceType.TOPIC: (*WRITES, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: WRITES,
}
CONSUMER: dict[ResourceType, Operations] = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}
"""What the roles need on each kind of resource."""


def resources_of(given: Given) -> list[ResourcePattern]:
    pattern = PatternType[given.text("resource-pattern-type").upper()]
    found = [
        ResourcePattern(kind, name.strip(), pattern)
        for key, kind in RESOURCE_FLAGS.items()
        for name in given.texts(key)
    ]
    wants_cluster = given.has("cluster") or given.has("idempotent")
    if wants_cluster and pattern is PatternType.LITERAL:
        found.append(CLUSTER)
    return list(dict.fromkeys(found))


def entries_by_resource(given: Given) -> Wanted:
    """To add or to remove. No entry for a resource means all of its entries."""
    resources = resources_of(given)
    if not resources:
        raise UsageFault(
            "You must provide at least one resource: --topic <topic> or --cluster or --group "
            "<group> or --delegation-token <Delegation Token ID>"
        )
    wanted: Wanted = {}
    if given.has("producer"):
        take_role(given, wanted, resources, PRODUCER)
        if given.has("idempotent"):
            wanted[CLUSTER] = entries(given, (Operation.IDEMPOTENT_WRITE,))
    if given.has("consumer"):
        take_role(given, wanted, resources, CONSUMER)
    if not given.has("producer") and not given.has("consumer"):
        operations = tuple(operation_named(text.strip()) for text in given.texts("operation"))
        wanted = {resource: entries(given, operations) for resource in resources}
    check_supported(wanted)
    return wanted


def take_role(
    given: Given,
    wanted: Wanted,
    resources: list[ResourcePattern],
    role: dict[ResourceType, Operations],
) -> None:
    for resource in resources:
        if resource.type in role:
            more = entries(given, role[resource.type])
            wanted[resource] = list(dict.fromkeys((*wanted.get(resource, ()), *more)))


def entries(given: Given, operations: Operations) -> list[Entry]:
    found = [
        Entry(principal, host, operation, permission)
        for word, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY))
        for principal in principals(given, f"{word}-principal")
        for operation in operations
        for host in hosts(given, f"{word}-host")
    ]
    return list(dict.fromkeys(found))


def hosts(given: Given, key: str) -> list[str]:
    return [host.strip() for host in given.texts(key)] or [WILDCARD]


def operation_named(text: str) -> Operation:
    """`DescribeConfigs`, in any case, with or without underscores."""
    name = text.replace("_", "").upper()
    known = {operation.name.replace("_", ""): operation for operation in Operation}
    return known.get(name, Operation.UNKNOWN)


def check_supported(wanted: Wanted) -> None:
    for resource, listed in wanted.items():
        supported = (*SUPPORTED_OPERATIONS[resource.type], Operation.ALL)
        if any(entry.operation not in supported for entry in listed):
            names = ", ".join(operation.name for operation in supported)
            raise UsageFault(
                f"ResourceType {resource.type.name} only supports operations [{names}]"
            )


def filter_of(resource: ResourcePattern, entry: Entry | None = None) -> AclFilter:
    from moldau.client.admin.security_admin import AclFilter

    matching = AclFilter(
        resource_type=resource.type, resource_name=resource.name, pattern_type=resource.pattern
    )
    if entry is None:
        return matching
    return matching._replace(
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission=entry.permission,
    )
