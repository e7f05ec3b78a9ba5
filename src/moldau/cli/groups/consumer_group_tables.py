"""What `consumer-groups --describe` shows: offsets and lag, members, states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.answers import rows as as_data
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Given
from moldau.cli.output import BOLD, Output
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin
    from moldau.client.admin.group_admin_results import GroupDescription, MemberDescription

WIDTH_MIN = 15
COORDINATOR_WIDTH = 25

Column = tuple[str, int]
Row = Sequence[object]


def describe(admin: Admin, given: Given, out: Output, names: list[str]) -> None:
    if not names:
        if out.is_json:
            out.json([])
        return
    timeout_ms = given.number("timeout")
    groups = admin.describe_groups(names, timeout=timeout_ms / 1000)
    for group in groups.values():
        if group.state == "Dead":
            raise CommandFault(
                "org.apache.kafka.common.errors.GroupIdNotFoundException: Group"
                f" {group.group_id} not found.",
                java="org.apache.kafka.common.errors.GroupIdNotFoundException",
            )
    shown: list[dict[str, Any]] = []
    for name in sorted(groups):
        group = groups[name]
        width = max(WIDTH_MIN, len(name))
        if given.has("members"):
            columns, rows = members_of(group, width, is_verbose=given.has("verbose"))
        elif given.has("state"):
            columns, rows = state_of(group, width, is_verbose=given.has("verbose"))
        else:
            columns, rows = offsets_of(admin, group, width, given)
        if given.has("json"):
            shown += as_data([title for title, _ in columns], rows)
            continue
        out.flush()
        remark_on(group, out)
        if rows or given.has("members"):
            print_rows(out, columns, rows)
    if given.has("json"):
        out.json(shown)


def remark_on(group: GroupDescription, out: Output) -> None:
    if group.state == "Empty":
        out.remark(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        out.remark(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")


def print_rows(out: Output, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Columns of fixed widths; the last one ends where its text does."""

    def line(cells: Iterable[object]) -> str:
        texts = ["-" if cell is None else str(cell) for cell in cells]
        return " ".join(f"{t:<{w}}" for t, (_, w) in zip(texts, columns, strict=True))

    out.line()
    out.line(out.paint(line(title for title, _ in columns), BOLD))
    for row in rows:
        out.line(line(row))


def longest(texts: Iterable[str], least: int = WIDTH_MIN) -> int:
    return max([least, *(len(text) for text in texts)])


def offsets_of(
    admin: Admin, group: GroupDescription, width: int, given: Given
) -> tuple[list[Column], list[Row]]:
    name = group.group_id
    committed = admin.list_group_offsets([name]).check()[name]
    owners = owners_of(group.members)
    partitions = [*owners, *sorted(tp for tp in committed if tp not in owners)]
    ends = (
        admin.list_offsets(dict.fromkeys(partitions, -1), raise_errors=False).outcomes
        if partitions
        else {}
    )
    rows: list[Row] = []
    for tp in partitions:
        offset = committed.get(tp)
        end = ends.get(tp)
        end_offset = None if end is None or isinstance(end, Exception) else end.offset
        current = None if offset is None else offset.offset
        lag = None if current is None or end_offset is None else end_offset - current
        member = owners.get(tp)
        epoch = None if offset is None or offset.leader_epoch < 0 else offset.leader_epoch
        rows.append(
            (
                name,
                tp.topic,
                tp.partition,
                *((epoch,) if given.has("verbose") else ()),
                current,
                end_offset,
                lag,
                member and shown_id(member),
                member and member.host,
                member and member.client_id,
            )
        )
    ids = [shown_id(member) for member in owners.values()]
    columns = [
        ("GROUP", width),
        ("TOPIC", longest(tp.topic for tp in partitions)),
        ("PARTITION", 10),
        *((("LEADER-EPOCH", 15),) if given.has("verbose") else ()),
        ("CURRENT-OFFSET", 15),
        ("LOG-END-OFFSET", 15),
        ("LAG", 15),
        ("CONSUMER-ID", longest(ids)),
        ("HOST", longest(member.host for member in owners.values())),
        ("CLIENT-ID", 0),
    ]
    return columns, rows


def shown_id(member: MemberDescription) -> str:
    return member.member_id


def owners_of(members: list[MemberDescription]) -> dict[TopicPartition, MemberDescription]:
    """Who has each partition, those with most partitions first, as Kafka's tool lists them."""
    ordered = sorted(members, key=lambda member: -len(member.assignment))
    return {tp: member for member in ordered for tp in sorted(member.assignment)}


def members_of(
    group: GroupDescription, width: int, *, is_verbose: bool
) -> tuple[list[Column], list[Row]]:
    members = group.members
    has_instances = any(member.group_instance_id for member in members)
    columns: list[Column] = [
        ("GROUP", width),
        ("CONSUMER-ID", longest(member.member_id for member in members)),
    ]
    if has_instances:
        instances = longest((member.group_instance_id or "" for member in members), 17)
        columns.append(("GROUP-INSTANCE-ID", instances))
    columns += [
        ("HOST", longest(member.host for member in members)),
        ("CLIENT-ID", longest(member.client_id for member in members)),
        ("#PARTITIONS", 15),
    ]
    if is_verbose:
        columns += [
            ("CURRENT-EPOCH", 15),
            ("CURRENT-ASSIGNMENT", 20),
            ("TARGET-EPOCH", 15),
            ("TARGET-ASSIGNMENT", 20),
        ]
    else:
        columns[-1] = ("#PARTITIONS", 16)
    rows = []
    for member in members:
        row: list[object] = [group.group_id, member.member_id]
        if has_instances:
            row.append(member.group_instance_id)
        row += [member.host, member.client_id, len(member.assignment)]
        if is_verbose:
            target = member.target_assignment
            row += [
                member.member_epoch,
                assignment_text(member.assignment),
                None if target is None else group.assignment_epoch,
                None if target is None else assignment_text(target),
            ]
        rows.append(row)
    return columns, rows  # type: ignore[return-value]


def assignment_text(partitions: list[TopicPartition]) -> str | None:
    """topic:0,1,2;other:3"""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    texts = [f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items()]
    return ";".join(texts) or None


def state_of(
    group: GroupDescription, width: int, *, is_verbose: bool
) -> tuple[list[Column], list[Row]]:
    node: Any = group.coordinator
    coordinator = "-" if node is None else f"{node.host}:{node.port}  ({node.id})"
    columns: list[Column] = [
        ("GROUP", width),
        ("COORDINATOR (ID)", longest([coordinator], COORDINATOR_WIDTH)),
        ("ASSIGNMENT-STRATEGY", 20),
        ("STATE", 20),
    ]
    row: list[object] = [group.group_id, coordinator, group.assignor or None, group.state]
    if is_verbose:
        columns += [("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25)]
        row += [group.group_epoch, group.assignment_epoch]
    columns.append(("#MEMBERS", 0))
    row.append(len(group.members))
    return columns, [row]
