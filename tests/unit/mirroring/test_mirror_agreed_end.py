"""Up to where two logs agree, by their leader epochs alone."""

from __future__ import annotations

import asyncio
from random import Random

from moldau.mirroring.failback import EpochEnd, agreed_end
from tests.support import seeds

Epochs = list[int]
"""The epoch of every record."""


def asked(log: Epochs) -> EpochEnd:
    async def ask(epoch: int) -> tuple[int, int]:
        known = [each for each in log if each <= epoch]
        return (max(known), len(known)) if known else (-1, -1)

    return ask


def agreed(here: Epochs, there: Epochs) -> int:
    last = here[-1] if here else -1
    return asyncio.run(agreed_end(last, len(here), asked(here), asked(there)))


def test_a_mirror_that_went_on_after_its_promotion_agrees_up_to_there() -> None:
    assert agreed([0, 0, 3, 3, 3], [0, 0, 3, 65536, 65536]) == 3
    assert agreed([0, 0, 3, 4, 4], [0, 0, 3, 65536, 65536]) == 3
    assert agreed([0, 0, 3], [0, 0, 3, 65536]) == 3
    assert agreed([0, 0, 3, 3], [0, 0, 3]) == 3


def test_logs_without_anything_agree_on_nothing() -> None:
    assert agreed([], [1, 2]) == 0
    assert agreed([5, 5], []) == 0
    assert agreed([5], [1, 2]) == 0


def test_logs_that_parted_once_agree_up_to_where_they_parted() -> None:
    for seed in seeds.several(300):
        chance = Random(seed)
        common = sorted(chance.choices(range(8), k=chance.randrange(10)))
        own = sorted(chance.choices(range(8, 20), k=chance.randrange(10)))
        its = sorted(chance.choices(range(100, 120), k=chance.randrange(10)))
        assert agreed(common + own, common + its) == len(common)
