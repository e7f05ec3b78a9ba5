"""What the pages of groups show: one group with its members, offsets and lag."""

from __future__ import annotations

from typing import NamedTuple

from moldau.admin import GroupDescription, OffsetSpec, TopicPartition
from moldau.client.shared.client_errors import KafkaError
from moldau.console.cluster_link import ClusterLink
from moldau.console.faults import sentence_of
from moldau.console.groups.lag_seconds import seconds_behind
from moldau.model.errors import Error

GONE = "Dead"


class OffsetRow(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    start: int | None
    end: int | None
    lag: int | None
    """None where the group has committed nothing, or the end is not known."""
    lost: int
    """Records that were deleted before the group could read them."""
    seconds: float | None
    member: str
    host: str


class GroupSight(NamedTuple):
    group: GroupDescription | None
    fault: str
    """Why there are no members, for groups of a kind that cannot be described."""
    rows: list[OffsetRow]

    @property
    def lag(self) -> int | None:
        """None where nothing is committed: of share groups, for one."""
        known = [row.lag for row in self.rows if row.lag is not None]
        return sum(known) if known else None

    @property
    def seconds(self) -> float | None:
        return max((row.seconds for row in self.rows if row.seconds is not None), default=None)


async def look(link: ClusterLink, name: str) -> GroupSight:
    """KafkaError if there is no such group, or one that may not be seen."""
    answer = await link.admin.describe_groups([name], raise_errors=False)
    outcome = answer.outcomes[name]
    fault, group = "", None
    if isinstance(outcome, KafkaError):
        if outcome.code is not Error.UNSUPPORTED_VERSION and not await _is_listed(link, name):
            raise outcome
        fault = sentence_of(outcome)
    elif outcome.state == GONE and not await _is_listed(link, name):
        raise KafkaErrorOfGroup(name)
    else:
        group = outcome
    return GroupSight(group, fault, await _rows(link, name, group))


class KafkaErrorOfGroup(KafkaError):
    """There is no such group."""

    code = Error.GROUP_ID_NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no group {name}.")


async def _is_listed(link: ClusterLink, name: str) -> bool:
    return any(row.group_id == name for row in await link.admin.list_groups())


async def _rows(link: ClusterLink, name: str, group: GroupDescription | None) -> list[OffsetRow]:
    answer = await link.admin.list_group_offsets([name], raise_errors=False)
    committed = {tp: row.offset for tp, row in (answer.get(name) or {}).items() if row is not None}
    owners = {tp: member for member in (group.members if group else ()) for tp in member.assignment}
    partitions = sorted({*committed, *owners})
    ends = await _offsets(link, partitions, OffsetSpec.LATEST)
    starts = await _offsets(link, partitions, OffsetSpec.EARLIEST)
    unread = {
        tp: max(offset, starts.get(tp, 0))
        for tp, offset in committed.items()
        if ends.get(tp, -1) > offset
    }
    seconds = await seconds_behind(link.settings, unread) if unread else {}
    rows = []
    for tp in partitions:
        offset, end, start = committed.get(tp), ends.get(tp), starts.get(tp)
        is_known = offset is not None and end is not None
        # A commit may be younger than the end that was asked a moment before.
        lag = max(0, end - offset) if is_known else None  # type: ignore[operator]
        lost = max(0, start - offset) if offset is not None and start is not None else 0
        owner = owners.get(tp)
        rows.append(
            OffsetRow(
                tp.topic,
                tp.partition,
                offset,
                start,
                end,
                lag,
                lost,
                0.0 if lag == 0 else seconds.get(tp),
                owner.client_id if owner else "",
                owner.host if owner else "",
            )
        )
    return rows


async def _offsets(
    link: ClusterLink, partitions: list[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    found = await link.admin.list_offsets(dict.fromkeys(partitions, spec), raise_errors=False)
    return {tp: row.offset for tp, row in found.items()}
