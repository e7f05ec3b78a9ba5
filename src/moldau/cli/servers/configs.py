"""`moldau configs`: show and change settings of topics, brokers, groups and users, as
kafka-configs.sh."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.cli.command_clients import ZOOKEEPER, open_admin, properties_file
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import BOLD, Output
from moldau.cli.servers.quota_configs import (
    QUOTA_TYPES,
    alter_entities,
    check_types,
    describe_entities,
)
from moldau.cli.tool import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    JSON,
    NOTHING_IS_ASKED,
    Tool,
    actions_of,
    run_tool,
)
from moldau.config.setting_definition import HIDDEN

if TYPE_CHECKING:
    from moldau.client.admin.admin_results import ConfigEntry, ConfigResource
    from moldau.client.admin.blocking_admin import Admin

TYPES = (
    "topics",
    "clients",
    "users",
    "brokers",
    "ips",
    "client-metrics",
    "groups",
    "broker-loggers",
)
SHORT_FLAGS = {
    "topic": "topics",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "client": "clients",
    "user": "users",
    "ip": "ips",
    "group": "groups",
    "client-metrics": "client-metrics",
}
DEFAULT_FLAGS = {
    "broker-defaults": "brokers",
    "client-defaults": "clients",
    "user-defaults": "users",
    "ip-defaults": "ips",
}
OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
DEFAULT_NAME = ""
ONLY_WITH = {
    "all": ("describe",),
    "add-config": ("alter",),
    "add-config-file": ("alter",),
    "delete-config": ("alter",),
}
"""What has a meaning with one action only; with the other it is told to have no effect."""
PASSWORD = re.compile(r"password=[^\]\s]*")


class Entity(NamedTuple):
    type: str
    name: str | None
    """None stands for all of the type, "" for their default."""

    @property
    def singular(self) -> str:
        return self.type[:-1]


SECRET = re.compile(
    r"(?:store\.password|key\.password|jaas\.config|secret|keystore\.key)\s*=", re.IGNORECASE
)
"""A word of a command line that must not be quoted when it fails."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    if given.has("describe") == given.has("alter"):
        raise UsageFault("Command must include exactly one action: --describe, --alter")
    entities = entities_of(given)
    changes = changes_of(given) if given.has("alter") else ()
    missing = "Either --bootstrap-server or --bootstrap-controller must be specified."
    try:
        with open_admin(given, out, missing=missing) as admin:
            if given.has("alter"):
                alter(admin, entities, changes, out)
            else:
                describe(admin, entities, given, out)
    except UsageFault:
        raise
    except CommandFault as fault:
        if fault.told:
            raise
        shown = (HIDDEN if SECRET.search(word) else word for word in given.raw)
        words = PASSWORD.sub("password=[hidden]", " ".join(shown))
        java = f"{fault.java}: " if fault.java else ""
        opening = f"Error while executing config command with args '{words}'\n{java}"
        raise CommandFault(fault.sentence, java=fault.java, opening=opening) from None


def entities_of(given: Given) -> list[Entity]:
    types = given.texts("entity-type")
    for each in types:
        if each not in TYPES:
            raise UsageFault(
                f"Invalid entity type {each}, the entity type must be one of {', '.join(TYPES)}"
                " with a --bootstrap-server or --bootstrap-controller argument"
            )
    names = list(names_in_order(given))
    entities = [
        Entity(each, names[index] if index < len(names) else None)
        for index, each in enumerate(types)
    ]
    entities += [
        Entity(kind, given.text(flag)) for flag, kind in SHORT_FLAGS.items() if given.has(flag)
    ]
    entities += [
        Entity(kind, DEFAULT_NAME) for flag, kind in DEFAULT_FLAGS.items() if given.has(flag)
    ]
    if not entities:
        raise UsageFault("At least one entity type must be specified")
    check_types(entities)
    is_quota = entities[0].type in QUOTA_TYPES
    if given.has("alter") and not is_quota and any(each.name is None for each in entities):
        raise UsageFault(
            f"An entity-name or default entity must be specified with --alter of {entities[0].type}"
        )
    return entities


def names_in_order(given: Given) -> Iterator[str | None]:
    """Each belongs to the type at the same place; "" is the default."""
    named = iter(given.texts("entity-name"))
    if not given.has("entity-default"):
        yield from named
        return
    for word in given.raw:
        flag = word.partition("=")[0]
        if flag == "--entity-name":
            yield next(named)
        elif flag == "--entity-default":
            yield DEFAULT_NAME


