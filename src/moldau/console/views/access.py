"""Who may do what: access control lists, users with passwords, and quotas."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

from moldau.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
    ScramMechanism,
)
from moldau.client.shared.client_errors import KafkaError
from moldau.console.commands import command
from moldau.console.listing import list_rows
from moldau.console.page import Asked, PageFault, Plan, Shown
from moldau.model.errors import Error

E = TypeVar("E", bound=IntEnum)
RESOURCE_TYPES = [each for each in AclResourceType if each > AclResourceType.ANY]
OPERATIONS = [each for each in AclOperation if each > AclOperation.ANY]
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
PERMISSIONS = (Permission.ALLOW, Permission.DENY)
RESOURCE_FLAGS = {
    AclResourceType.TOPIC: "--topic",
    AclResourceType.GROUP: "--group",
    AclResourceType.TRANSACTIONAL_ID: "--transactional-id",
    AclResourceType.DELEGATION_TOKEN: "--delegation-token",
    AclResourceType.USER: "--user-principal",
}
NO_AUTHORIZER = (
    "This cluster has no authorizer: everybody may do everything. authorizer.class.name in the"
    " settings of its brokers switches access lists on."
)
KEYS = {
    "name": lambda row: f"{row.principal} {row.resource_name}",
    "resource": lambda row: (row.resource_type.name, row.resource_name),
    "operation": lambda row: row.operation.name,
    "permission": lambda row: row.permission.name,
}
ITERATIONS = 4096
PASSWORD_MAX = 1000


async def acls(asked: Asked) -> Shown:
    note = ""
    try:
        rows = await asked.link.admin.describe_acls()
    except KafkaError as error:
        if error.code is not Error.SECURITY_DISABLED:
            raise
        rows, note = [], NO_AUTHORIZER
    listing, shown = list_rows(asked, "/acls", rows, KEYS)
    return {
        "acls": shown,
        "note": note,
        "listing": listing,
        "resource_types": [each.name for each in RESOURCE_TYPES],
        "operations": [each.name for each in OPERATIONS],
    }


def _chosen(kind: type[E], asked: Asked, field: str) -> E:
    word = asked.filled(field).upper()
    if word not in kind.__members__:
        raise PageFault(400, f"'{field}' cannot be '{word[:40]}'.")
    return kind[word]


def _acl(asked: Asked) -> Acl:
    principal = asked.filled("principal")
    if ":" not in principal:
        principal = f"User:{principal}"
    resource = _chosen(AclResourceType, asked, "resource_type")
    name = asked.form.get("resource_name", "").strip()
    if resource is AclResourceType.CLUSTER:
        name = "kafka-cluster"
    if not name:
        raise PageFault(400, "The field 'resource_name' is empty.")
    return Acl(
        principal,
        resource,
        name,
        _chosen(AclOperation, asked, "operation"),
        _chosen(Permission, asked, "permission"),
        asked.form.get("host", "").strip() or "*",
        _chosen(PatternType, asked, "pattern"),
    )


def _words(acl: Acl, verb: str) -> tuple[str, ...]:
    flag = RESOURCE_FLAGS.get(acl.resource_type)
    resource = ("--cluster",) if flag is None else (flag, acl.resource_name)
    pattern = (
        ()
        if acl.pattern_type is PatternType.LITERAL
        else (
            "--resource-pattern-type",
            acl.pattern_type.name.lower(),
        )
    )
    word = "allow" if acl.permission is Permission.ALLOW else "deny"
    host = () if acl.host == "*" else (f"--{word}-host", acl.host)
    operation = "".join(each.capitalize() for each in acl.operation.name.split("_"))
    return (
        verb,
        f"--{word}-principal",
        acl.principal,
        *host,
        "--operation",
        operation,
        *resource,
        *pattern,
    )


def sentence(acl: Acl) -> str:
    may = "may" if acl.permission is Permission.ALLOW else "may not"
    where = "" if acl.host == "*" else f" from {acl.host}"
    kind = acl.resource_type.name.lower().replace("_", " ")
    name = f"{kind} {acl.resource_name}"
    if acl.pattern_type is PatternType.PREFIXED:
        name = f"every {kind} whose name begins with {acl.resource_name}"
    elif acl.resource_name == "*":
        name = f"every {kind}"
    return f"{acl.principal} {may} {acl.operation.name.lower().replace('_', ' ')} {name}{where}"


async def acl_creation(asked: Asked) -> Plan:
    acl = _acl(asked)

    async def act() -> str:
        await asked.link.admin.create_acls([acl])
        return f"Added: {sentence(acl)}."

    return Plan(
        f"{acl.permission.name.capitalize()} {acl.operation.name.lower()} for {acl.principal}",
        (f"{sentence(acl)}, from now on.",),
        act,
        "/acls",
        command(asked, "acls", *_words(acl, "--add")),
    )


async def acl_deletion(asked: Asked) -> Plan:
    acl = _acl(asked)
    one = AclFilter(
        acl.principal,
        acl.resource_type,
        acl.resource_name,
        acl.operation,
        acl.permission,
        acl.host,
        acl.pattern_type,
    )

    async def act() -> str:
        gone = (await asked.link.admin.delete_acls([one]))[one]
        return f"Removed {len(gone)}: {sentence(acl)}."

    return Plan(
        f"Remove an entry of {acl.principal}",
        (f"It will not be said any more: {sentence(acl)}.",),
        act,
        "/acls",
        command(asked, "acls", *_words(acl, "--remove"), "--force"),
    )


class UserRow(NamedTuple):
    name: str
    mechanisms: list[str]


async def users(asked: Asked) -> Shown:
    found = await asked.link.admin.describe_user_scram_credentials(raise_errors=False)
    rows = [
        UserRow(
            name,
            [f"{_mechanism(each.mechanism)} ({each.iterations} rounds)" for each in credentials],
        )
        for name, credentials in found.items()
    ]
    listing, shown = list_rows(asked, "/users", rows, {"name": lambda row: row.name})
    return {
        "users": shown,
        "listing": listing,
        "mechanisms": [_mechanism(each) for each in ScramMechanism],
    }


def _mechanism(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")


def _named_mechanism(asked: Asked) -> ScramMechanism:
    word = asked.filled("mechanism").split(" ")[0].replace("-", "_")
    if word not in ScramMechanism.__members__:
        raise PageFault(400, f"'mechanism' cannot be '{word[:40]}'.")
    return ScramMechanism[word]


async def user_change(asked: Asked) -> Plan:
    name, mechanism = asked.filled("name"), _named_mechanism(asked)
    password = asked.form.get("password", "")
    if not password or len(password) > PASSWORD_MAX:
        raise PageFault(400, f"A password has from 1 to {PASSWORD_MAX} characters.")

    async def act() -> str:
        await asked.link.admin.upsert_user_scram_credential(
            name, password, mechanism=mechanism, iterations=ITERATIONS
        )
        return f"{name} has a password for {_mechanism(mechanism)}."

    return Plan(
        f"Give {name} a password",
        (
            f"{name} can log in by {_mechanism(mechanism)} with the new password at once; an older"
            " password for it is no longer good. The password is salted and hashed here and does"
            " not travel.",
        ),
        act,
        "/users",
        command(
            asked,
            "configs",
            "--alter",
            "--entity-type",
            "users",
            "--entity-name",
            name,
            "--add-config",
            f"{_mechanism(mechanism)}=[password=…]",
        ),
    )


async def user_deletion(asked: Asked) -> Plan:
    name, mechanism = asked.path["user"], _named_mechanism(asked)

    async def act() -> str:
        await asked.link.admin.delete_user_scram_credential(name, mechanism)
        return f"{name} has no password for {_mechanism(mechanism)} any more."

    return Plan(
        f"Take the {_mechanism(mechanism)} password of {name} away",
        (
            f"{name} cannot log in by {_mechanism(mechanism)} any more. Connections that are open"
            " stay until they end. What access lists say of the user stays too.",
        ),
        act,
        "/users",
        command(
            asked,
            "configs",
            "--alter",
            "--entity-type",
            "users",
            "--entity-name",
            name,
            "--delete-config",
            _mechanism(mechanism),
        ),
        typed=name,
    )
