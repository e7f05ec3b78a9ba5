"""How long things took, in cells of half an octave: bounded memory, one addition for each duration.

Quantiles are of the last minutes, as Apache Kafka's are: now and then whoever keeps the cells puts
them away (`turn`), and quantiles are of those that are filled and those that were filled before.
The count is since the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

CELLS = 128
"""So many that no duration is too long: the last begins after 400 years."""
NS_PER_MS = 1e6
QUANTILES = (("0.50", 0.5), ("0.75", 0.75), ("0.95", 0.95), ("0.98", 0.98), ("0.99", 0.99))
ALL_QUANTILES = (*QUANTILES, ("0.999", 0.999))


class DurationCells:
    """`cells[(ns * ns).bit_length()] += 1` is all that counting a duration takes."""

    __slots__ = ("_before", "_count_before", "cells")

    def __init__(self) -> None:
        self.cells = [0] * CELLS
        self._before = [0] * CELLS
        self._count_before = 0

    def add(self, duration_ns: int) -> None:
        self.cells[(duration_ns * duration_ns).bit_length()] += 1

    def turn(self) -> None:
        """Forget what was there before the last turn, but for its number."""
        self._count_before += sum(self._before)
        self._before, self.cells = self.cells, [0] * CELLS

    @property
    def count(self) -> int:
        return self._count_before + sum(self._before) + sum(self.cells)

    def recent(self) -> list[int]:
        return [now + before for now, before in zip(self.cells, self._before, strict=True)]


class Summary(NamedTuple):
    """What is told of durations."""

    number: int
    quantiles: tuple[tuple[str, float], ...]
    """By the name of the quantile."""


def summary(
    parts: Iterable[DurationCells], zeros: Iterable[DurationCells] = (), unit: float = NS_PER_MS
) -> Summary:
    """Of all the `parts` together; what is in `zeros` has taken no time at all."""
    parts, zeros = list(parts), list(zeros)
    together = [0] * CELLS
    for each in parts:
        together = [sum(pair) for pair in zip(together, each.recent(), strict=True)]
    together[0] += sum(sum(each.recent()) for each in zeros)
    count = sum(each.count for each in (*parts, *zeros))
    return Summary(
        count, tuple((name, _quantile(together, of, unit)) for name, of in ALL_QUANTILES)
    )


def _quantile(cells: list[int], of: float, unit: float) -> float:
    """Within a cell they count as spread evenly."""
    total = sum(cells)
    if not total:
        return 0.0
    wanted, seen = of * total, 0
    for number, count in enumerate(cells):
        if count and seen + count >= wanted:
            low, high = _begin_ns(number), _begin_ns(number + 1)
            return round((low + (high - low) * (wanted - seen) / count) / unit, 4)
        seen += count
    raise AssertionError("the quantile of a part is in one of the cells")


def _begin_ns(number: int) -> float:
    """The shortest duration that a cell counts."""
    return 0.0 if number <= 1 else float(2 ** ((number - 1) / 2))
