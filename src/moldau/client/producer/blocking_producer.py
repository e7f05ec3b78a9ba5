"""`moldau.Producer`: the producer for everybody without an event loop; threads may share one.

A record goes into its batch in the caller's thread; the background loop sends the batches. The
asyncio twin is in `asyncio_producer.py`; what both do is in `producer_core.py`. A test holds their
names and arguments together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Self

from moldau.client.consumer.consumer_records import ConsumerGroupMetadata, OffsetAndMetadata
from moldau.client.network.cluster_metadata import PartitionInfo
from moldau.client.producer.producer_base import ProducerBase
from moldau.client.producer.producer_batch import OnDelivery, ProducerBatch
from moldau.client.producer.producer_core import (
    ROOM_CHECK_S,
    ProducerCore,
    as_list,
    buffer_exhausted,
)
from moldau.client.producer.producer_session import ProducerSession
from moldau.client.producer.record_append import Pipeline
from moldau.client.producer.record_future import BulkFuture, RecordFuture
from moldau.client.shared.background_loop import (
    abandon,
    is_inherited,
    is_loop_thread,
    loop_of,
    run,
)
from moldau.client.shared.client_errors import KafkaTimeoutError
from moldau.client.shared.interceptors import ProducerRecord
from moldau.model.names import TopicPartition


class BufferRoom:
    """Threads that wait for memory of the producer's buffer."""

    def __init__(self, pipeline: Pipeline[RecordFuture]) -> None:
        self._changed = threading.Condition(pipeline.lock)
        self._accumulator = pipeline.accumulator
        self._worth_bytes = pipeline.accumulator.buffer_memory_bytes // 4
        """Less than this is not worth waking anybody."""
        self._starved = 0

    def ask(self) -> None:
        """Have batches sent without lingering, until `wait` is over."""
        with self._changed:
            self._accumulator.hurries += 1
            self._starved += 1

    def wait(self, seconds: float) -> None:
        with self._changed:
            if self._accumulator.free_bytes < self._worth_bytes:
                self._changed.wait(seconds)
            self._starved -= 1
            self._accumulator.hurries -= 1

    def let_in(self) -> None:
        """On the loop: memory was freed."""
        if self._starved and self._accumulator.free_bytes >= self._worth_bytes:
            with self._changed:
                self._changed.notify_all()


