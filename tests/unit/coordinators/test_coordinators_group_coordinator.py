"""The group coordinator of a broker: how long those who ask it wait."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.coordinators.group_coordinator import GroupCoordinator
from moldau.engine.timers import Timers
from moldau.model.errors import ApiError, Error
from tests.support.virtual_time import ManualTime


def test_a_change_that_its_replicas_do_not_store_in_time_is_given_up() -> None:
    async def scenario() -> None:
        time = ManualTime()
        config: Any = SimpleNamespace(offsets_commit_timeout_ms=5_000)
        replicas: Any = None
        coordinator = GroupCoordinator(
            1,
            config=lambda: config,
            replicas=replicas,
            clock=time.clock,
            timers=Timers(time.clock, time.call_later),
        )
        loop = asyncio.get_running_loop()
        slow: asyncio.Future[object] = loop.create_future()
        task = loop.create_task(coordinator.stored(slow))
        await asyncio.sleep(0)
        time.pass_ms(4_999)
        assert not slow.done()
        time.pass_ms(1)
        with pytest.raises(ApiError) as refusal:
            await task
        assert refusal.value.error is Error.REQUEST_TIMED_OUT
        quick: asyncio.Future[object] = loop.create_future()
        task = loop.create_task(coordinator.stored(quick))
        await asyncio.sleep(0)
        quick.set_result("done")
        assert await task == "done"
        time.pass_ms(5_000)

    asyncio.run(scenario())
