"""Settings of topics, brokers and the whole cluster: values, where each comes from, changes."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.admin import AlterConfig, AlterOperation, ConfigEntry, ConfigResource, ConfigSource
from moldau.config.setting_definition import HIDDEN
from moldau.console.commands import command
from moldau.console.page import Asked, PageFault, Plan, Shown
from moldau.console.rendering import path_word

SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "this topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker, while it runs",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "the cluster, while it runs",
    ConfigSource.STATIC_BROKER_CONFIG: "the broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "this broker's log levels",
    ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG: "client metrics",
    ConfigSource.DYNAMIC_GROUP_CONFIG: "this group",
}
VALUE_MAX = 32_000
SECRET_WORDS = ("password", "secret", "jaas", "credential", "token")


class SettingRow(NamedTuple):
    name: str
    value: str | None
    """None if it is secret."""
    source: str
    is_own: bool
    """Set for this resource itself, so that it can be taken back."""
    is_read_only: bool
    is_sensitive: bool
    others: list[str]
    """What would hold without it, nearest first."""
    documentation: str


async def of_topic(asked: Asked) -> Shown:
    name = asked.path["topic"]
    await asked.link.admin.describe_topics([name])
    return {"topic": name, **await _shown(asked, ConfigResource.topic(name))}


async def of_broker(asked: Asked) -> Shown:
    name = _broker(asked)
    return {"broker": name, **await _shown(asked, ConfigResource.broker(name))}


async def of_cluster(asked: Asked) -> Shown:
    return await _shown(asked, ConfigResource.broker())


async def _shown(asked: Asked, resource: ConfigResource) -> dict[str, Any]:
    answer = await asked.link.admin.describe_configs(
        [resource], include_synonyms=True, include_documentation=True
    )
    own_only = asked.query.get("own") == "yes"
    find = asked.query.get("find", "").strip().lower()
    rows = [_row(entry, resource) for _, entry in sorted(answer[resource].items())]
    shown = [
        row
        for row in rows
        if (not own_only or row.source != "default") and (not find or find in row.name)
    ]
    return {
        "settings": shown,
        "names": [row.name for row in rows if not row.is_read_only],
        "total": len(rows),
        "own_only": own_only,
        "find": find,
        "chosen": asked.query.get("change", ""),
        "is_cluster": resource.name == "",
    }


def _row(entry: ConfigEntry, resource: ConfigResource) -> SettingRow:
    own = {
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        if resource.name == ""
        else ConfigSource.DYNAMIC_BROKER_CONFIG,
    }
    others = [
        f"{each.value if each.value is not None else HIDDEN} ({SOURCES.get(each.source, '?')})"
        for each in entry.synonyms
        if each.source is not entry.source
    ]
    return SettingRow(
        entry.name,
        entry.value,
        SOURCES.get(entry.source, "unknown"),
        entry.source in own,
        entry.is_read_only,
        entry.is_sensitive,
        others,
        entry.documentation or "",
    )


async def change_of_topic(asked: Asked) -> Plan:
    name = asked.path["topic"]
    return await _change(
        asked,
        ConfigResource.topic(name),
        f"the topic {name}",
        f"/topics/{path_word(name)}/settings",
        ("--entity-type", "topics", "--entity-name", name),
    )


async def change_of_broker(asked: Asked) -> Plan:
    name = _broker(asked)
    return await _change(
        asked,
        ConfigResource.broker(name),
        f"broker {name}",
        f"/brokers/{name}/settings",
        ("--entity-type", "brokers", "--entity-name", name),
    )


async def change_of_cluster(asked: Asked) -> Plan:
    return await _change(
        asked,
        ConfigResource.broker(),
        "all brokers",
        "/settings",
        ("--entity-type", "brokers", "--entity-default"),
    )


async def _change(
    asked: Asked, resource: ConfigResource, whose: str, after: str, words: tuple[str, ...]
) -> Plan:
    key = asked.filled("key")
    takes_back = asked.form.get("action") == "back"
    value = asked.form.get("value", "").strip()
    if len(value) > VALUE_MAX:
        raise PageFault(400, f"A value may have {VALUE_MAX} characters, not {len(value)}.")
    change = (
        AlterConfig(key, None, AlterOperation.DELETE) if takes_back else AlterConfig(key, value)
    )
    admin = asked.link.admin
    entries = (await admin.describe_configs([resource], include_synonyms=True))[resource]
    before = entries.get(key)
    is_secret = may_be_secret(key, before)
    told = HIDDEN if is_secret else value
    await admin.incremental_alter_configs({resource: [change]}, validate_only=True)

    async def act() -> str:
        await admin.incremental_alter_configs({resource: [change]})
        return f"{key} of {whose} is {'taken back' if takes_back else told or 'empty'}."

    old = "not known" if before is None else HIDDEN if is_secret else before.value or ""
    new = _without_own(before) if takes_back else told
    alter = ("--delete-config", key) if takes_back else ("--add-config", f"{key}=[{told}]")
    if not takes_back and "," not in told:
        alter = ("--add-config", f"{key}={told}")
    verb = "Take back" if takes_back else "Set"
    return Plan(
        f"{verb} {key} of {whose}",
        (f"The setting {key} of {whose} changes at once.",),
        act,
        after,
        command(asked, "configs", "--alter", *words, *alter),
        rows=(("Setting", "Now", "Then"), (key, old, new)),
    )


def may_be_secret(key: str, entry: ConfigEntry | None) -> bool:
    """What the cluster does not know by this name may be a listener's own, with a log-in in it."""
    named = any(word in key.lower() for word in SECRET_WORDS)
    return entry is None or entry.is_sensitive or named


def _without_own(entry: ConfigEntry | None) -> str:
    rest = [] if entry is None else [s for s in entry.synonyms if s.source is not entry.source]
    return rest[0].value or "" if rest else "what the broker gives it"


def _broker(asked: Asked) -> str:
    name = asked.path["broker"]
    if not name.isdigit():
        raise PageFault(404, f"A broker has a number, not the name '{name[:40]}'.")
    return name
