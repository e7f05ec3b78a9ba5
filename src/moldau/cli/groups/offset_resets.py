"""What `consumer-groups --reset-offsets` plans: a new offset for each partition of a group."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.cli.answers import fault, place
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Given
from moldau.cli.output import BOLD, Output
from moldau.client.admin.offset_reset_rules import (
    RESETTABLE,
    Plan,
    ResetError,
    by_time,
    datetime_ms,
    duration_ms,
    shifted,
    within,
)
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin

SCENARIOS = (
    "from-file",
    "to-datetime",
    "by-duration",
    "to-latest",
    "to-current",
    "to-earliest",
    "to-offset",
    "shift-by",
)
LATEST, EARLIEST = -1, -2
WITHOUT_EXECUTE = (
    "WARN: No action will be performed as the --execute option is missing. Say --dry-run if that"
    " is what you want: a later version will ask for one of the two."
)


def reset_offsets(admin: Admin, given: Given, out: Output, groups: list[str]) -> int:
    """The exit code: 1 if a group could not be reset."""
    plans: dict[str, Plan] = {}
    refused: list[dict[str, Any]] = []
    if not given.has("execute") and not given.has("dry-run"):
        out.remark(WITHOUT_EXECUTE)
    described = admin.describe_groups(groups, raise_errors=False).outcomes
    for group in groups:
        found = described[group]
        state = "Dead" if isinstance(found, Exception) else found.state
        if state not in RESETTABLE:
            sentence = (
                f"Assignments can only be reset if the group '{group}' is inactive, but"
                f" the current state is {state}."
            )
            out.line(f"\nError: {sentence}")
            refused.append({"group": group, "error": fault(sentence)})
            plans[group] = {}
            continue
        try:
            plans[group] = plan(admin, given, out, group, len(groups))
        except ResetError as mistake:
            raise UsageFault(str(mistake)) from None
        if given.has("execute") and plans[group]:
            admin.alter_group_offsets(group, plans[group]).check()
    if given.has("json"):
        offsets = [
            {"group": group, **place(tp), "newOffset": offset}
            for group, new in plans.items()
            for tp, offset in sorted(new.items())
        ]
        out.json({"executed": given.has("execute"), "offsets": offsets, "failed": refused})
    elif given.has("export"):
        print_csv(out, plans)
    else:
        print_table(out, plans)
    return 1 if refused else 0


def print_csv(out: Output, plans: Mapping[str, Plan]) -> None:
    for group, new in plans.items():
        for tp, offset in sorted(new.items()):
            prefix = f"{group}," if len(plans) > 1 else ""
            out.line(f"{prefix}{tp.topic},{tp.partition},{offset}")
    out.line()


def print_table(out: Output, plans: Mapping[str, Plan]) -> None:
    widths = [15, 15]
    for group, new in plans.items():
        widths = [max(widths[0], len(group)), max([widths[1], *(len(tp.topic) for tp in new)])]
    line = f"{{:<{widths[0]}}} {{:<{widths[1]}}} {{:<10}} {{}}"
    out.line()
    out.line(out.paint(line.format("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), BOLD))
    for group, new in plans.items():
        for tp, offset in sorted(new.items()):
            out.line(line.format(group, tp.topic, tp.partition, offset))


def plan(admin: Admin, given: Given, out: Output, group: str, groups_count: int) -> Plan:
    if given.has("from-file"):
        wanted = from_file(given.text("from-file"), group, groups_count)
        return within_bounds(admin, wanted, out)
    committed = {
        tp: offset.offset
        for tp, offset in admin.list_group_offsets([group]).check()[group].items()
        if offset is not None
    }
    partitions = scope_of(admin, given, committed)
    if given.has("to-earliest"):
        return listed(admin, partitions, EARLIEST)
    if given.has("to-latest"):
        return listed(admin, partitions, LATEST)
    if given.has("to-current"):
        known = {tp: committed[tp] for tp in partitions if tp in committed}
        missing = [tp for tp in partitions if tp not in committed]
        return {**known, **listed(admin, missing, LATEST)}
    if given.has("to-offset"):
        return within_bounds(admin, dict.fromkeys(partitions, given.number("to-offset")), out)
    if given.has("shift-by"):
        return within_bounds(admin, shifted(partitions, committed, given.number("shift-by")), out)
    if given.has("to-datetime"):
        timestamp = datetime_ms(given.text("to-datetime"))
    else:
        timestamp = int(time.time() * 1000) - duration_ms(given.text("by-duration"))
    found = listed(admin, partitions, timestamp)
    younger = [tp for tp, offset in found.items() if offset < 0]
    return by_time(found, listed(admin, younger, LATEST))


def scope_of(
    admin: Admin, given: Given, committed: Iterable[TopicPartition]
) -> list[TopicPartition]:
    if given.has("all-topics"):
        return sorted(committed)
    partitions, unknown = partitions_of_topics(admin, given.texts("topic"))
    for error in unknown.values():
        raise error
    return partitions


def partitions_of_topics(
    admin: Admin, topics: list[str]
) -> tuple[list[TopicPartition], dict[str, Any]]:
    """`orders` is all its partitions, `orders:0,1` those two; topics that fail come apart."""
    chosen: dict[str, list[int] | None] = {}
    for text in topics:
        name, colon, numbers = text.partition(":")
        try:
            chosen[name] = [int(each) for each in numbers.split(",")] if colon else None
        except ValueError:
            raise UsageFault(f"{text} is not topic or topic:0,1,2") from None
    described = admin.describe_topics(
        [name for name, some in chosen.items() if some is None], raise_errors=False
    ).outcomes
    partitions, unknown = [], {}
    for name, some in chosen.items():
        found = described.get(name)
        if some is not None:
            partitions += [TopicPartition(name, number) for number in some]
        elif found is None or isinstance(found, Exception):
            unknown[name] = found
        else:
            partitions += [TopicPartition(name, row.partition) for row in found.partitions]
    return sorted(partitions), unknown


def listed(admin: Admin, partitions: Iterable[TopicPartition], spec: int) -> Plan:
    wanted = dict.fromkeys(partitions, spec)
    if not wanted:
        return {}
    return {tp: found.offset for tp, found in admin.list_offsets(wanted).check().items()}


def within_bounds(admin: Admin, wanted: Plan, out: Output) -> Plan:
    moved, remarks = within(wanted, listed(admin, wanted, EARLIEST), listed(admin, wanted, LATEST))
    for remark in remarks:
        out.remark(f"WARN {remark}")
    return moved


def from_file(path: str, group: str, groups_count: int) -> Plan:
    """topic,partition,offset; with several groups group,topic,partition,offset."""
    plan = {}
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as reason:
        raise CommandFault(f"{path} cannot be read: {reason.strerror}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip().strip('"') for cell in line.split(",")]
        if not line.strip():
            continue
        if len(cells) == 4 and groups_count > 1 and cells.pop(0) != group:
            continue
        try:
            topic, partition, offset = cells
            plan[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CommandFault(f"{path}:{number}: {line!r} is not topic,partition,offset") from None
    return plan
