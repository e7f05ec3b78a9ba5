"""Who is connected: members of groups, and what brokers tell of their connections."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from moldau.console import cluster_answers
from moldau.console.cluster_answers import part
from moldau.console.cluster_link import ClusterLink
from moldau.console.listing import list_rows
from moldau.console.machine import broker_metrics
from moldau.console.machine.broker_metrics import CIPHERS, CONNECTIONS, SOFTWARE, Sample
from moldau.console.machine.onlookers import REFUSAL, check_onlooker, may_look
from moldau.console.page import Asked, PageFault, Shown

GROUPS_MAX = 1_000
MEMBERS_FRESH_S = 15.0
SERIES_MAX = 500


class MemberRow(NamedTuple):
    name: str
    """The client id."""
    host: str
    group: str
    state: str
    partitions: int


class CountRow(NamedTuple):
    what: str
    listener: str
    connections: int


class PushingRow(NamedTuple):
    id: str
    client_id: str
    software: str
    address: str
    principal: str
    pushed_at_ms: float | None
    series: int


async def listed(asked: Asked) -> Shown:
    members = await part(
        asked.link.recent("members", lambda: _members(asked.link), fresh_s=MEMBERS_FRESH_S)
    )
    rows = [] if members.value is None else members.value.value[0]
    listing, shown = list_rows(
        asked,
        "/clients",
        rows,
        {
            "name": lambda row: row.name,
            "host": lambda row: row.host,
            "group": lambda row: row.group,
            "partitions": lambda row: row.partitions,
        },
    )
    return {
        "members": shown,
        "listing": listing,
        "members_fault": members.fault,
        "left_out": 0 if members.value is None else members.value.value[1],
        **await _connections(asked),
    }


async def _members(link: ClusterLink) -> tuple[list[MemberRow], int]:
    """The members of groups that have some, and how many groups were left out."""
    states = (await cluster_answers.lags(link)).value.states
    names = sorted(name for name, state in states.items() if state not in ("Empty", "Dead"))
    if not names:
        return [], 0
    found = await link.admin.describe_groups(names[:GROUPS_MAX], raise_errors=False)
    rows = [
        MemberRow(each.client_id, each.host, name, group.state, len(each.assignment))
        for name, group in found.items()
        for each in group.members
    ]
    return rows, max(0, len(names) - GROUPS_MAX)


async def _connections(asked: Asked) -> dict[str, Any]:
    watch = asked.metrics
    shown: dict[str, Any] = {
        "has_metrics": bool(watch.addresses),
        "listeners": [],
        "software": [],
        "ciphers": [],
        "pushing": [],
        "note": "",
        "faults": [],
    }
    if not watch.addresses:
        return shown
    if not await may_look(asked):
        return {**shown, "note": REFUSAL}
    await watch.used()
    found = [each for rows in watch.last.values() for each in rows]
    return {
        **shown,
        "listeners": counted(found, CONNECTIONS),
        "software": counted(found, SOFTWARE, "clientSoftwareName", "clientSoftwareVersion"),
        "ciphers": counted(found, CIPHERS, "protocol", "cipher"),
        "pushing": [_pushing(each) for each in await pushing_clients(asked)],
        "faults": list(watch.faults.values()),
    }


def counted(found: list[Sample], name: str, *labels: str) -> list[CountRow]:
    """All brokers together, the most first."""
    sums: dict[tuple[str, str], float] = {}
    for each in found:
        if each.name == name:
            what = " ".join(each.labels.get(label, "") for label in labels).strip()
            key = (what, each.labels.get("listener", ""))
            sums[key] = sums.get(key, 0.0) + each.value
    rows = [CountRow(*key, round(value)) for key, value in sums.items() if value > 0]
    return sorted(rows, key=lambda row: (-row.connections, row))[:SERIES_MAX]


async def pushing_clients(asked: Asked) -> list[dict[str, Any]]:
    answers = await asyncio.gather(
        *(asyncio.to_thread(broker_metrics.ask_clients, each) for each in asked.metrics.addresses)
    )
    return [row for rows in answers for row in rows]


def _pushing(told: dict[str, Any]) -> PushingRow:
    def word(name: str) -> str:
        return str(told.get(name) or "")

    at = told.get("pushed_at_ms")
    return PushingRow(
        word("client_instance_id"),
        word("client_id"),
        f"{word('client_software_name')} {word('client_software_version')}".strip(),
        word("client_source_address"),
        word("principal"),
        at if isinstance(at, int | float) else None,
        len(told.get("metrics") or ()),
    )


async def one(asked: Asked) -> Shown:
    """A client that pushes metrics, with what it pushed."""
    await check_onlooker(asked)
    wanted = asked.path["client"]
    for told in await pushing_clients(asked):
        if told.get("client_instance_id") == wanted:
            rows = [row for row in told.get("metrics") or () if isinstance(row, dict)]
            return {
                "client": _pushing(told),
                "values": [
                    {
                        "name": str(row.get("name", "")),
                        "attributes": _words(row.get("attributes")),
                        "value": row.get("value"),
                    }
                    for row in rows[:SERIES_MAX]
                ],
            }
    raise PageFault(404, "No client with this number pushes its metrics now.")


def _words(attributes: Any) -> str:
    rows = attributes.items() if isinstance(attributes, dict) else ()
    return ", ".join(f"{key}={word}" for key, word in rows)
