"""Whether everything that was acknowledged is there, once, in order, where it was said to be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.support.histories.index import Index
from tests.support.histories.model import Anomaly, Outcome, Place


def lost(index: Index) -> Iterator[Anomaly]:
    for operation in index.history.operations:
        if operation.outcome is not Outcome.OK:
            continue
        for append in operation.appends:
            if not index.places.get(append.value) and not index.may_be_gone(append):
                yield Anomaly("lost write", f"{append} of {operation}")


def doubled(index: Index) -> Iterator[Anomaly]:
    for value, places in index.seen.items():
        if len(places) > 1:
            yield Anomaly("doubled write", f"{value!r} was seen at {sorted(places)}")


def moved(index: Index) -> Iterator[Anomaly]:
    """A record is not where its writer was told, or where a reader has found it."""
    for value, places in index.places.items():
        writer = index.writers.get(value)
        if writer is None:
            yield Anomaly("unwritten record", f"nobody wrote {value!r}, which is at {places}")
            continue
        place, offset = places[0]
        append = writer[1]
        if place != append.place or append.offset not in (None, offset):
            yield Anomaly("moved write", f"{append} is at {place}@{offset}")


def vanished(index: Index) -> Iterator[Anomaly]:
    """What a reader of committed records was given may never go, nor become something else."""
    for operation, read in index.reads:
        log = index.logs.get(read.place, {})
        for offset, value in read.records:
            writer = index.writers.get(value)
            if writer is None:
                yield Anomaly("unwritten record", f"{read.place}@{offset}: {value!r}, {operation}")
            elif log.get(offset) != value and not index.may_be_gone(writer[1], offset):
                now = log.get(offset)
                detail = f"{read.place}@{offset} was {value!r}, is {now!r}; {operation}"
                yield Anomaly("vanished record", detail)


def reordered(index: Index) -> Iterator[Anomaly]:
    """What one client wrote to one partition stands there in the order in which it was sent."""
    last: dict[tuple[str, Place], tuple[int, str]] = defaultdict(lambda: (-1, ""))
    for operation in sorted(index.history.operations, key=lambda each: each.invoked):
        for append in operation.appends:
            offsets = [
                o for place, o in index.places.get(append.value, []) if place == append.place
            ]
            if not offsets:
                continue
            before, value = last[operation.process, append.place]
            if offsets[0] < before:
                detail = f"{append.value!r} at {offsets[0]} was sent after {value!r} at {before}"
                yield Anomaly("reordered write", f"{append.place}: {detail}; {operation}")
            last[operation.process, append.place] = offsets[0], append.value


def unordered_reads(index: Index) -> Iterator[Anomaly]:
    ends: dict[tuple[str, Place], int] = {}
    for operation, read in index.reads:
        offsets = [offset for offset, _ in read.records]
        inside = all(read.start <= offset < read.end for offset in offsets)
        if offsets != sorted(set(offsets)) or not inside:
            yield Anomaly("reader out of order", f"{read.place}: {offsets[:20]}, {operation}")
        before = ends.get((operation.process, read.place), -1)
        if read.start < before:
            detail = f"{read.place}: from {before} back to {read.start}, {operation}"
            yield Anomaly("reader out of order", detail)
        ends[operation.process, read.place] = read.end
