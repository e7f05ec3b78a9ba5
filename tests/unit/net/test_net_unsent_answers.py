"""Answers that nobody takes: whose connection is closed, and whose is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.net.unsent_answers import LOOK_SECONDS, UnsentAnswers
from tests.support.eventually import SECONDS_MAX

MB = 1_000_000


class Slow:
    def __init__(self, memory_unsent: int, taken_per_look: int = 0) -> None:
        self._left = memory_unsent
        self._taken = taken_per_look
        self.is_closed = False

    @property
    def memory_unsent(self) -> int:
        return self._left

    def take(self) -> None:
        self._left = max(0, self._left - self._taken)

    def refuse(self, reason: str) -> None:
        assert str(self._left) in reason
        self.is_closed = True


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not check():
            await asyncio.sleep(LOOK_SECONDS / 10)


def test_those_who_take_nothing_are_closed_from_half_of_the_limit_on() -> None:
    async def play() -> None:
        unsent = UnsentAnswers(asyncio.get_running_loop(), 100 * MB)
        clients = [Slow(count * MB) for count in (20, 30, 10)]
        for client in clients:
            unsent.note(client)
        await until(lambda: clients[1].is_closed)
        await asyncio.sleep(3 * LOOK_SECONDS)
        assert [client.is_closed for client in clients] == [False, True, False]
        unsent.stop()

    asyncio.run(play())


def test_beyond_the_limit_the_largest_is_closed_at_once() -> None:
    async def play() -> None:
        unsent = UnsentAnswers(asyncio.get_running_loop(), 100 * MB)
        clients = [Slow(count * MB) for count in (40, 70)]
        for client in clients:
            unsent.note(client)
        await asyncio.sleep(0)
        assert [client.is_closed for client in clients] == [False, True]
        unsent.stop()

    asyncio.run(play())


def test_a_client_that_takes_an_answer_beyond_the_limit_is_served() -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        unsent = UnsentAnswers(loop, 10 * MB)
        client = Slow(500 * MB, taken_per_look=50 * MB)
        # A little is taken all the time, however late the looks are.
        unsent.note(client)

        def take() -> None:
            client.take()
            if client.memory_unsent:
                loop.call_later(LOOK_SECONDS / 5, take)

        take()
        await until(lambda: not client.memory_unsent)
        assert not client.is_closed
        unsent.stop()

    asyncio.run(play())
