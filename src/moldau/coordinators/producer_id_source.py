"""Producer ids for whoever asks this broker: idempotent producers and the transaction coordinator.

They come from blocks that the controller allots (`transactions/producer_id_blocks.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.transactions.producer_id_blocks import ProducerIds


class ProducerIdSource:
    """Producer ids from blocks that the controller allots; fetches the next block when one ends."""

    __slots__ = ("_above", "_allocate", "_fetch", "_ids")

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._ids = ProducerIds()
        self._fetch: asyncio.Task[None] | None = None
        self._above = -1

    def pass_by(self, last: int) -> None:
        """Give nobody an id up to this one; the controller allots only others by now."""
        self._above = max(self._above, last)
        self._ids = ProducerIds()

    async def next(self) -> int:
        while (producer_id := self._ids.take()) is None:
            # One block for all who wait; it is fetched even if the first of them goes away.
            if self._fetch is None:
                self._fetch = asyncio.get_running_loop().create_task(self._fetch_block())
                # Should all who wait go away, nobody is left to hear of a fault.
                self._fetch.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.shield(self._fetch)
        return producer_id

    async def _fetch_block(self) -> None:
        try:
            block = await self._allocate()
            while block.start <= self._above:
                # It was asked for before that changed.
                block = await self._allocate()
            self._ids.grant(block)
        finally:
            self._fetch = None
