"""Snapshots of a broker: those it has, a new one, and one less."""

from __future__ import annotations

from datetime import UTC, datetime

from moldau.client.shared.client_errors import KafkaError
from moldau.console.commands import command
from moldau.console.page import Asked, PageFault, Plan, Shown
from moldau.model.errors import Error

NOT_SERVED = "Brokers of this cluster take no snapshots: Moldau's do, while they stand alone."


async def listed(asked: Asked) -> Shown:
    note = ""
    found = []
    try:
        found = await asked.link.admin.describe_snapshots()
    except KafkaError as error:
        if error.code is not Error.UNSUPPORTED_VERSION:
            raise
        note = NOT_SERVED
    found.sort(key=lambda row: -row.created_ms)
    youngest = found[0].name if found else ""
    return {
        "snapshots": found,
        "note": note,
        "fork": command(asked, "fork", "--snapshot", youngest, "--dir", f"fork-of-{youngest}"),
        "proposed": datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ"),
    }


async def creation(asked: Asked) -> Plan:
    name = asked.filled("name")

    async def act() -> str:
        made = await asked.link.admin.create_snapshot(name)
        return f"The snapshot {made.name} is there, with {made.partitions} partitions."

    return Plan(
        f"Take the snapshot {name}",
        (
            "Records, groups, transactions, settings, access lists, users and quotas of the broker"
            " are kept as they are at this moment. Clients go on meanwhile.",
            "It takes no room of its own until the broker deletes something that it still has.",
        ),
        act,
        "/snapshots",
        command(asked, "snapshot create", "--name", name),
        details={"snapshot": name[:200]},
    )


async def deletion(asked: Asked) -> Plan:
    name = asked.path["snapshot"]
    if name not in {row.name for row in await asked.link.admin.describe_snapshots()}:
        raise PageFault(404, f"There is no snapshot {name[:100]}.")

    async def act() -> str:
        await asked.link.admin.delete_snapshot(name)
        return f"The snapshot {name} was deleted."

    return Plan(
        f"Delete the snapshot {name}",
        (f"What only the snapshot {name} still has is lost. Forks of it go on.",),
        act,
        "/snapshots",
        command(asked, "snapshot delete", "--name", name),
        typed=name,
        details={"snapshot": name[:200]},
    )
