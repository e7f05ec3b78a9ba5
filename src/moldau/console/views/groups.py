"""Groups: all of them, one with its members and lag, and the changes to one."""

from __future__ import annotations

import time
from typing import NamedTuple

from moldau.admin import TopicPartition
from moldau.console import cluster_answers
from moldau.console.charts import Point, chart
from moldau.console.commands import command
from moldau.console.groups import group_sights
from moldau.console.groups.reset_plan import SCENARIOS, planned
from moldau.console.listing import list_rows
from moldau.console.page import Asked, PageFault, Plan, Shown
from moldau.console.rendering import count_text, duration_text, path_word
from moldau.diagnosis.evidence import plural

ROWS_MAX = 2_000
PREVIEW_MAX = 500


class GroupRow(NamedTuple):
    name: str
    type: str
    state: str
    topics: int
    partitions: int
    lag: int | None
    """None for groups that keep no offsets of this kind."""


async def listed(asked: Asked) -> Shown:
    told = await cluster_answers.lags(asked.link)
    lags = told.value
    rows = []
    for name, state in lags.states.items():
        offsets = lags.offsets.get(name, {})
        topics = {tp.topic for tp in offsets}
        lag = lags.by_group.get(name, 0) if name in lags.offsets else None
        kind = (lags.types.get(name) or "classic").lower()
        rows.append(GroupRow(name, kind, state, len(topics), len(offsets), lag))
    wanted = asked.query.get("state", "")
    kept = {"state": wanted} if wanted else {}
    chosen = [row for row in rows if not wanted or row.state == wanted]
    listing, shown = list_rows(
        asked,
        "/groups",
        chosen,
        {
            "name": lambda row: row.name,
            "type": lambda row: row.type,
            "state": lambda row: row.state,
            "topics": lambda row: row.topics,
            "partitions": lambda row: row.partitions,
            "lag": lambda row: row.lag,
        },
        kept=kept,
    )
    return {
        "groups": shown,
        "listing": listing,
        "states": sorted({row.state for row in rows}),
        "state": wanted,
        "left_out": lags.left_out,
        "when": told.when,
    }


async def one(asked: Asked) -> Shown:
    name, link = asked.path["group"], asked.link
    # Asked anew for each page: an old lag beside the curve would look like a fault.
    sight = await group_sights.look(link, name)
    now_ms = int(time.time() * 1000)
    points = [] if link.history is None else link.history.points("group", name)
    points = [*points, Point(now_ms, sight.lag)]
    seconds = [Point(now_ms, sight.seconds)]
    if link.history is not None:
        seconds = link.history.note_seconds(name, now_ms, sight.seconds)
    return {
        "name": name,
        "group": sight.group,
        "fault": sight.fault,
        "rows": sight.rows[:ROWS_MAX],
        "rows_left_out": max(0, len(sight.rows) - ROWS_MAX),
        "lag": sight.lag,
        "seconds": sight.seconds,
        "lost": sum(row.lost for row in sight.rows),
        "topics": sorted({row.topic for row in sight.rows}),
        "scenarios": SCENARIOS,
        "charts": []
        if sight.lag is None
        else [
            chart("Records behind", "records", points, count_text),
            chart("Time behind", "", seconds, duration_text),
        ],
        "seen_ms": now_ms,
    }


def group_path(name: str) -> str:
    return f"/groups/{path_word(name)}"


async def reset(asked: Asked) -> Plan:
    name, link = asked.path["group"], asked.link
    scenario, amount = asked.filled("scenario"), asked.form.get("amount", "")
    topic = asked.form.get("topic", "").strip()
    topics = [topic] if topic else []
    plan = await planned(link, name, topics, scenario, amount)
    after = plan.after
    moved = {tp: offset for tp, offset in after.items() if plan.before.get(tp) != offset}
    rows = [
        (
            tp.topic,
            str(tp.partition),
            str(plan.before.get(tp, "–")),
            str(offset),
            f"{offset - plan.before[tp]:+d}" if tp in plan.before else "new",
        )
        for tp, offset in sorted(after.items())
    ]
    value = () if scenario in ("to-earliest", "to-latest", "to-current") else (amount.strip(),)
    left_out = len(rows) - PREVIEW_MAX

    async def act() -> str:
        # The plan is of the moment it was shown; what is done is computed once more.
        await link.admin.alter_group_offsets(name, after)
        return f"{plural(len(after), 'offset')} of the group {name} set."

    sentences = [
        f"{len(moved)} of {plural(len(after), 'partition')} will have another offset. Members that"
        " start later read from there: records may be read again, or never.",
        *(f"{remark}." for remark in plan.remarks[:PREVIEW_MAX]),
    ]
    if left_out > 0:
        sentences.append(f"{left_out} more partitions are not in the table below.")
    return Plan(
        title=f"Reset the offsets of {name}",
        sentences=tuple(sentences),
        act=act,
        after=group_path(name),
        command=command(
            asked, "consumer-groups", "--reset-offsets", "--group", name,
            *(("--topic", topic) if topic else ("--all-topics",)),
            f"--{scenario}", *value, "--execute",
        ),
        rows=(("Topic", "Partition", "Now", "Then", "Change"), *rows[:PREVIEW_MAX]),
        details={"group": name, "scenario": scenario, "amount": amount[:100]},
    )  # fmt: skip


async def deletion(asked: Asked) -> Plan:
    name, link = asked.path["group"], asked.link
    sight = await group_sights.look(link, name)
    members = len(sight.group.members) if sight.group is not None else 0
    if members:
        raise PageFault(409, f"The group {name} has {members} members: stop them first.")

    async def act() -> str:
        await link.admin.delete_groups([name])
        return f"The group {name} was deleted."

    return Plan(
        title=f"Delete the group {name}",
        sentences=(
            f"Its offsets of {len(sight.rows)} partitions are lost: members that start later begin"
            " as their auto.offset.reset says.",
        ),
        act=act,
        after="/groups",
        command=command(asked, "consumer-groups", "--delete", "--group", name),
        typed=name,
        details={"group": name},
    )


async def offsets_deletion(asked: Asked) -> Plan:
    name, link = asked.path["group"], asked.link
    topic = asked.filled("topic")
    offsets = (await link.admin.list_group_offsets([name]))[name]
    partitions = sorted(tp for tp, row in offsets.items() if tp.topic == topic and row is not None)
    if not partitions:
        raise PageFault(404, f"The group {name} has no offsets in {topic}.")

    async def act() -> str:
        await link.admin.delete_group_offsets(name, [TopicPartition(*tp) for tp in partitions])
        return f"The group {name} has no offsets in {topic} any more."

    return Plan(
        title=f"Delete the offsets of {name} in {topic}",
        sentences=(
            f"{len(partitions)} offsets are lost. The group must not be subscribed to the topic.",
        ),
        act=act,
        after=group_path(name),
        command=command(
            asked, "consumer-groups", "--delete-offsets", "--group", name, "--topic", topic
        ),
        typed=topic,
        details={"group": name, "topic": topic},
    )
