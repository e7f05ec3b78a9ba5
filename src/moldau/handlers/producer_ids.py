"""InitProducerId: for idempotent producers an id that nobody had before, in epoch 0.

A request that carries a transactional id is the business of the transaction coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.handlers.context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import Error
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.transactions.producer_ids import ProducerIds
from moldau.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

FIRST_EPOCH = 0


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


async def init_producer_id(
    request: InitProducerIdRequest, ctx: RequestContext, on: Services
) -> InitProducerIdResponse:
    has_id = request.producer_id != NO_PRODUCER_ID
    has_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        return InitProducerIdResponse(
            error_code=Error.INVALID_REQUEST, producer_epoch=NO_PRODUCER_EPOCH
        )
    if request.transactional_id is not None:
        # Here, because most brokers start for producers that have no transactions.
        from moldau.handlers.transactions import init_transactional_producer

        return await init_transactional_producer(request, ctx, on)
    producer_id = await on.producer_ids.next()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)
