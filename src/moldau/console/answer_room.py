"""What the answers of all users of a console may hold in memory together.

Users' answers are never shared, and they are as large as the cluster: with 10,000 topics those of
one user hold some 30 MB. Beyond the bound the answers that nobody has asked for longest are let
go, and whoever asks for one again waits for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sized
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, Final, Protocol

CELLS_MAX: Final = 3_000_000
"""Some 300 MB."""
SAMPLE: Final = 16
"""How many of many alike are looked into."""
DEPTH_MAX: Final = 6


class Holder(Protocol):
    def let_go(self) -> None:
        """The answer is to be forgotten."""


class AnswerRoom:
    def __init__(self, cells_max: int = CELLS_MAX) -> None:
        self._cells_max = cells_max
        self._holders: OrderedDict[Holder, int] = OrderedDict()
        """With what each holds; the one that was used longest ago comes first."""
        self.cells = 0

    def enter(self, holder: Holder, value: object) -> None:
        """It holds this now. The newest answer stays, whatever its size: somebody waits for it."""
        self._forget(holder)
        self._holders[holder] = cells = cells_of(value)
        self.cells += cells
        while self.cells > self._cells_max and len(self._holders) > 1:
            self.leave(next(iter(self._holders)))

    def used(self, holder: Holder) -> None:
        if holder in self._holders:
            self._holders.move_to_end(holder)

    def leave(self, holder: Holder) -> None:
        holder.let_go()
        self._forget(holder)

    def _forget(self, holder: Holder) -> None:
        self.cells -= self._holders.pop(holder, 0)


ROOM = AnswerRoom()
"""Of this process."""


def cells_of(value: object, depth: int = DEPTH_MAX) -> int:
    """About how many values it is made of. Of many alike a few are looked into."""
    if isinstance(value, str | bytes) or not depth:
        return 1
    if is_dataclass(value):
        return 1 + sum(cells_of(getattr(value, each.name), depth - 1) for each in fields(value))
    if isinstance(value, Mapping):
        return 1 + _cells_of_all(value, value, depth) + _cells_of_all(value, value.values(), depth)
    if isinstance(value, list | tuple | set | frozenset):
        return 1 + _cells_of_all(value, value, depth)
    return 1


def _cells_of_all(whole: Sized, each: Iterable[Any], depth: int) -> int:
    count = len(whole)
    if count <= SAMPLE:
        return sum(cells_of(one, depth - 1) for one in each)
    some = islice(each, 0, None, count // SAMPLE)
    sampled = [cells_of(one, depth - 1) for one in some]
    return sum(sampled) * count // len(sampled)
