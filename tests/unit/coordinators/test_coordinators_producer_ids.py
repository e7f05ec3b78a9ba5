"""Producer ids for whoever asks, and for nobody if they have gone."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from moldau.coordinators.producer_id_source import ProducerIdSource
from moldau.model.errors import ApiError, Error


def test_a_block_that_nobody_waits_for_any_more_may_fail_in_silence() -> None:
    told: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        refused = asyncio.Event()

        async def allocate() -> range:
            await refused.wait()
            raise ApiError(Error.COORDINATOR_LOAD_IN_PROGRESS)

        asking = asyncio.create_task(ProducerIdSource(allocate).next())
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        del asking
        await asyncio.sleep(0)
        refused.set()
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()

    asyncio.run(scenario())
    assert told == []
