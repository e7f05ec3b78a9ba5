"""`moldau.aio.Producer`: the producer for asyncio.

Its blocking twin is in `blocking_producer.py`; what both do is in `producer_core.py`. A test holds
their names and arguments together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from moldau.client.consumer.consumer_records import ConsumerGroupMetadata, OffsetAndMetadata
from moldau.client.network.cluster_metadata import PartitionInfo
from moldau.client.producer.producer_base import ProducerBase
from moldau.client.producer.producer_batch import OnDelivery
from moldau.client.producer.producer_core import ProducerCore
from moldau.client.producer.producer_session import ProducerSession
from moldau.client.producer.record_future import BulkAwaitable, RecordAwaitable
from moldau.client.shared.background_loop import say_unsent
from moldau.client.shared.interceptors import ProducerRecord
from moldau.model.names import TopicPartition


class Producer(ProducerBase[RecordAwaitable]):
    """Sends records from asyncio code.

    >>> async with aio.Producer(bootstrap_servers="localhost:9092") as producer:
    ...     stored = await producer.send("orders", b"1 tea", key=b"alice")
    ...     print((await stored).offset)

    Settings are Kafka's keys, in a mapping or as keywords with underscores. It belongs to the event
    loop that first uses it; its tasks may share it."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._core = ProducerCore(RecordAwaitable, config, **settings)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordAwaitable:
        """Hand a record over; waits only for metadata and room in the buffer, up to max.block.ms.
        Await what it gives for the outcome.

        >>> stored = await producer.send("orders", b"1 tea", key=b"alice")
        >>> print((await stored).offset)

        Values and keys are bytes, text (sent as UTF-8) or what the serializers take. `headers` are
        pairs of name and bytes, or a mapping. `timestamp_ms` is the record's time, since 1970.
        `on_delivery(metadata, error)` is called on the loop.
        """
        core = self._core
        pipeline = core.pipeline
        if asyncio.get_running_loop() is not core.loop:
            await core.start()
        future = None
        if not pipeline.has_stages and partition is None:
            future = pipeline.place(topic, value, key, headers, None, timestamp_ms, on_delivery)
        if future is None:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
            future = await core.send_record(record, on_delivery)
        if not future._index:
            # The first of its batch: full batches leave while others are being filled.
            await asyncio.sleep(0)
        return future

    async def send_record(
        self, record: ProducerRecord, on_delivery: OnDelivery | None = None
    ) -> RecordAwaitable:
        """As `send`, of a record as one value."""
        return await self.send(*record, on_delivery)

    async def send_many(
        self, topic: str, values: Sequence[Any], keys: Sequence[Any] | None = None
    ) -> BulkAwaitable:
        """Send many values at once, several times faster than one by one.

        >>> stored = await producer.send_many("orders", [b"1 tea", b"2 tea"])
        >>> print(await stored)
        2

        Also takes a column of an Arrow table. Without keys they fill batch after batch.
        """
        return BulkAwaitable(*await self._core.send_many(topic, values, keys))

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until all of it is stored or given up."""
        await self._core.flush(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Flush, then let go of everything; what is not sent within `timeout` seconds fails."""
        await self._core.close(timeout)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions and who leads them."""
        return await self._core.partitions_for(topic)

    async def init_transactions(self) -> None:
        """Fence earlier producers of the transactional id and end what they left open."""
        await self._core.init_transactions()

    async def begin_transaction(self) -> None:
        """What is sent from now on is visible at once, or never."""
        await self._core.begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit consumed positions with the transaction.

        `group` is what `consumer.group_metadata()` says, or the group's name."""
        await self._core.send_offsets_to_transaction(offsets, group)

    async def commit_transaction(self) -> None:
        """Flush, then make everything of the transaction visible at once."""
        await self._core.commit_transaction()

    async def abort_transaction(self) -> None:
        """Drop what was not sent, and have readers of committed records skip the rest."""
        await self._core.abort_transaction()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin; commit at the end of the block, abort if it raises.

        >>> async with producer.transaction():
        ...     await producer.send("orders", b"1")
        """
        await self.begin_transaction()
        is_done = False
        try:
            yield self
            is_done = True
        finally:
            if not is_done and not self._core.is_fenced:
                await self.abort_transaction()
        await self.commit_transaction()

    @classmethod
    def attach(
        cls,
        session: ProducerSession,
        config: Mapping[str, Any] | None = None,
        /,
        **settings: Any,
    ) -> Self:
        """A producer that writes in another one's transaction, as that one: see `session`.

        >>> worker = aio.Producer.attach(session, bootstrap_servers="...")
        >>> await worker.send("orders", b"1"); await worker.flush()
        >>> owner.adopt(worker.session()); await owner.commit_transaction()
        """
        producer = cls.__new__(cls)
        producer._core = ProducerCore.attach(RecordAwaitable, session, config, **settings)
        return producer

    def __del__(self) -> None:
        # Not there if a setting was wrong.
        if hasattr(self, "_core"):
            say_unsent(self._core)

    async def __aenter__(self) -> Self:
        await self._core.start()
        return self

    async def __aexit__(self, *outcome: object) -> None:
        await self.close()
