"""What happens before a transactional batch is written: its partition must be in a transaction.

Otherwise no marker would ever come for it, and readers of committed data would wait for ever
(KIP-890). The coordinator is asked for a transaction's first batch in a partition only: from then
on the partition's own log knows of the transaction. While it is asked, later batches of the same
producer wait, or they would be written out of order.

The broker imports this when it starts, and what it needs of transactions with the first of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.config.broker_config import BrokerConfig
from moldau.coordinators.transaction_coordinator import TransactionCoordinator
from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records.batch import HEADER_BYTES, BatchHeader, read_header
from moldau.replication.replica import Replica
from moldau.replication.replica_loading import load
from moldau.replication.replicas import Replicas
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
        producers = self.replica.producers
        return producers is not None and producers.is_in_transaction(*self.producer)

    @property
    def markers_count(self) -> int:
        producers = self.replica.producers
        return 0 if producers is None else producers.markers_count(self.header.producer_id)


class _Asked(NamedTuple):
    """A question to the coordinator."""

    places: frozenset[TopicPartition]
    version: int
    future: asyncio.Future[Mapping[TopicPartition, Error]]

    def refusals(self) -> Refusals:
        from moldau.transactions.partition_verification import produce_refusal

        fault = self.future.exception()
        if isinstance(fault, ApiError):
            refusal = produce_refusal(fault.error, self.version)
            return dict.fromkeys(self.places, refusal)
        results = self.future.result()
        return {
            place: produce_refusal(error, self.version)
            for place, error in results.items()
            if error is not Error.NONE
        }

    @property
    def registers(self) -> bool:
        from moldau.transactions.partition_verification import REGISTERS_SINCE

        return self.version >= REGISTERS_SINCE

    @property
    def is_too_early(self) -> bool:
        """The last transaction is still being completed. Older clients have added the partition
        themselves and need not wait for that."""
        from moldau.transactions.partition_verification import REGISTERS_SINCE

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
    __slots__ = ("_clock", "_config", "_replicas", "_timers", "_transactions", "_turns")

    def __init__(
        self,
        transactions: TransactionCoordinator,
        *,
        config: Callable[[], BrokerConfig],
        replicas: Replicas,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._transactions = transactions
        self._config = config
        self._replicas = replicas
        self._clock = clock
        self._timers = timers
        self._turns: dict[int, _Turn] = {}
        """By producer id, while one of its requests waits for the coordinator."""

    def is_waiting(self, producer_id: int) -> bool:
        """Whether a request of the producer waits: what comes now must wait behind it."""
        return producer_id in self._turns

    async def prepare(self, request: ProduceRequest, version: int) -> Refusals:
        """What may not be written, and why. Write the rest without waiting for anything."""
        writes = self._writes_of(request, version)
        if any(write.replica.producers is None for write in writes):
            writes = await _loaded(writes)
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
            asked = self._ask(request, version, writes)
            if asked is None:
                return NO_REFUSALS
            if asked.future.done() and not asked.is_too_early:
                return asked.refusals()
            turn = self._turns[producer_id] = _Turn()
        turn.users += 1
        try:
            async with turn.lock:
                return await self._wait(request, version, writes, asked)
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[producer_id]

    async def _wait(
        self, request: ProduceRequest, version: int, writes: list[_Write], asked: _Asked | None
    ) -> Refusals:
        """Ask (unless that was done just now), and ask again while it is too early: that soon
        passes, and to send all its records again would cost the client more."""
        from moldau.transactions.partition_verification import produce_refusal

        config = self._config()
        wait_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            counts = [write.markers_count for write in writes]
            asked = asked or self._ask(request, version, writes)
            if asked is None:
                return NO_REFUSALS
            try:
                await self._transactions.stored(asked.future)
            except ApiError:
                if asked.is_too_early and self._clock.monotonic_ms() < deadline_ms:
                    await self._timers.pause(config.add_partitions_to_txn_retry_backoff_ms)
                    asked = None
                    continue
            # A transaction that was ended while we asked would give this batch no marker.
            is_late = [write.markers_count for write in writes] != counts
            if is_late and asked.registers and self._clock.monotonic_ms() < deadline_ms:
                # It may have been the end of the one before, which is answered before its markers
                # are written: the coordinator knows whether ours is still open.
                asked = None
                continue
            ended = produce_refusal(Error.TRANSACTION_ABORTABLE, version)
            late: dict[tuple[str, int], ApiError] = {
                write.place: ended
                for write, count in zip(writes, counts, strict=True)
                if write.markers_count != count
            }
            return {**late, **asked.refusals()}

    def _ask(self, request: ProduceRequest, version: int, writes: list[_Write]) -> _Asked | None:
        """None if nothing has to be asked."""
        from moldau.transactions.partition_verification import (
            REGISTERS_SINCE,
            BeforeWrite,
            before_write,
        )
        from moldau.transactions.transaction_commands import AddPartitions
        from moldau.transactions.transaction_facts import VERSION_1, VERSION_2

        transactional_id = request.transactional_id
        assert transactional_id is not None
        enabled = self._config().transaction_partition_verification_enable
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
            verify_only=not registers,
            client_version=VERSION_2 if registers else VERSION_1,
        )
        return _Asked(places, version, self._transactions.submit_partitions(command))

    def _writes_of(self, request: ProduceRequest, version: int) -> list[_Write]:
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
                    has_id = version >= TOPIC_IDS_SINCE
                    name = self._replicas.name_of(topic.topic_id) if has_id else topic.name
                    replica = self._replicas.find(name, data.index)
                    replica.partition.check_leader()
                    if replica.is_mirror:
                        continue
                except ApiError:
                    continue
                writes.append(_Write(TopicPartition(name, data.index), replica, header))
        return writes


async def _loaded(writes: list[_Write]) -> list[_Write]:
    """Those whose log knows of transactions. One that cannot be loaded is refused when it is to be
    written."""
    known = []
    for write in writes:
        with contextlib.suppress(ApiError):
            await load(write.replica)
            known.append(write)
    return known
