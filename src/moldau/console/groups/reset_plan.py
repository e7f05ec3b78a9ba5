"""The reset of a group's offsets, as a form asks for it, planned by the rules of the command."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from moldau.admin import OffsetSpec, TopicPartition
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
from moldau.client.shared.client_errors import KafkaError
from moldau.console.cluster_link import ClusterLink
from moldau.console.page import PageFault

NEEDS_NUMBER = ("to-offset", "shift-by")
SCENARIOS = {
    "to-earliest": "the first record",
    "to-latest": "the end",
    "to-offset": "an offset",
    "shift-by": "so many records on, or back with a minus",
    "to-datetime": "a time (UTC)",
    "by-duration": "so long ago, as PT1H30M or P1D",
    "to-current": "where it is, or the end where it is nowhere",
}


class Reset(NamedTuple):
    before: Plan
    after: Plan
    remarks: list[str]


async def planned(
    link: ClusterLink, group: str, topics: list[str], scenario: str, amount: str
) -> Reset:
    """PageFault if it makes no sense; KafkaError if the cluster does not tell."""
    described = (await link.admin.describe_groups([group], raise_errors=False)).outcomes[group]
    state = "Dead" if isinstance(described, KafkaError) else described.state
    if state not in RESETTABLE:
        raise PageFault(
            409,
            f"The group {group} is {state}: stop its members first, for they would go on from"
            " where they are.",
        )
    offsets = (await link.admin.list_group_offsets([group]))[group]
    committed = {tp: row.offset for tp, row in offsets.items() if row is not None}
    if topics:
        found = await link.admin.describe_topics(topics)
        partitions = sorted(
            TopicPartition(name, row.partition)
            for name, topic in found.items()
            for row in topic.partitions
        )
    else:
        partitions = sorted(committed)
    if not partitions:
        raise PageFault(400, f"The group {group} has committed nothing: choose a topic.")
    try:
        after, remarks = await _after(link, partitions, committed, scenario, amount.strip())
    except ResetError as fault:
        raise PageFault(400, f"{fault}.") from None
    return Reset({tp: committed[tp] for tp in partitions if tp in committed}, after, remarks)


async def _after(
    link: ClusterLink,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
    scenario: str,
    amount: str,
) -> tuple[Plan, list[str]]:
    match scenario:
        case "to-earliest":
            return await _listed(link, partitions, OffsetSpec.EARLIEST), []
        case "to-latest":
            return await _listed(link, partitions, OffsetSpec.LATEST), []
        case "to-current":
            missing = [tp for tp in partitions if tp not in committed]
            known = {tp: committed[tp] for tp in partitions if tp in committed}
            return {**known, **await _listed(link, missing, OffsetSpec.LATEST)}, []
        case "to-datetime" | "by-duration":
            is_moment = scenario == "to-datetime"
            now_ms = int(time.time() * 1000)
            moment = datetime_ms(amount) if is_moment else now_ms - duration_ms(amount)
            found = await _listed(link, partitions, moment)
            younger = [tp for tp, offset in found.items() if offset < 0]
            return by_time(found, await _listed(link, younger, OffsetSpec.LATEST)), []
        case "to-offset" | "shift-by":
            number = _number(amount)
            is_shift = scenario == "shift-by"
            wanted = (
                shifted(partitions, committed, number)
                if is_shift
                else dict.fromkeys(partitions, number)
            )
            first = await _listed(link, partitions, OffsetSpec.EARLIEST)
            return within(wanted, first, await _listed(link, partitions, OffsetSpec.LATEST))
    raise PageFault(400, f"A reset can go to {', '.join(SCENARIOS)}, not '{scenario[:20]}'.")


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ResetError(f"'{text[:40]}' is not a whole number") from None


async def _listed(link: ClusterLink, partitions: list[TopicPartition], spec: int) -> Plan:
    if not partitions:
        return {}
    found = await link.admin.list_offsets(dict.fromkeys(partitions, spec))
    return {tp: row.offset for tp, row in found.items()}
