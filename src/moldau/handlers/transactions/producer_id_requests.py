"""InitProducerId: for idempotent producers an id that nobody had before, in epoch 0.

A request that carries a transactional id is the business of the transaction coordinator.
"""

from __future__ import annotations

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import Error
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

FIRST_EPOCH = 0


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
        from moldau.handlers.transactions.transaction_requests import init_transactional_producer

        return await init_transactional_producer(request, ctx, on)
    producer_id = await on.producer_ids.next()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)
