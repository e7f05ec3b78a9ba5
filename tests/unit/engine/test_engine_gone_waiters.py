"""A refusal that nobody waits for any more is no error: nothing is said of it."""

from __future__ import annotations

import asyncio
import gc

from moldau.model.errors import ApiError, Error
from tests.unit.engine.test_engine_engine import Bench, Wait, run


def test_nothing_is_said_of_refusals_whose_askers_are_gone() -> None:
    said: list[object] = []

    async def asks(bench: Bench) -> None:
        await bench.engine.submit(Wait())

    async def scenario(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: said.append(context))
        dropped = bench.engine.submit(Wait())
        timed_out = bench.engine.submit(Wait())
        timed_out.set_exception(ApiError(Error.REQUEST_TIMED_OUT))
        asking = asyncio.create_task(asks(bench))
        await asyncio.sleep(0)
        asking.cancel()
        bench.engine.stop(Error.NOT_COORDINATOR, "broker 1 no longer leads __consumer_offsets-0")
        late = bench.engine.submit(Wait())
        await asyncio.sleep(0)
        del dropped, timed_out, late, asking
        gc.collect()

    run(scenario)
    gc.collect()
    assert said == []
