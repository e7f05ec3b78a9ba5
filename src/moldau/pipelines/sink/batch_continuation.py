"""Whether a batch is in its topic already, or may be written, or nobody can tell. Pure.

Spark repeats a batch under its number. But a number alone says little: after a checkpoint was
restored from a backup, or lost its last file in a power cut, Spark plans a batch of that number
anew, with another input. So the input decides, as Spark has noted it in the checkpoint and the sink
in the marker. What does not fit together is refused with the reason: to skip such a batch would
lose records, to write it would double them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.pipelines.sink.batch_markers import Marker
from moldau.pipelines.sink.sink_options import ContinuationError
from moldau.pipelines.source.source_offsets import Offsets, offsets_to


class Plan(NamedTuple):
    """The input of a batch, as the checkpoint has it."""

    offsets: Offsets
    """Up to where its topics are read, exclusive."""
    sources: str | None = None
    """A digest of what all sources have noted, topics or not."""


def is_written(
    app: str, batch_id: int, markers: Sequence[Marker], plan_of: Callable[[int], Plan]
) -> bool:
    """`markers` are those of this checkpoint that are left, as they were written."""
    if not markers:
        if batch_id:
            raise ContinuationError(
                f"Nothing says which batches of pipeline {app} are written: its checkpoint is at "
                f"batch {batch_id}, and there is no marker of it. Was the topic of the markers "
                f"deleted, or the name of the pipeline changed? {_ways_on(None)}"
            )
        return False
    newest = markers[-1]
    if batch_id > newest.batch_id:
        difference = _difference(plan_of(batch_id - 1), newest)
        if difference is None:
            return False
        raise ContinuationError(
            f"Batch {batch_id} of pipeline {app} does not begin where batch {newest.batch_id}, the "
            f"last one written, ended: {difference}. The checkpoint and the markers are not of the "
            f"same time. {_ways_on(newest)}"
        )
    same = {marker.batch_id: marker for marker in markers}.get(batch_id)
    if same is None:
        raise ContinuationError(
            f"Batch {batch_id} of pipeline {app} is to be written after batch {newest.batch_id}, "
            "and its marker is gone: the checkpoint has fallen back, for instance because it was "
            f"restored from a backup. {_ways_on(newest)}"
        )
    difference = _difference(plan_of(batch_id), same)
    if difference is None:
        return True
    raise ContinuationError(
        f"Batch {batch_id} of pipeline {app} is written, but not as its checkpoint plans it "
        f"now: {difference}. The checkpoint has fallen back, for instance because it was restored "
        f"from a backup. {_ways_on(newest)}"
    )


def _difference(plan: Plan, marker: Marker) -> str | None:
    for tp in sorted(plan.offsets.keys() | marker.offsets.keys()):
        planned, written = plan.offsets.get(tp), marker.offsets.get(tp)
        if planned != written:
            return (
                f"the marker says that {tp} was read {_up_to(written)}, the checkpoint "
                f"{_up_to(planned)}"
            )
    if marker.sources is not None and plan.sources != marker.sources:
        return "the sources of the query have noted something else than then"
    return None


def _up_to(offset: int | None) -> str:
    return "not at all" if offset is None else f"up to offset {offset}"


def _ways_on(newest: Marker | None) -> str:
    ways = "Nothing was written. Go on with the checkpoint that belongs to the output"
    if newest is None or not newest.offsets:
        return f"{ways}, or with a new one."
    start = json.dumps(offsets_to(newest.offsets), separators=(",", ":"))
    return f"{ways}, or with a new one and startingOffsets='{start}', where the output ends."
