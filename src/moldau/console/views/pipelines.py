"""Pipelines on Spark: those whose checkpoints are where the operator has said."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from moldau.admin import OffsetSpec, TopicPartition
from moldau.console.charts import Chart, Point, chart
from moldau.console.machine import checkpoints
from moldau.console.machine.checkpoints import Checkpoint, Offsets
from moldau.console.machine.onlookers import check_onlooker
from moldau.console.page import Asked, PageFault, Shown
from moldau.console.rendering import count_text, rate_text

PARTITIONS_MAX = 2_000
LIST_BATCHES = 10
ALIVE_S = 120.0


class PipelineRow(NamedTuple):
    name: str
    state: str
    batches: int | None
    """How many it has done; batches are counted from 0."""
    done_ms: float | None
    seconds: float | None
    """How long the last batch took."""
    topics: list[str]
    lag: int | None
    fault: str


class SourceRow(NamedTuple):
    topic: str
    partition: int
    read_to: int
    """What the last batch that is done has read."""
    end: int | None
    lag: int | None


async def listed(asked: Asked) -> Shown:
    await check_onlooker(asked)
    directory = asked.settings.checkpoints
    if not directory:
        return {"directory": "", "pipelines": [], "fault": ""}
    try:
        found = await asyncio.to_thread(_all, directory)
    except OSError as fault:
        return {"directory": directory, "pipelines": [], "fault": fault.strerror or str(fault)}
    places = {place for each in found for place in read_places(each)}
    ends = await _ends(asked, sorted(places))
    return {
        "directory": directory,
        "pipelines": [_row(each, ends) for each in found],
        "fault": "",
    }


def _all(directory: str) -> list[Checkpoint]:
    names = checkpoints.checkpoint_names(directory)
    return [checkpoints.read_checkpoint(directory, name, batches=LIST_BATCHES) for name in names]


def read_places(found: Checkpoint) -> Offsets:
    last = found.last_done
    return {} if last is None else last.offsets


def state_of(found: Checkpoint, now_ms: float) -> str:
    """As far as files tell; nobody is asked whether a process runs."""
    if found.fault:
        return "not readable"
    if not found.batches:
        return "no batch yet"
    last = found.batches[-1]
    quiet_s = (now_ms - (last.done_ms or last.planned_ms)) / 1000
    if found.is_in_batch:
        return "in a batch" if quiet_s < ALIVE_S else "long in a batch"
    return "working" if quiet_s < ALIVE_S else "resting"


def _row(found: Checkpoint, ends: Offsets) -> PipelineRow:
    last, places = found.last_done, read_places(found)
    known = [max(0, ends[place] - offset) for place, offset in places.items() if place in ends]
    return PipelineRow(
        found.name,
        state_of(found, time.time() * 1000),
        None if last is None else last.number + 1,
        None if last is None else last.done_ms,
        None if last is None else last.seconds,
        sorted({topic for topic, _ in places}),
        sum(known) if known else None,
        found.fault,
    )


async def _ends(asked: Asked, places: list[tuple[str, int]]) -> Offsets:
    """Of those that the user may see and that are there."""
    if not places:
        return {}
    wanted = dict.fromkeys(
        (TopicPartition(*place) for place in places[:PARTITIONS_MAX]), OffsetSpec.LATEST
    )
    found = await asked.link.admin.list_offsets(wanted, raise_errors=False)
    return {(tp.topic, tp.partition): row.offset for tp, row in found.items()}


async def one(asked: Asked) -> Shown:
    await check_onlooker(asked)
    name, directory = asked.path["pipeline"], asked.settings.checkpoints
    try:
        names = await asyncio.to_thread(checkpoints.checkpoint_names, directory)
    except OSError:
        names = []
    if name not in names:
        raise PageFault(404, f"There is no checkpoint {name[:200]}.")
    found = await asyncio.to_thread(checkpoints.read_checkpoint, directory, name)
    places = read_places(found)
    ends = await _ends(asked, sorted(places))
    rows = [
        SourceRow(
            topic,
            partition,
            offset,
            ends.get((topic, partition)),
            max(0, ends[topic, partition] - offset) if (topic, partition) in ends else None,
        )
        for (topic, partition), offset in sorted(places.items())
    ]
    return {
        "pipeline": _row(found, ends),
        "query_id": found.query_id,
        "watermark_ms": found.watermark_ms or None,
        "batches": [
            {
                "number": each.number,
                "planned_ms": each.planned_ms,
                "seconds": each.seconds,
                "records": each.records,
            }
            for each in found.batches[::-1]
        ],
        "sources": rows[:PARTITIONS_MAX],
        "state": await asyncio.to_thread(checkpoints.state_sizes, directory, name),
        "charts": _charts(found),
    }


def _charts(found: Checkpoint) -> list[Chart]:
    done = [each for each in found.batches if each.done_ms is not None]
    seconds = [Point(each.done_ms or 0, each.seconds) for each in done]
    records = [Point(each.done_ms or 0, each.records) for each in done]
    return [
        chart("Time of a batch", "s", seconds, rate_text),
        chart("Records of a batch", "records", records, count_text),
    ]
