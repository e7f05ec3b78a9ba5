"""Whether readers see transactions whole, when they are committed, and never otherwise."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from tests.support.histories.index import Index
from tests.support.histories.model import Anomaly, Outcome, Place


def aborted(index: Index) -> Iterator[Anomaly]:
    """G1a: a record of an aborted transaction is read."""
    for value, places in index.seen.items():
        writer = index.writers.get(value)
        if writer is not None and writer[0].outcome is Outcome.FAIL:
            yield Anomaly("aborted read", f"{value!r} of {writer[0]} is at {sorted(places)}")


def dirty(index: Index) -> Iterator[Anomaly]:
    """G1b: a record is read before its transaction's commit was even asked for."""
    for operation, read in index.reads:
        for offset, value in read.records:
            writer = index.writers.get(value, (None, None))[0]
            if writer is None or writer.identity is None or writer.outcome is Outcome.FAIL:
                continue
            is_early = writer.ending is None or operation.completed < writer.ending
            if is_early or writer is operation:
                detail = f"{value!r} of {writer} at {read.place}@{offset} was read by {operation}"
                yield Anomaly("dirty read", detail)


def torn(index: Index) -> Iterator[Anomaly]:
    """Some of a transaction is there for good, and some never."""
    for operation in index.transactions:
        there = [a for a in operation.appends if index.places.get(a.value)]
        missing = [
            a
            for a in operation.appends
            if not index.places.get(a.value) and not index.may_be_gone(a)
        ]
        if there and missing:
            detail = f"{operation}: {there[0]} is there, {missing[0]} is not"
            yield Anomaly("torn transaction", detail)


def skipped(index: Index) -> Iterator[Anomaly]:
    """A reader went past a committed record without seeing it.

    If it saw another record of that transaction, in this partition the read was intermediate
    (G1b), in another it was fractured.
    """
    logs = {place: sorted(records) for place, records in index.history.logs.items()}
    saw: dict[str, dict[int, set[Place]]] = defaultdict(lambda: defaultdict(set))
    for operation, read in index.reads:
        for _, value in read.records:
            writer = index.writers.get(value)
            if writer is not None:
                saw[operation.process][id(writer[0])].add(read.place)
    for operation, read in index.reads:
        given = {offset for offset, _ in read.records}
        for offset, value in _between(logs.get(read.place, []), read.start, read.end):
            if offset in given:
                continue
            writer = index.writers.get(value)
            places = saw[operation.process][id(writer[0])] if writer and writer[0].identity else ()
            kind = "skipped record"
            if read.place in places:
                kind = "intermediate read"
            elif places:
                kind = "fractured read"
            yield Anomaly(kind, f"{value!r} at {read.place}@{offset}; {operation}")


def _between(records: list[tuple[int, str]], start: int, end: int) -> Iterator[tuple[int, str]]:
    at = bisect_left(records, (start, ""))
    while at < len(records) and records[at][0] < end:
        yield records[at]
        at += 1
