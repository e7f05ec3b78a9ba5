"""The logic of joins whose results change: what a late update of a table does. Pure.

Rows of one key come in any order. By their timestamps, and by offset where those are equal, they
have one order; a result is what that order says, so a table's update that comes late replaces
results that were given without it. Rows are kept for a while (`history_ms` behind the newest of the
key, and behind the watermark, which goes on while the key is silent), and at most so many: a later
update than that changes nothing any more.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from typing import Any, NamedTuple

ROWS_MAX = 10_000
"""What is kept per key at most."""


class Timed(NamedTuple):
    timestamp: int
    offset: int
    row: Any
    """None in a table: the key is deleted."""

    @property
    def order(self) -> tuple[int, int]:
        return self.timestamp, self.offset


class Joined(NamedTuple):
    left: Any
    right: Any
    timestamp: int
    is_update: bool = False
    """Whether it replaces a result that was given before."""


class StreamTableJoin:
    """Of one key: the table's versions and the stream's rows that may still have to be redone."""

    def __init__(self, *, history_ms: int, keeps_unmatched: bool) -> None:
        self.history_ms = history_ms
        self.keeps_unmatched = keeps_unmatched
        self.versions: list[Timed] = []
        self.buffered: list[Timed] = []

    def take(self, stream: Iterable[Timed], table: Iterable[Timed]) -> list[Joined]:
        """The results of new rows, all of one batch in order of their time."""
        results: list[Joined] = []
        # What the table has at a time holds for the stream's rows of that time.
        arrivals = [(each.timestamp, 0, each.offset, each) for each in table]
        arrivals += [(each.timestamp, 1, each.offset, each) for each in stream]
        for _, is_stream, _, each in sorted(arrivals, key=lambda arrival: arrival[:3]):
            if is_stream:
                results += self._join(each)
            else:
                results += self._update(each)
        self._forget()
        return results

    def expire(self, watermark_ms: int) -> None:
        """Forget what is too old by the time of the whole stream, not only of this key."""
        horizon = watermark_ms - self.history_ms
        self.buffered = [each for each in self.buffered if each.timestamp >= horizon]
        if _is_gone(self.versions) and self.versions[-1].timestamp < horizon:
            self.versions = []

    @property
    def expiry_ms(self) -> int | None:
        """The watermark at which there is something to forget if the key stays silent."""
        if self.buffered:
            return self.buffered[-1].timestamp + self.history_ms + 1
        if _is_gone(self.versions):
            return self.versions[-1].timestamp + self.history_ms + 1
        return None

    def version_at(self, timestamp: int) -> Any:
        place = bisect_right(self.versions, timestamp, key=lambda each: each.timestamp)
        return self.versions[place - 1].row if place else None

    def _join(self, each: Timed) -> list[Joined]:
        insort(self.buffered, each, key=lambda other: other.order)
        right = self.version_at(each.timestamp)
        if right is None and not self.keeps_unmatched:
            return []
        return [Joined(each.row, right, each.timestamp)]

    def _update(self, version: Timed) -> list[Joined]:
        """Results that were given for rows from the version's time to the next one's are redone."""
        since = [self.version_at(each.timestamp) for each in self.buffered]
        insort(self.versions, version, key=lambda other: other.order)
        results = []
        for each, before in zip(self.buffered, since, strict=True):
            now = self.version_at(each.timestamp)
            if now == before:
                continue
            was_given = before is not None or self.keeps_unmatched
            if now is not None or was_given:
                results.append(Joined(each.row, now, each.timestamp, was_given))
        return results

    def _forget(self) -> None:
        newest = [each[-1].timestamp for each in (self.versions, self.buffered) if each]
        if not newest:
            return
        horizon = max(newest) - self.history_ms
        self.buffered = [each for each in self.buffered if each.timestamp >= horizon][-ROWS_MAX:]
        # The last version before the horizon still holds for rows behind it.
        first = bisect_right(self.versions, horizon, key=lambda each: each.timestamp)
        self.versions = self.versions[max(first - 1, 0) :][-ROWS_MAX:]


def _is_gone(versions: list[Timed]) -> bool:
    """Whether the table's key was deleted: its last version says so, and only recent rows of the
    stream can still need those before it."""
    return bool(versions) and versions[-1].row is None


class TableTableJoin:
    """Of one key: the latest row of both sides."""

    def __init__(self, *, history_ms: int, keeps_left: bool, keeps_right: bool) -> None:
        self.history_ms = history_ms
        self.keeps_left = keeps_left
        self.keeps_right = keeps_right
        self.left: Timed | None = None
        self.right: Timed | None = None

    def take(self, left: Iterable[Timed], right: Iterable[Timed]) -> list[Joined]:
        arrivals = [(*each.order, True, each) for each in left]
        arrivals += [(*each.order, False, each) for each in right]
        results: list[Joined] = []
        for _, _, is_left, each in sorted(arrivals, key=lambda arrival: arrival[:3]):
            known = self.left if is_left else self.right
            if known is not None and known.order > each.order:
                continue  # An older change than the one in force says nothing about now.
            before = self._result()
            if is_left:
                self.left = each
            else:
                self.right = each
            now = self._result()
            if now != before:
                # Both None: there is no result any more, as a deletion says in a table.
                one, other = now or (None, None)
                results.append(Joined(one, other, each.timestamp, before is not None))
        return results

    def expire(self, watermark_ms: int) -> None:
        """Forget a key that both tables have deleted, once no older change can be on its way."""
        expiry = self.expiry_ms
        if expiry is not None and expiry <= watermark_ms:
            self.left = self.right = None

    @property
    def expiry_ms(self) -> int | None:
        known = [each for each in (self.left, self.right) if each is not None]
        if not known or any(each.row is not None for each in known):
            return None
        return max(each.timestamp for each in known) + self.history_ms + 1

    def _result(self) -> tuple[Any, Any] | None:
        left = None if self.left is None else self.left.row
        right = None if self.right is None else self.right.row
        if (left is None and not (self.keeps_right and right is not None)) or (
            right is None and not (self.keeps_left and left is not None)
        ):
            return None
        return left, right