class Producer(ProducerBase[RecordFuture]):
    """Sends records; threads may share one.

    >>> with Producer(bootstrap_servers="localhost:9092") as producer:
    ...     producer.send("orders", b"1 tea", key=b"alice")  # fire and forget
    ...     print(producer.send("orders", b"2 tea", key=b"bob").result(timeout=10).offset)

    Settings are Kafka's keys, in a mapping or as keywords with underscores."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._open(ProducerCore(RecordFuture, config, **settings))

    def _open(self, core: ProducerCore[RecordFuture]) -> None:
        self._core = core
        self._pipeline = core.pipeline
        self._place = core.pipeline.place
        self._has_stages = core.pipeline.has_stages
        room = self._room = BufferRoom(core.pipeline)
        run(core.start(), core)
        loop, sender = loop_of(core), core.sender

        def wake() -> None:
            loop.call_soon_threadsafe(sender.wake)

        core.pipeline.wake = wake
        # Not a method of this object: what the loop holds must not keep it from being dropped.
        core.on_room = room.let_in

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Hand a record over; waits only for metadata and room in the buffer, up to max.block.ms.
        What it gives is a `concurrent.futures.Future` of the outcome.

        >>> stored = producer.send("orders", b"1 tea", key=b"alice")
        >>> print(stored.result(timeout=10).offset)

        Values and keys are bytes, text (sent as UTF-8) or what the serializers take. `headers` are
        pairs of name and bytes, or a mapping. `timestamp_ms` is the record's time, since 1970.
        `on_delivery(metadata, error)` is called on the background loop.
        """
        if self._has_stages or partition is not None:
            return self._send_staged(
                ProducerRecord(topic, value, key, headers, partition, timestamp_ms), on_delivery
            )
        future = self._place(topic, value, key, headers, None, timestamp_ms, on_delivery)
        if future is None:
            return self._send_waiting((topic, value, key, headers, None, timestamp_ms, on_delivery))
        return future

    def send_record(
        self, record: ProducerRecord, on_delivery: OnDelivery | None = None
    ) -> RecordFuture:
        """As `send`, of a record as one value."""
        return self._send_staged(record, on_delivery)

    def send_many(
        self, topic: str, values: Sequence[Any], keys: Sequence[Any] | None = None
    ) -> BulkFuture:
        """Send many values at once, several times faster than one by one.

        >>> stored = producer.send_many("orders", [b"1 tea", b"2 tea"])
        >>> print(stored.result(timeout=10))
        2

        Also takes a column of an Arrow table. Without keys they fill batch after batch.
        """
        values = as_list(values)
        batches: list[ProducerBatch] = []
        if keys is not None or self._has_stages:
            given = [None] * len(values) if keys is None else as_list(keys)
            sent = (
                self.send(topic, value, key)._batch
                for value, key in zip(values, given, strict=True)
            )
            return BulkFuture(list(dict.fromkeys(sent)), len(values))
        index, end = 0, len(values)
        deadline = self._deadline()
        while True:
            taken = self._pipeline.place_many(topic, values, index, batches)
            if taken == end:
                return BulkFuture(batches, end)
            if taken > index:
                deadline = self._deadline()
            index = taken
            self._wait_for_place(topic, None, deadline)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until all of it is stored or given up."""
        run(self._core.flush(timeout), self._core)

    def close(self, timeout: float | None = None) -> None:
        """Flush, then let go of everything; what is not sent within `timeout` seconds fails."""
        if not is_inherited(self._core):
            run(self._core.close(timeout), self._core)

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions and who leads them."""
        return run(self._core.partitions_for(topic), self._core)

    def init_transactions(self) -> None:
        """Fence earlier producers of the transactional id and end what they left open."""
        run(self._core.init_transactions(), self._core)

    def begin_transaction(self) -> None:
        """What is sent from now on is visible at once, or never."""
        run(self._core.begin_transaction(), self._core)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit consumed positions with the transaction.

        `group` is what `consumer.group_metadata()` says, or the group's name."""
        run(self._core.send_offsets_to_transaction(offsets, group), self._core)

    def commit_transaction(self) -> None:
        """Flush, then make everything of the transaction visible at once."""
        run(self._core.commit_transaction(), self._core)

    def abort_transaction(self) -> None:
        """Drop what was not sent, and have readers of committed records skip the rest."""
        run(self._core.abort_transaction(), self._core)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin; commit at the end of the block, abort if it raises.

        >>> with producer.transaction():
        ...     producer.send("orders", b"1")
        """
        self.begin_transaction()
        is_done = False
        try:
            yield self
            is_done = True
        finally:
            if not is_done and not self._core.is_fenced:
                self.abort_transaction()
        self.commit_transaction()

    @classmethod
    def attach(
        cls,
        session: ProducerSession,
        config: Mapping[str, Any] | None = None,
        /,
        **settings: Any,
    ) -> Self:
        """A producer that writes in another one's transaction, as that one: see `session`.

        >>> worker = Producer.attach(session, bootstrap_servers="...")
        >>> worker.send("orders", b"1"); worker.flush()
        >>> owner.adopt(worker.session()); owner.commit_transaction()
        """
        producer = cls.__new__(cls)
        producer._open(ProducerCore.attach(RecordFuture, session, config, **settings))
        return producer

    def __del__(self) -> None:
        # Not there if a setting was wrong.
        if hasattr(self, "_core"):
            abandon(self._core)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()

    def _send_staged(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> RecordFuture:
        args: tuple[Any, ...] = (*record, on_delivery)
        if self._has_stages:
            args = self._pipeline.prepare(record, on_delivery)
        if self._pipeline.missing_partition(args[0], args[4]):
            self._wait_for_place(args[0], args[4], self._deadline())
        return self._place(*args) or self._send_waiting(args)

    def _send_waiting(self, args: tuple[Any, ...]) -> RecordFuture:
        deadline = self._deadline()
        future = None
        while future is None:
            self._wait_for_place(args[0], args[4], deadline)
            future = self._place(*args)
        return future

    def _deadline(self) -> float:
        return monotonic() + self._core.config.max_block_ms / 1000

    def _wait_for_place(self, topic: str, partition: int | None, deadline: float) -> None:
        """Until there may be a place for a record; raises when max.block.ms has passed."""
        pipeline, core = self._pipeline, self._core
        pipeline.check()
        if topic not in pipeline.lanes or pipeline.missing_partition(topic, partition):
            run(core.open_topic(topic, partition, deadline), core)
            return
        left_s = deadline - monotonic()
        if left_s <= 0:
            raise buffer_exhausted(core.config.max_block_ms)
        if is_loop_thread():
            raise KafkaTimeoutError("The buffer is full, and a callback cannot wait for room")
        room = self._room
        room.ask()
        pipeline.wake()
        room.wait(min(ROOM_CHECK_S, left_s))