def changes_of(given: Given) -> dict[str, str | None]:
    """Settings to set, and those to delete as None."""
    if not any(given.has(each) for each in ("add-config", "add-config-file", "delete-config")):
        raise UsageFault(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified"
            " with --alter"
        )
    changes: dict[str, str | None] = {}
    for text in given.texts("delete-config"):
        changes |= dict.fromkeys(each.strip() for each in text.split(","))
    if given.has("add-config-file"):
        changes |= properties_file(given.text("add-config-file"))
    if given.has("add-config"):
        changes |= added(given.text("add-config"))
    return changes


def added(text: str) -> dict[str, str]:
    """k1=v1,k2=[v1,v2],k3=v3"""
    configs = {}
    for part in re.split(rf"\s*,\s*{OUTSIDE_BRACKETS}", text.strip()):
        pair = re.split(rf"\s*=\s*{OUTSIDE_BRACKETS}", part, maxsplit=1)
        if len(pair) != 2 or not pair[0]:
            raise UsageFault(
                "Invalid entity config: all configs to be added must be in the format"
                ' "key=val" or "key=[val1,val2]".'
            )
        configs[pair[0].strip()] = re.sub(r"[\[\]]", "", pair[1]).strip()
    return configs


def resource_of(entity: Entity) -> ConfigResource:
    from moldau.client.admin.admin_results import ConfigResource, ResourceType

    kinds = {
        "topics": "TOPIC",
        "brokers": "BROKER",
        "broker-loggers": "BROKER_LOGGER",
        "client-metrics": "CLIENT_METRICS",
        "groups": "GROUP",
    }
    return ConfigResource(ResourceType[kinds[entity.type]], entity.name or "")


def alter(admin: Admin, entities: list[Entity], changes: Any, out: Output) -> None:
    entity = entities[0]
    if entity.type in QUOTA_TYPES:
        alter_entities(admin, entities, changes)
    else:
        admin.incremental_alter_configs({resource_of(entity): changes}).check()
    if out.is_json:
        # Names only: values may be passwords.
        out.json(
            {
                "entities": [{"type": each.type, "name": each.name or None} for each in entities],
                "set": sorted(key for key, value in changes.items() if value is not None),
                "deleted": sorted(key for key, value in changes.items() if value is None),
            }
        )
    elif entity.name:
        out.line(f"Completed updating config for {entity.singular} {entity.name}.")
    else:
        out.line(f"Completed updating default config for {entity.type} in the cluster.")


def describe(admin: Admin, entities: list[Entity], given: Given, out: Output) -> None:
    entity = entities[0]
    if entity.type in QUOTA_TYPES:
        describe_entities(admin, entities, out, as_json=given.has("json"))
        return
    every = [entity]
    if entity.name is None:
        every = all_of(admin, entity.type)
    elif entity.name and not exists(admin, entity):
        sentence = (
            f"The {entity.singular} '{entity.name}' doesn't exist and doesn't have dynamic config."
        )
        raise CommandFault(sentence, told=sentence)
    shown = []
    for each in every:
        entries = sorted(entries_of(admin, each, shows_all=given.has("all")))
        if given.has("json"):
            shown.append(as_json(each, entries))
            continue
        out.line(out.paint(title(each, given.has("all")), BOLD))
        for entry in entries:
            out.line(f"  {entry_line(entry)}")
    if given.has("json"):
        out.json(shown)


def title(entity: Entity, shows_all: bool) -> str:
    if entity.name == DEFAULT_NAME:
        return f"Default configs for {entity.type} in the cluster are:"
    which = "All" if shows_all else "Dynamic"
    return f"{which} configs for {entity.singular} {entity.name} are:"


def all_of(admin: Admin, kind: str) -> list[Entity]:
    match kind:
        case "topics":
            return [Entity(kind, name) for name in sorted(admin.list_topics(include_internal=True))]
        case "brokers" | "broker-loggers":
            nodes = sorted(node.id for node in admin.describe_cluster().nodes)
            named = [Entity(kind, str(node)) for node in nodes]
            return [*named, Entity(kind, DEFAULT_NAME)] if kind == "brokers" else named
        case _:
            return [Entity(kind, name) for name in sorted(configured(admin, kind))]


def configured(admin: Admin, kind: str) -> set[str]:
    wanted = resource_of(Entity(kind, "")).type
    return {each.name for each in admin.list_config_resources([wanted])}


def exists(admin: Admin, entity: Entity) -> bool:
    match entity.type:
        case "topics":
            return entity.name in admin.list_topics(include_internal=True)
        case "brokers" | "broker-loggers":
            return entity.name in {str(node.id) for node in admin.describe_cluster().nodes}
        case "groups":
            known = {group.group_id for group in admin.list_groups()}
            return entity.name in known or entity.name in configured(admin, "groups")
        case _:
            return entity.name in configured(admin, entity.type)


