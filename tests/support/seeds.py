"""Where every random test gets its seed, so that one flag replays any of them.

`pytest --seed n`, or `MOLDAU_SEED=n`, gives every random test that is run the seed n alone; without
it some draw a fresh seed for every run and others have usual ones, as they say.
`MOLDAU_SEEDS_TIMES=10` multiplies how many seeds (and how many of Hypothesis' examples) are tried.
A test that fails names its seed in the error: `tests/conftest.py` adds it. The simulation has its
own: `make sim SEED=n`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

FLAG = "MOLDAU_SEED"
FLAG_TIMES = "MOLDAU_SEEDS_TIMES"
LIMIT = 1_000_000_000

_latest: int | None = None


def given() -> int | None:
    """The seed that the flag asks for."""
    value = os.environ.get(FLAG)
    return int(value) if value else None


def times(usual: int) -> int:
    """So many instead of the usual number."""
    return usual * int(os.environ.get(FLAG_TIMES) or 1)


def fresh() -> int:
    return random.SystemRandom().randrange(LIMIT)


def one(usual: int | None = None) -> int:
    """The one seed of a test: the flag's, else the usual one, else a fresh one."""
    asked = given()
    if asked is None:
        asked = fresh() if usual is None else usual
    _note(asked)
    return asked


def chance(usual: int | None = None) -> random.Random:
    """The dice of a test that needs one seed."""
    return random.Random(one(usual))


def several(usual: int, first: int | None = None) -> Iterator[int]:
    """The seeds of a test that tries many, from `first` on or from a fresh one.

    Ranges that follow one another do so too when both are multiplied.
    """
    for seed in parameters(usual, fresh() if first is None else first, is_far=first is None):
        _note(seed)
        yield seed


def parameters(usual: int, first: int = 0, is_far: bool = False) -> list[int]:
    """Seeds for `parametrize`: the same in every process that collects the tests."""
    asked = given()
    if asked is not None:
        return [asked]
    start = first if is_far else times(first)
    return list(range(start, start + times(usual)))


def latest() -> int | None:
    """The seed that was drawn last."""
    return _latest


def forget() -> None:
    global _latest
    _latest = None


def _note(seed: int) -> None:
    global _latest
    _latest = seed
    print(f"{FLAG}={seed}")
