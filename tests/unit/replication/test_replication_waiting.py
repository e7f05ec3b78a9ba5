"""Parked requests: woken by changes and by time, in the loop's next turn, bounded."""

from __future__ import annotations

import asyncio

from moldau.engine.timers import Timers
from moldau.replication.delayed_requests import Waiting, Watched
from tests.support.virtual_time import ManualTime


class World:
    def __init__(self, parked_max: int = 100) -> None:
        self.time = ManualTime()
        self.loop = asyncio.get_running_loop()
        timers = Timers(self.time.clock, self.time.call_later)
        self.waiting = Waiting(self.loop, timers, parked_max)
        self.asked = 0
        self.is_ready = False

    def ready(self, _: Watched) -> bool:
        self.asked += 1
        return self.is_ready

    def park(self, *places: Watched, timeout_ms: int = 500) -> asyncio.Task[bool]:
        return self.loop.create_task(self.waiting.until(places, self.ready, timeout_ms))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_request_that_becomes_ready_is_woken() -> None:
    async def scenario() -> None:
        world, place = World(), Watched()
        parked = world.park(place)
        await turns()
        world.is_ready = True
        world.waiting.changed(place)
        assert await parked
        assert (world.waiting.parked_count, place.parked) == (0, {})

    asyncio.run(scenario())


def test_a_change_that_is_not_enough_leaves_the_request_parked() -> None:
    async def scenario() -> None:
        world, place = World(), Watched()
        parked = world.park(place)
        await turns()
        world.waiting.changed(place)
        await turns()
        assert not parked.done()
        world.time.pass_ms(500)
        assert await parked is False

    asyncio.run(scenario())


def test_many_changes_in_one_turn_are_looked_at_once_and_after_it() -> None:
    async def scenario() -> None:
        world, place = World(), Watched()
        parked = world.park(place)
        await turns()
        for _ in range(100):
            world.waiting.changed(place)
        assert world.asked == 0
        await turns()
        assert world.asked == 1
        world.waiting.disturb(place)
        await parked

    asyncio.run(scenario())


def test_a_change_that_nobody_waits_for_costs_nothing() -> None:
    async def scenario() -> None:
        world = World()
        world.waiting.changed(Watched())
        assert not world.waiting._changed

    asyncio.run(scenario())


def test_a_disturbance_wakes_whoever_is_there_ready_or_not() -> None:
    async def scenario() -> None:
        world, first, second = World(), Watched(), Watched()
        both = world.park(first, second)
        one = world.park(first)
        other = world.park(second)
        await turns()
        world.waiting.disturb(first)
        assert await both and await one
        assert not other.done()
        world.time.pass_ms(500)
        assert not await other

    asyncio.run(scenario())


def test_time_is_up_at_once_for_a_request_that_may_not_wait() -> None:
    async def scenario() -> None:
        world = World()
        assert not await world.park(Watched(), timeout_ms=0)

    asyncio.run(scenario())


def test_no_more_requests_are_parked_than_allowed() -> None:
    async def scenario() -> None:
        world, place = World(parked_max=2), Watched()
        parked = [world.park(place) for _ in range(3)]
        await turns()
        assert [task.done() for task in parked] == [False, False, True]
        world.waiting.disturb(place)
        assert await parked[0] and await parked[1]

    asyncio.run(scenario())


def test_a_request_that_is_given_up_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        world, place = World(), Watched()
        coroutine = world.waiting.until([place], world.ready, 500)
        coroutine.send(None)
        coroutine.close()
        assert (world.waiting.parked_count, place.parked) == (0, {})

    asyncio.run(scenario())
