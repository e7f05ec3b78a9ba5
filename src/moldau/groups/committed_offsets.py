"""The offsets that groups have committed, and those that open transactions hold back.

State only; `offset_rules.py` decides. A commit inside a transaction waits here until that ends. If
the group has committed the same partition meanwhile, the later commit counts, whatever the order
in which they become visible: `sequence` numbers the commits as the log has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from moldau.groups import group_facts
from moldau.groups.group_facts import CommittedOffset
from moldau.model.names import TopicPartition


class Stored(NamedTuple):
    value: CommittedOffset
    sequence: int


Placed = dict[TopicPartition, Stored]


class Offsets:
    __slots__ = ("_pending", "_producers", "_sequence", "committed")

    def __init__(self) -> None:
        self.committed: dict[str, Placed] = {}
        """By group id; no group has an empty entry."""
        self._pending: dict[int, dict[str, Placed]] = {}
        """By producer id, then group id."""
        self._producers: dict[str, set[int]] = {}
        """The producers with an open transaction, by group id."""
        self._sequence = 0

    def of_group(self, group_id: str) -> Placed:
        return self.committed.get(group_id, {})

    def is_in_transaction(self, group_id: str) -> bool:
        return group_id in self._producers

    def is_pending(self, group_id: str, place: TopicPartition) -> bool:
        return any(
            place in self._pending[producer_id][group_id]
            for producer_id in self._producers.get(group_id, ())
        )

    def places(self, group_id: str) -> dict[TopicPartition, None]:
        """Everything that the group has, committed or pending, in order."""
        found = dict.fromkeys(self.of_group(group_id))
        for producer_id in self._producers.get(group_id, ()):
            found.update(dict.fromkeys(self._pending[producer_id][group_id]))
        return found

    def group_ids(self) -> Iterable[str]:
        return self.committed.keys() | self._producers.keys()

    def in_transactions(self) -> Iterator[tuple[int, str, Placed]]:
        for producer_id, groups in self._pending.items():
            for group_id, placed in groups.items():
                yield producer_id, group_id, placed

    def apply(self, fact: object) -> None:
        _APPLIED_BY[type(fact)](self, fact)

    def _store(self, placed: Placed, offsets: Iterable[group_facts.PlacedOffset]) -> None:
        for place, value in offsets:
            self._sequence += 1
            placed[place] = Stored(value, self._sequence)

    def _committed(self, fact: group_facts.OffsetsCommitted) -> None:
        self._store(self.committed.setdefault(fact.group_id, {}), fact.offsets)

    def _held_back(self, fact: group_facts.TransactionalOffsetsCommitted) -> None:
        groups = self._pending.setdefault(fact.producer_id, {})
        self._store(groups.setdefault(fact.group_id, {}), fact.offsets)
        self._producers.setdefault(fact.group_id, set()).add(fact.producer_id)

    def _ended(self, fact: group_facts.TransactionEnded) -> None:
        for group_id, placed in self._pending.get(fact.producer_id, {}).copy().items():
            self._close(fact.producer_id, group_id)
            if fact.committed:
                current = self.committed.setdefault(group_id, {})
                for place, stored in placed.items():
                    if place not in current or current[place].sequence < stored.sequence:
                        current[place] = stored

    def _close(self, producer_id: int, group_id: str) -> None:
        del self._pending[producer_id][group_id]
        if not self._pending[producer_id]:
            del self._pending[producer_id]
        self._producers[group_id].discard(producer_id)
        if not self._producers[group_id]:
            del self._producers[group_id]

    def _removed(self, fact: group_facts.OffsetsRemoved) -> None:
        group_id = fact.group_id
        committed = self.of_group(group_id)
        for place in fact.places:
            committed.pop(place, None)
        if not committed:
            self.committed.pop(group_id, None)
        for producer_id in list(self._producers.get(group_id, ())):
            placed = self._pending[producer_id][group_id]
            for place in fact.places:
                placed.pop(place, None)
            if not placed:
                self._close(producer_id, group_id)


_APPLIED_BY: dict[type, Callable[[Offsets, Any], None]] = {
    group_facts.OffsetsCommitted: Offsets._committed,
    group_facts.TransactionalOffsetsCommitted: Offsets._held_back,
    group_facts.TransactionEnded: Offsets._ended,
    group_facts.OffsetsRemoved: Offsets._removed,
}
