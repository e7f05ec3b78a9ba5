"""Whether groups' offsets and what was made from the records before them agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.support.histories.index import Index
from tests.support.histories.model import Anomaly, Look, Operation, Outcome, Place

GroupPlace = tuple[str, Place]


def offsets(index: Index) -> Iterator[Anomaly]:
    """Who asks is told at least what was committed before, and nothing that nobody committed."""
    moves: dict[GroupPlace, list[tuple[Operation, int]]] = defaultdict(list)
    for operation in index.history.operations:
        for each in operation.consumed:
            moves[each.group, each.place].append((operation, each.end))
    for look in index.history.looks:
        known = moves[look.group, look.place]
        least = max((end for each, end in known if _is_done(each, look)), default=0)
        possible = {end for each, end in known if _may_be_done(each, look)}
        if look.offset >= 0 and look.offset not in possible:
            yield Anomaly("offset nobody committed", f"{look}, committed: {sorted(possible)[-5:]}")
        if look.offset < least:
            yield Anomaly("group went back", f"{look}, {least} was committed before")


def _is_done(operation: Operation, look: Look) -> bool:
    return operation.outcome is Outcome.OK and operation.completed < look.invoked


def _may_be_done(operation: Operation, look: Look) -> bool:
    begun = operation.invoked if operation.identity is None else operation.ending
    if operation.outcome is Outcome.FAIL or begun is None:
        return False
    return begun <= look.completed


def beyond(index: Index) -> Iterator[Anomaly]:
    """No group stands behind the end of a log."""
    for look in index.history.looks:
        end = index.history.ends.get(look.place)
        if end is not None and look.offset > end:
            yield Anomaly("offset beyond the data", f"{look}, the log ends at {end}")


def processed(index: Index) -> Iterator[Anomaly]:
    """Each record before a group's last offset was made into one record, and none after it."""
    made: dict[tuple[Place, int], list[str]] = defaultdict(list)
    inputs: set[Place] = set()
    for value, (_, append) in index.writers.items():
        if append.source is not None:
            inputs.add(append.source[0])
            if index.places.get(value):
                made[append.source].append(value)
    last: dict[Place, int] = {}
    for look in index.history.looks:
        if look.place in inputs:
            last[look.place] = look.offset
    for (place, offset), values in made.items():
        if len(values) > 1:
            yield Anomaly("processed twice", f"{place}@{offset} became {values}")
        if offset >= last.get(place, 0):
            yield Anomaly("torn processing", f"{place}@{offset} became {values}, not consumed")
    for place, end in last.items():
        for offset, value in index.history.logs.get(place, ()):
            if offset < end and (place, offset) not in made:
                yield Anomaly("unprocessed record", f"{value!r} at {place}@{offset}, consumed")
