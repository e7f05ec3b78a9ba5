"""Quotas of users, client ids and addresses."""

from __future__ import annotations

from typing import NamedTuple

from moldau.admin import Entity
from moldau.console.commands import command
from moldau.console.page import Asked, PageFault, Plan, Shown

QUOTAS = {
    "producer_byte_rate": "bytes per second written",
    "consumer_byte_rate": "bytes per second read",
    "request_percentage": "per cent of one thread's time",
    "controller_mutation_rate": "partitions per second created or deleted",
    "connection_creation_rate": "new connections per second",
}
KINDS = {"user": "users", "client-id": "clients", "ip": "ips"}


class QuotaRow(NamedTuple):
    entity: Entity
    whose: str
    key: str
    means: str
    value: float


async def listed(asked: Asked) -> Shown:
    found = await asked.link.admin.describe_client_quotas()
    rows = [
        QuotaRow(entity, whose(entity), key, QUOTAS.get(key, ""), value)
        for entity, values in sorted(found.items(), key=lambda row: whose(row[0]))
        for key, value in sorted(values.items())
    ]
    return {"quotas": rows, "keys": QUOTAS, "kinds": list(KINDS)}


def whose(entity: Entity) -> str:
    words = [
        f"{kind} {name}" if name is not None else f"any {kind} without one of its own"
        for kind, name in entity
    ]
    return ", ".join(words)


def _entity(asked: Asked) -> Entity:
    """From the form: a name for each kind; `*` is the default of a kind, nothing leaves it out."""
    found: list[tuple[str, str | None]] = []
    for kind in KINDS:
        name = asked.form.get(kind, "").strip()
        if name:
            found.append((kind, None if name == "*" else name))
    if not found:
        raise PageFault(400, "Say whom the quota is for: a user, a client id or an address.")
    if len(found) > 1 and found[-1][0] == "ip":
        raise PageFault(400, "A quota of an address is for the address alone.")
    return tuple(found)


async def change(asked: Asked) -> Plan:
    entity, key = _entity(asked), asked.filled("key")
    if key not in QUOTAS:
        raise PageFault(400, f"There is no quota '{key[:60]}'.")
    takes_back = asked.form.get("action") == "back"
    value = None if takes_back else _value(asked.filled("value"))
    admin = asked.link.admin
    await admin.alter_client_quotas({entity: {key: value}}, validate_only=True)

    async def act() -> str:
        await admin.alter_client_quotas({entity: {key: value}})
        return f"The quota {key} of {whose(entity)} is {'gone' if takes_back else f'{value:g}'}."

    words: list[str] = []
    for kind, name in entity:
        words += ["--entity-type", KINDS[kind]]
        words += ["--entity-default"] if name is None else ["--entity-name", name]
    alter = ["--delete-config", key] if takes_back else ["--add-config", f"{key}={value:g}"]
    told = (
        f"{whose(entity)} is held to no {key} any more."
        if takes_back
        else f"{whose(entity)}: {value:g} {QUOTAS[key]}, for each broker, from now on."
    )
    return Plan(
        f"{'Remove' if takes_back else 'Set'} {key} of {whose(entity)}",
        (told,),
        act,
        "/quotas",
        command(asked, "configs", "--alter", *words, *alter),
    )


def _value(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e15:
        raise PageFault(400, f"A quota is a number greater than 0, not '{text[:40]}'.")
    return value
