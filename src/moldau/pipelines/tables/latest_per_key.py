"""The latest value per key of a topic whose partitions are read side by side. Pure.

In a partition the record with the higher offset is the later one, whatever its timestamp; that is
what compaction keeps. A key may be in several partitions, for instance because the topic has got
more of them. Then the partition counts whose last record of the key has the later timestamp, and of
equal ones that with the higher offset. Partitions may come in any order and pace.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class RecordPlace(NamedTuple):
    """Compares as the records of different partitions do."""

    timestamp: int
    offset: int
    partition: int


class LatestByKey:
    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        """The values that hold."""
        self._places: dict[Any, RecordPlace] = {}
        """Where the record is that says what holds of a key, deletions included."""
        self._elsewhere: dict[Any, dict[int, tuple[RecordPlace, bool, Any]]] = {}
        """Of keys in several partitions: the last record in each (where, whether it deletes, the
        value)."""

    def __len__(self) -> int:
        """Keys that are kept, among them those deleted since the last `settle`."""
        return len(self._places)

    def __contains__(self, key: Any) -> bool:
        return key in self._places

    @property
    def has_deletions(self) -> bool:
        return len(self._places) > len(self.rows)

    def take(self, key: Any, place: RecordPlace, *, is_deletion: bool, value: Any = None) -> None:
        """A record; those of one partition come in their order."""
        known = self._places.get(key)
        if known is not None and known.partition != place.partition:
            self._elsewhere.setdefault(
                key, {known.partition: (known, key not in self.rows, self.rows.get(key))}
            )
        candidates = self._elsewhere.get(key)
        if candidates is not None:
            candidates[place.partition] = (place, is_deletion, value)
            place, is_deletion, value = max(candidates.values(), key=lambda each: each[0])
        self._places[key] = place
        if is_deletion:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def settle(self) -> None:
        """All partitions were read up to some moment: nothing older can come any more, so that
        deletions need not be remembered."""
        for key in [key for key in self._places if key not in self.rows]:
            del self._places[key]
            self._elsewhere.pop(key, None)
