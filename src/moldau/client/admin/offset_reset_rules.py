"""How a group's offsets are reset: what `consumer-groups --reset-offsets` and the console share.

Pure: offsets that were asked of the cluster go in, new offsets come out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from moldau.model.names import TopicPartition

RESETTABLE = ("Empty", "Dead")
"""The states of a group in which its offsets can be set from outside."""
DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d*)?)S)?)?",
    re.IGNORECASE,
)

Plan = dict[TopicPartition, int]


class ResetError(ValueError):
    """The reset makes no sense as it was asked for."""


def shifted(
    partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int], by: int
) -> Plan:
    """Not yet within the log."""
    plan = {}
    for tp in partitions:
        if tp not in committed:
            raise ResetError(
                f"Cannot shift offset for partition {tp} since there is no current committed offset"
            )
        plan[tp] = committed[tp] + by
    return plan


def within(
    wanted: Plan, first: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> tuple[Plan, list[str]]:
    """Moved into the log where they lie outside of it, with a sentence for each that was."""
    plan, remarks = {}, []
    for tp, offset in wanted.items():
        plan[tp] = min(max(offset, first[tp]), end[tp])
        if offset != plan[tp]:
            side = "higher than latest" if offset > end[tp] else "lower than earliest"
            remarks.append(
                f"New offset ({offset}) is {side} offset for topic partition {tp}. Value will be"
                f" set to {plan[tp]}"
            )
    return plan, remarks


def by_time(found: Plan, ends: Plan) -> Plan:
    """The first record that is not older; the end where all are, which were asked then."""
    return {**found, **ends}


def datetime_ms(text: str) -> int:
    """Without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ResetError(f"{text} is not a time like 2026-01-31T12:30:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def duration_ms(text: str) -> int:
    match = DURATION.fullmatch(text.strip())
    if match is None or text.strip().upper().rstrip("+-").endswith(("P", "T")):
        raise ResetError(f"{text} is not a duration like P1DT2H30M")
    sign, days, hours, minutes, seconds = match.groups()
    total = int(days or 0) * 86_400 + int(hours or 0) * 3600 + int(minutes or 0) * 60
    milliseconds = total * 1000 + round(float(seconds or 0) * 1000)
    return -milliseconds if sign == "-" else milliseconds
