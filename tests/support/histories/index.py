"""A history arranged for looking things up."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from tests.support.histories.model import Append, History, Operation, Place, Read


class Index:
    def __init__(self, history: History) -> None:
        self.history = history
        self.writers: dict[str, tuple[Operation, Append]] = {}
        """By value."""
        for operation in history.operations:
            for append in operation.appends:
                assert append.value not in self.writers, f"{append.value} is written twice"
                self.writers[append.value] = operation, append
        self.logs: dict[Place, dict[int, str]] = {
            place: dict(records) for place, records in history.logs.items()
        }
        self.places: dict[str, list[tuple[Place, int]]] = defaultdict(list)
        """Where each value is at the end."""
        for place, records in history.logs.items():
            for offset, value in records:
                self.places[value].append((place, offset))

    @property
    def reads(self) -> list[tuple[Operation, Read]]:
        return [(each, read) for each in self.history.operations for read in each.reads]

    @cached_property
    def transactions(self) -> list[Operation]:
        return [each for each in self.history.operations if each.identity is not None]

    @cached_property
    def seen(self) -> dict[str, set[tuple[Place, int]]]:
        """Where anybody has seen each value, at the end or before."""
        found: dict[str, set[tuple[Place, int]]] = defaultdict(set)
        for value, places in self.places.items():
            found[value].update(places)
        for _, read in self.reads:
            for offset, value in read.records:
                found[value].add((read.place, offset))
        return found

    @cached_property
    def _newest(self) -> dict[tuple[Place, str], int]:
        """By key: the greatest offset at which the log has a record of it."""
        newest: dict[tuple[Place, str], int] = {}
        for place, records in self.history.logs.items():
            for offset, value in records:
                writer = self.writers.get(value)
                if writer is not None and writer[1].key is not None:
                    known = place, writer[1].key
                    newest[known] = max(offset, newest.get(known, -1))
        return newest

    def may_be_gone(self, append: Append, offset: int | None = None) -> bool:
        """Whether compaction may have taken the record away."""
        if append.place[0] not in self.history.compacted or append.key is None:
            return False
        offset = append.offset if offset is None else offset
        return self._newest.get((append.place, append.key), -1) > (-1 if offset is None else offset)
