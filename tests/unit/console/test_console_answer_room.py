"""What all answers hold together is bounded, and nobody who waits for one is left without."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from moldau.console.answer_room import AnswerRoom, cells_of
from moldau.console.recent_answers import RecentAnswers


class Row(NamedTuple):
    name: str
    parts: list[int]


@dataclass
class Sizes:
    rows: dict[str, int]


class Asked:
    """An answer of some rows, and how often it was asked for."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.count = 0

    async def fetch(self) -> list[int]:
        self.count += 1
        return list(range(self.rows))


def test_cells_are_counted_about_as_there_are_values() -> None:
    assert cells_of("text") == cells_of(7) == cells_of(None) == 1
    assert cells_of([1, 2]) == 3
    assert cells_of(Sizes({"a": 1})) == 4
    rows = {f"t-{number}": Row("t", [1] * 10) for number in range(10_000)}
    assert 130_000 <= cells_of(rows) <= 150_000
    assert cells_of([[[[[[[[[[1] * 99]]]]]]]]]) < 20, "not without end"


def test_answers_that_nobody_asked_for_longest_make_room() -> None:
    async def scenario() -> None:
        room = AnswerRoom(250)
        users = [RecentAnswers(room) for _ in range(4)]
        asked = [Asked(99) for _ in users]
        for user, one in zip(users, asked, strict=True):
            assert len((await user.get("rows", one.fetch)).value) == 99
            assert (await users[0].get("rows", asked[0].fetch)).value[-1] == 98
            assert room.cells <= 250
        assert [each.count for each in asked] == [1, 1, 1, 1]
        assert users[1].peek("rows", asked[1].fetch) is None
        assert len((await users[1].get("rows", asked[1].fetch)).value) == 99
        for user in users:
            await user.close()
        assert room.cells == 0

    asyncio.run(scenario())


def test_who_waits_gets_an_answer_that_is_larger_than_all_room() -> None:
    async def scenario() -> None:
        room = AnswerRoom(10)
        users = [RecentAnswers(room) for _ in range(3)]
        asked = Asked(1_000)
        told = await asyncio.gather(*(user.get("rows", asked.fetch) for user in users))
        assert [len(each.value) for each in told] == [1_000] * 3
        assert room.cells < 2_000, "the newest"
        users[-1].forget()
        assert room.cells == 0

    asyncio.run(scenario())
