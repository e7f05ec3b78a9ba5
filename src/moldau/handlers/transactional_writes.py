"""What happens before a transactional batch is written: its partition must be in a transaction.

Otherwise no marker would ever come for it, and readers of committed data would wait for ever
(KIP-890). The coordinator is asked for a transaction's first batch in a partition only: from then
on the partition's own log knows of the transaction. While it is asked, later batches of the same
producer wait, or they would be written out of order.

The broker imports this when it starts, and what it needs of transactions with the first of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, cast

from moldau.handlers.context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records.batch import HEADER_BYTES, BatchHeader, read_header
from moldau.replication.replica import Replica
from moldau.wire.messages.produce import ProduceRequest

TOPIC_IDS_SINCE = 13

Refusals = Mapping[tuple[str, int], ApiError]
"""By topic and partition."""
NO_REFUSALS: Refusals = {}


class _Write(NamedTuple):
    """A transactional batch of a request, and where it is to go."""

    place: TopicPartition
    replica: Replica
    header: BatchHeader

    @property
    def producer(self) -> tuple[int, int]:
        return self.header.producer_id, self.header.producer_epoch

    @property
    def is_ongoing(self) -> bool:
        return self.replica.log.producers.is_in_transaction(*self.producer)

    @property
    def markers_count(self) -> int:
        return self.replica.log.producers.markers_count(self.header.producer_id)


class _Asked(NamedTuple):
    """A question to the coordinator."""

    places: frozenset[TopicPartition]
    version: int
    future: asyncio.Future[object]

    def refusals(self) -> Refusals:
        from moldau.transactions.verification import produce_refusal

        fault = self.future.exception()
        if isinstance(fault, ApiError):
            refusal = produce_refusal(fault.error, self.version)
            return dict.fromkeys(self.places, refusal)
        results = cast("Mapping[TopicPartition, Error]", self.future.result())
        return {
            place: produce_refusal(error, self.version)
            for place, error in results.items()
            if error is not Error.NONE
        }

    @property
    def is_too_early(self) -> bool:
        """The last transaction is still being completed. Older clients have added the partition
        themselves and need not wait for that."""
        from moldau.transactions.verification import REGISTERS_SINCE

        fault = self.future.exception()
        return (
            isinstance(fault, ApiError)
            and fault.error is Error.CONCURRENT_TRANSACTIONS
            and self.version >= REGISTERS_SINCE
        )


class _Turn:
    """Requests of one producer that wait for one another."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class TransactionalWrites:
    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: dict[int, _Turn] = {}
        """By producer id, while one of its requests waits for the coordinator."""

    def is_waiting(self, producer_id: int) -> bool:
        """Whether a request of the producer waits: what comes now must wait behind it."""
        return producer_id in self._turns

    async def prepare(self, request: ProduceRequest, ctx: RequestContext, on: Services) -> Refusals:
        """What may not be written, and why. Write the rest without waiting for anything."""
        writes = _writes_of(request, ctx, on)
        if not writes:
            return NO_REFUSALS
        if any(write.producer != writes[0].producer for write in writes):
            text = "the request has transactional batches of more than one producer"
            refusal = ApiError(Error.INVALID_PRODUCER_ID_MAPPING, text)
            return {write.place: refusal for write in writes}
        producer_id = writes[0].header.producer_id
        turn = self._turns.get(producer_id)
        asked = None
        if turn is None:
            asked = _ask(request, ctx, on, writes)
            if asked is None:
                return NO_REFUSALS
            if asked.future.done() and not asked.is_too_early:
                return asked.refusals()
            turn = self._turns[producer_id] = _Turn()
        turn.users += 1
        try:
            async with turn.lock:
                return await _wait(request, ctx, on, writes, asked)
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[producer_id]


async def _wait(
    request: ProduceRequest,
    ctx: RequestContext,
    on: Services,
    writes: list[_Write],
    asked: _Asked | None,
) -> Refusals:
    """Ask (unless that was done just now), and ask again while it is too early: that soon passes,
    and to send all its records again would cost the client more."""
    from moldau.handlers.transaction_outcomes import stored
    from moldau.transactions.verification import produce_refusal

    config = on.config
    wait_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
    deadline_ms = on.clock.monotonic_ms() + wait_ms
    while True:
        counts = [write.markers_count for write in writes]
        asked = asked or _ask(request, ctx, on, writes)
        if asked is None:
            return NO_REFUSALS
        try:
            await stored(asked.future, on)
        except ApiError:
            if asked.is_too_early and on.clock.monotonic_ms() < deadline_ms:
                await on.timers.pause(config.add_partitions_to_txn_retry_backoff_ms)
                asked = None
                continue
        # A transaction that was ended while we asked would give this batch no marker.
        ended = produce_refusal(Error.TRANSACTION_ABORTABLE, ctx.api_version)
        late: dict[tuple[str, int], ApiError] = {
            write.place: ended
            for write, count in zip(writes, counts, strict=True)
            if write.markers_count != count
        }
        return {**late, **asked.refusals()}


def _ask(
    request: ProduceRequest, ctx: RequestContext, on: Services, writes: list[_Write]
) -> _Asked | None:
    """None if nothing has to be asked."""
    from moldau.handlers.remote_transactions import submit_partitions
    from moldau.transactions.commands import AddPartitions
    from moldau.transactions.facts import VERSION_1, VERSION_2
    from moldau.transactions.verification import REGISTERS_SINCE, BeforeWrite, before_write

    transactional_id, version = request.transactional_id, ctx.api_version
    assert transactional_id is not None
    enabled = on.config.transaction_partition_verification_enable
    places = frozenset(
        write.place
        for write in writes
        if before_write(version, is_ongoing=write.is_ongoing, is_verification_enabled=enabled)
        is not BeforeWrite.NOTHING
    )
    if not places:
        return None
    registers = version >= REGISTERS_SINCE
    command = AddPartitions(
        transactional_id,
        *writes[0].producer,
        places,
        on.clock.wall_ms(),
        verify_only=not registers,
        client_version=VERSION_2 if registers else VERSION_1,
    )
    return _Asked(places, version, submit_partitions(command, on))


def _writes_of(request: ProduceRequest, ctx: RequestContext, on: Services) -> list[_Write]:
    """What is broken or not led here is left out: it is refused when it is to be written."""
    writes = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_BYTES:
                continue
            header = read_header(records)
            if not header.is_transactional or not header.has_producer:
                continue
            try:
                has_id = ctx.api_version >= TOPIC_IDS_SINCE
                name = on.replicas.name_of(topic.topic_id) if has_id else topic.name
                replica = on.replicas.find(name, data.index)
                replica.partition.check_leader()
            except ApiError:
                continue
            writes.append(_Write(TopicPartition(name, data.index), replica, header))
    return writes
