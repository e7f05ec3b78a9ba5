"""Access control lists, quotas and users of a cluster, as far as it tells of them.

Passwords are nobody's to read: of users there are names only, to be given new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.security_admin import Acl, AclFilter
from moldau.client.shared.client_errors import KafkaError
from moldau.security.acl.acl_model import Operation, PatternType, Permission, ResourceType


async def read_access(admin: AdminCore) -> dict[str, Any]:
    """What cannot be read is named with the reason."""
    found: dict[str, Any] = {"acls": [], "quotas": [], "users": [], "not_readable": {}}
    try:
        found["acls"] = [_acl_row(acl) for acl in await admin.describe_acls(AclFilter())]
    except KafkaError as error:
        found["not_readable"]["acls"] = error.message
    try:
        quotas = await admin.describe_client_quotas()
        found["quotas"] = [[list(entity), limits] for entity, limits in quotas.items()]
    except KafkaError as error:
        found["not_readable"]["quotas"] = error.message
    try:
        users = await admin.describe_user_scram_credentials()
        found["users"] = sorted(users)
    except KafkaError as error:
        found["not_readable"]["users"] = error.message
    return found


def _acl_row(acl: Acl) -> list[Any]:
    return [part if isinstance(part, str) else int(part) for part in acl]


async def restore_access(admin: AdminCore, access: Mapping[str, Any]) -> list[str]:
    """What could not be made, as sentences."""
    said = []
    acls = [_acl(*row) for row in access.get("acls", ())]
    quotas = {
        tuple((kind, name) for kind, name in entity): limits
        for entity, limits in access.get("quotas", ())
    }
    try:
        made = await admin.create_acls(acls) if acls else {}
        faults = [error.message for error in made.values() if isinstance(error, KafkaError)]
    except KafkaError as error:
        faults = [error.message] * len(acls)
    if faults:
        said.append(f"{len(faults)} of {len(acls)} access rules are not restored: {faults[0]}")
    try:
        limited = await admin.alter_client_quotas(quotas) if quotas else {}
        faults = [error.message for error in limited.values() if isinstance(error, KafkaError)]
    except KafkaError as error:
        faults = [error.message] * len(quotas)
    if faults:
        said.append(f"{len(faults)} of {len(quotas)} quotas are not restored: {faults[0]}")
    if access.get("users"):
        names = ", ".join(access["users"])
        said.append(f"these users need new passwords, for nobody can read the old ones: {names}")
    return said


def _acl(
    principal: str, resource: int, name: str, operation: int, permission: int, host: str, kind: int
) -> Acl:
    return Acl(
        principal,
        ResourceType(resource),
        name,
        Operation(operation),
        Permission(permission),
        host,
        PatternType(kind),
    )
