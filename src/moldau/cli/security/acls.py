"""`moldau acls`: list, add and remove access control lists, in the words of kafka-acls.sh."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.cli.command_clients import bootstrap_of, open_admin
from moldau.cli.command_faults import UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.security.acl_words import (
    entries_by_resource,
    filter_of,
    resources_of,
)
from moldau.cli.security.principals import principals
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, actions_of, run_tool
from moldau.security.acl.acl_model import Entry, Operation, PatternType, ResourcePattern
from moldau.security.acl.acl_model import pascal_case as pascal

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin
    from moldau.client.admin.security_admin import Acl

ACTIONS = ("list", "add", "remove")
ROLE_EXCLUDES = ("operation", "deny-principal", "deny-host")
EXCLUDED = {
    "list": (
        *("producer", "consumer", "allow-host"),
        *("allow-principal", "deny-host", "deny-principal"),
    ),
    "producer": ROLE_EXCLUDES,
    "consumer": ROLE_EXCLUDES,
}
"""What makes no sense beside each."""
ONLY_WITH = {
    "principal": ("list",),
    **dict.fromkeys(
        ("allow-principal", "deny-principal", "allow-host", "deny-host"), ("add", "remove")
    ),
    **dict.fromkeys(("producer", "consumer", "idempotent"), ("add", "remove")),
    "force": ("remove",),
}
TITLES = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    check(given, out)
    if given.has("list"):
        show(given, out)
    elif given.has("add"):
        add(given, out)
    else:
        remove(given, out)


def check(given: Given, out: Output) -> None:
    bootstrap_of(
        given, out, "One of --bootstrap-server or --bootstrap-controller must be specified"
    )
    if sum(given.has(action) for action in ACTIONS) != 1:
        raise UsageFault("Command must include exactly one action: --list, --add, --remove. ")
    for key, excluded in EXCLUDED.items():
        for other in excluded:
            if given.has(key) and given.has(other):
                raise UsageFault(f'Option "[{key}]" can\'t be used with option "[{other}]"')
    if given.has("principal") and not given.has("list"):
        raise UsageFault("The --principal option is only available if --list is set")
    if given.has("producer") and not given.has("topic"):
        raise UsageFault("With --producer you must specify a --topic")
    if given.has("idempotent") and not given.has("producer"):
        raise UsageFault("The --idempotent option is only available if --producer is set")
    if given.has("consumer") and not consumer_makes_sense(given):
        raise UsageFault(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def consumer_makes_sense(given: Given) -> bool:
    more = given.has("cluster") or given.has("transactional-id")
    return given.has("topic") and given.has("group") and (given.has("producer") or not more)


def show(given: Given, out: Output) -> None:
    resources = resources_of(given)
    wanted = principals(given, "principal")
    with open_admin(given, out) as admin:
        found = all_of(admin, resources)
    if given.has("json"):
        out.json([row_of(acl) for acl in found if not wanted or acl.principal in wanted])
    elif out.is_terminal:
        rows = [row_of(acl).values() for acl in found if not wanted or acl.principal in wanted]
        out.table(TITLES, [list(row) for row in rows])
    elif not wanted:
        show_resources(out, found)
    else:
        for principal in wanted:
            out.line(f"ACLs for principal `{principal}`")
            show_resources(out, [acl for acl in found if acl.principal == principal])


def all_of(admin: Admin, resources: Sequence[ResourcePattern]) -> list[Acl]:
    if not resources:
        return admin.describe_acls()
    found = [acl for each in resources for acl in admin.describe_acls(filter_of(each))]
    return list(dict.fromkeys(found))


def show_resources(out: Output, acls: Sequence[Acl]) -> None:
    by_resource: dict[ResourcePattern, list[Entry]] = {}
    for acl in acls:
        resource = ResourcePattern(acl.resource_type, acl.resource_name, acl.pattern_type)
        by_resource.setdefault(resource, []).append(entry_of(acl))
    for resource, entries in by_resource.items():
        out.line(f"Current ACLs for resource `{resource}`:\n{indented(entries)}\n")


def add(given: Given, out: Output) -> None:
    pattern = PatternType[given.text("resource-pattern-type").upper()]
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageFault(
            f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls."
        )
    wanted = entries_by_resource(given)
    if not all(wanted.values()):
        raise UsageFault(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    added: list[Acl] = []
    kept: list[Acl] = []
    with open_admin(given, out) as admin:
        for resource, entries in wanted.items():
            existing = {entry_of(acl) for acl in admin.describe_acls(filter_of(resource))}
            for entry in entries:
                if entry in existing:
                    kept.append(acl_of(resource, entry))
                    out.line(f"Acl (pattern={resource}, entry={entry}) already exists.")
            new = [entry for entry in entries if entry not in existing]
            if new:
                out.line(f"Adding ACLs for resource `{resource}`: \n {indented(new)}\n")
                out.flush()
                admin.create_acls([acl_of(resource, entry) for entry in new])
                added += [acl_of(resource, entry) for entry in new]
    if out.is_json:
        shown = {"added": added, "existing": kept}
        out.json({key: [row_of(acl) for acl in acls] for key, acls in shown.items()})


def remove(given: Given, out: Output) -> None:
    wanted = entries_by_resource(given)
    removed: list[Acl] = []
    with open_admin(given, out) as admin:
        for resource, entries in wanted.items():
            if not given.has("force") and not confirmed(out, question(resource, entries)):
                continue
            found = admin.delete_acls(
                [filter_of(resource, entry) for entry in entries] or [filter_of(resource)]
            )
            removed += [acl for acls in found.values() for acl in acls]
    if out.is_json:
        out.json({"removed": [row_of(acl) for acl in removed]})


def question(resource: ResourcePattern, entries: Sequence[Entry]) -> str:
    if not entries:
        return f"Are you sure you want to delete all ACLs for resource filter `{resource}`? (y/n)"
    return (
        f"Are you sure you want to remove ACLs: \n {indented(entries)}\n"
        f" from resource filter `{resource}`? (y/n)"
    )


def confirmed(out: Output, text: str) -> bool:
    """No answer at all is no."""
    out.warn(text)
    out.flush()
    return sys.stdin.readline().strip().lower() == "y"


def indented(entries: Sequence[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


def entry_of(acl: Acl) -> Entry:
    return Entry(acl.principal, acl.host, acl.operation, acl.permission)


def acl_of(resource: ResourcePattern, entry: Entry) -> Acl:
    from moldau.client.admin.security_admin import Acl

    return Acl(
        principal=entry.principal,
        resource_type=resource.type,
        resource_name=resource.name,
        operation=entry.operation,
        permission=entry.permission,
        host=entry.host,
        pattern_type=resource.pattern,
    )


def row_of(acl: Acl) -> dict[str, str]:
    return {
        "resourceType": acl.resource_type.name,
        "name": acl.resource_name,
        "patternType": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permissionType": acl.permission.name,
    }


def resource_flag(name: str, what: str) -> Flag:
    return Flag(name, f"{what}; * for all.", takes="NAME", repeats=True)


def who_flag(name: str, what: str) -> Flag:
    return Flag(name, what, takes="PRINCIPAL", repeats=True)


def host_flag(name: str, what: str) -> Flag:
    return Flag(name, f"The address {what}; any by default.", takes="HOST", repeats=True)


OPERATIONS = [pascal(op.name) for op in Operation if op > Operation.ANY]

TOOL = Tool(
    name="acls",
    does="Lists, adds and removes access control lists: who may do what.",
    flags=(
        BOOTSTRAP,
        Flag("--bootstrap-controller", takes="HOST:PORT", hidden=True),
        COMMAND_CONFIG,
        Flag("--list", "Show the lists of the resources, or all."),
        Flag("--add", "Add entries: allow or deny somebody something."),
        Flag("--remove", "Remove entries; without a principal all of the resources."),
        resource_flag("--topic", "A topic"),
        resource_flag("--group", "A consumer group"),
        Flag("--cluster", "The cluster itself, for what concerns no topic or group."),
        resource_flag("--transactional-id", "A transactional id"),
        resource_flag("--delegation-token", "A delegation token"),
        resource_flag("--user-principal", "A user, as User:name, that tokens are made for"),
        Flag(
            "--resource-pattern-type",
            "How names are meant: literal or prefixed; to list or remove also any (whatever the "
            "kind of name) and match (all that apply to the name).",
            takes="KIND",
            kind=str.lower,
            default="literal",
            one_of=("any", "match", "literal", "prefixed"),
        ),
        Flag(
            "--operation",
            f"What is allowed or denied: {', '.join(OPERATIONS)}.",
            takes="OPERATION",
            repeats=True,
            default=("All",),
        ),
        who_flag("--allow-principal", "Who is allowed, as User:name; User:* for everybody."),
        who_flag(
            "--deny-principal", "Who is denied, as User:name. What is denied no entry can allow."
        ),
        host_flag("--allow-host", "from which it is allowed"),
        host_flag("--deny-host", "from which it is denied"),
        who_flag("--principal", "With --list: only the entries of these."),
        Flag("--producer", "What a producer needs: Write, Describe and Create on topics."),
        Flag(
            "--consumer", "What a consumer needs: Read and Describe on topics, Read on its group."
        ),
        Flag("--idempotent", "With --producer: also IdempotentWrite on the cluster."),
        Flag("--force", "Remove without asking first."),
        JSON,
    ),
    main=main,
    actions=actions_of(ACTIONS, only_with=ONLY_WITH),
    fault_opening="Error while executing ACL command: ",
    faults_on_stdout=True,
    examples=(
        "moldau acls --bootstrap-server localhost:9092 --add --allow-principal User:alice "
        "--producer --topic orders",
        "moldau acls --bootstrap-server localhost:9092 --list --topic orders "
        "--resource-pattern-type match",
    ),
)
