"""Producer ids for whoever asks this broker: idempotent producers and the transaction coordinator.

They come from blocks that the controller allots (`transactions/producer_id_blocks.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.transactions.producer_id_blocks import ProducerIds


class ProducerIdSource:
    """Producer ids from blocks that the controller allots; fetches the next block when one ends."""

    __slots__ = ("_allocate", "_fetch", "_ids")

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._ids = ProducerIds()
        self._fetch: asyncio.Task[None] | None = None

    async def next(self) -> int:
        while (producer_id := self._ids.take()) is None:
            # One block for all who wait; it is fetched even if the first of them goes away.
            if self._fetch is None:
                self._fetch = asyncio.get_running_loop().create_task(self._fetch_block())
            await asyncio.shield(self._fetch)
        return producer_id

    async def _fetch_block(self) -> None:
        try:
            self._ids.grant(await self._allocate())
        finally:
            self._fetch = None