def entries_of(admin: Admin, entity: Entity, *, shows_all: bool) -> Iterable[ConfigEntry]:
    from moldau.client.admin.admin_results import ConfigSource

    resource = resource_of(entity)
    described = admin.describe_configs([resource], include_synonyms=True).check()[resource]
    if shows_all or entity.type == "broker-loggers":
        return described.values()
    is_default = entity.type == "brokers" and entity.name == DEFAULT_NAME
    source = {
        "topics": ConfigSource.DYNAMIC_TOPIC_CONFIG,
        "brokers": ConfigSource.DYNAMIC_BROKER_CONFIG,
        "client-metrics": ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
        "groups": ConfigSource.DYNAMIC_GROUP_CONFIG,
    }[entity.type]
    wanted = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if is_default else source
    return [entry for entry in described.values() if entry.source is wanted]


def entry_line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{s.source.name}:{s.name}={or_null(s.value)}" for s in entry.synonyms)
    sensitive = "true" if entry.is_sensitive else "false"
    return f"{entry.name}={or_null(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def or_null(value: str | None) -> str:
    return "null" if value is None else value


def as_json(entity: Entity, entries: list[ConfigEntry]) -> dict[str, Any]:
    return {
        "entityType": entity.type,
        "entityName": entity.name or None,
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name,
                "sensitive": entry.is_sensitive,
                "readOnly": entry.is_read_only,
            }
            for entry in entries
        ],
    }


TOOL = Tool(
    name="configs",
    does="Shows and changes the settings of topics, brokers and groups, the quotas of users, "
    "clients and addresses, and users' passwords, while the cluster runs.",
    flags=(
        BOOTSTRAP,
        Flag("--describe", "Show the settings that were set for it; with --all every one."),
        Flag("--alter", "Change settings while the cluster runs; nothing has to be started again."),
        Flag(
            "--entity-type",
            "What the settings belong to: topics, brokers, broker-loggers, groups, users,"
            " clients, ips or client-metrics.",
            takes="TYPE",
            repeats=True,
        ),
        Flag(
            "--entity-name",
            "Which one; without it --describe shows all.",
            takes="NAME",
            repeats=True,
        ),
        Flag("--entity-default", "What holds for all that say nothing else.", repeats=True),
        Flag("--topic", "Short for --entity-type topics --entity-name NAME.", takes="NAME"),
        Flag("--broker", "The settings of the broker with this number.", takes="ID"),
        Flag("--broker-defaults", "The settings of all brokers that have none of their own."),
        Flag("--broker-logger", "The log levels of one broker.", takes="ID"),
        Flag("--group", "The settings of one group.", takes="NAME"),
        Flag("--client-metrics", "One subscription to client metrics.", takes="NAME"),
        Flag("--user", "The quotas and the SCRAM credentials of one user.", takes="NAME"),
        Flag("--user-defaults", "The quotas of users who have none of their own."),
        Flag("--client", "The quotas of one client id.", takes="NAME"),
        Flag("--client-defaults", "The quotas of client ids that have none of their own."),
        Flag("--ip", "The connection quota of one address.", takes="NAME"),
        Flag("--ip-defaults", "That of addresses that have none of their own."),
        Flag("--all", "With --describe: those with their defaults too."),
        Flag("--add-config", "Settings to set: k1=v1,k2=[v2,v3].", takes="LIST"),
        Flag("--add-config-file", "A properties file with settings to set.", takes="FILE"),
        Flag("--delete-config", "Settings to take back: k1,k2.", takes="LIST", repeats=True),
        Flag("--bootstrap-controller", takes="HOST:PORT", hidden=True),
        Flag("--force", hidden=True, no_effect=NOTHING_IS_ASKED),
        ZOOKEEPER,
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    actions=actions_of(("describe", "alter"), only_with=ONLY_WITH),
    examples=(
        "moldau configs --bootstrap-server localhost:9092 --describe --topic orders --all",
        "moldau configs --bootstrap-server localhost:9092 --alter --topic orders"
        " --add-config retention.ms=86400000,cleanup.policy=[compact,delete]",
        "moldau configs --bootstrap-server localhost:9092 --alter --broker-defaults"
        " --add-config log.retention.ms=604800000",
        "moldau configs --bootstrap-server localhost:9092 --alter --topic orders"
        " --delete-config retention.ms",
        "moldau configs --bootstrap-server localhost:9092 --alter --user alice"
        " --add-config producer_byte_rate=1048576,request_percentage=50",
        "moldau configs --bootstrap-server localhost:9092 --alter --user alice"
        " --add-config SCRAM-SHA-256=[iterations=8192,password=secret]",
    ),
)
