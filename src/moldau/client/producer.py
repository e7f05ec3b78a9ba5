"""The producer: `moldau.Producer`, safe to share between threads.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("orders", b"1 tea", key=b"alice")                    # fire and forget
        producer.send("orders", b"2 tea", key=b"bob").get(timeout=10)      # wait for it
        producer.send("orders", b"3 tea", on_delivery=lambda metadata, error: ...)

A record goes into its batch in the caller's thread; the background loop sends the batches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Self

from moldau.client.errors import KafkaTimeoutError
from moldau.client.interceptors import ProducerRecord as ProducerRecord
from moldau.client.interceptors import RecordMetadata as RecordMetadata
from moldau.client.loop_thread import blocking, is_inherited, is_loop_thread, loop_of, run
from moldau.client.producer_async import ROOM_CHECK_S, buffer_exhausted
from moldau.client.producer_async import Producer as AsyncProducer
from moldau.client.producer_batch import OnDelivery, ProducerBatch
from moldau.client.producer_delivery import Delivery
from moldau.client.producer_session import ProducerSession as ProducerSession
from moldau.model.names import TopicPartition


class BulkDelivery:
    """What `send_many` gives back: all its records together."""

    __slots__ = ("_batches", "count")

    def __init__(self, batches: list[ProducerBatch], count: int) -> None:
        self._batches = batches
        self.count = count

    def get(self, timeout: float | None = None) -> int:
        """Wait until all are stored; how many they are. Raises what became of one that is not."""
        deadline = None if timeout is None else monotonic() + timeout
        for batch in self._batches:
            landed = threading.Event()
            batch.when_done(landed.set)
            left_s = None if deadline is None else max(0.0, deadline - monotonic())
            if not landed.wait(left_s):
                raise KafkaTimeoutError(f"Not all records were acknowledged within {timeout} s")
            for leaf in batch.leaves():
                if leaf.error is not None:
                    raise leaf.error
        return self.count


class Producer:
    """Settings are Kafka's, as a mapping or as keywords with underscores for dots."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._open(AsyncProducer(config, **settings))

    def _open(self, twin: AsyncProducer) -> None:
        self._twin = twin
        self._pipeline = twin.pipeline
        self._place = twin.pipeline.place
        self._has_stages = twin.pipeline.has_stages
        self._room = threading.Condition(twin.pipeline.lock)
        self._starved = 0
        run(twin.start(), twin)
        loop, sender = loop_of(twin), twin.sender

        def wake() -> None:
            loop.call_soon_threadsafe(sender.wake)

        twin.pipeline.wake = wake
        twin.on_room = self._let_in
        self._room_bytes = twin.accumulator.buffer_memory_bytes // 4

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Hand a record over and return at once, unless metadata or room in the buffer are missing.

        Values and keys are bytes, text (sent as UTF-8) or what the serializers take. `headers` are
        pairs of name and bytes, or a mapping. `on_delivery(metadata, error)` is called on the
        background loop. Waits up to max.block.ms."""
        if self._has_stages or partition is not None:
            return self._send_staged(
                ProducerRecord(topic, value, key, headers, partition, timestamp_ms), on_delivery
            )
        delivery = self._place(topic, value, key, headers, None, timestamp_ms, on_delivery)
        if delivery is None:
            return self._send_waiting((topic, value, key, headers, None, timestamp_ms, on_delivery))
        return delivery

    def send_record(
        self, record: ProducerRecord, on_delivery: OnDelivery | None = None
    ) -> Delivery:
        """As `send`, of a record as one value."""
        return self._send_staged(record, on_delivery)

    def send_many(
        self, topic: str, values: Sequence[Any], keys: Sequence[Any] | None = None
    ) -> BulkDelivery:
        """Send many values at once, several times faster than one by one.

        Also takes a column of an Arrow table. Without keys they fill batch after batch."""
        if hasattr(values, "to_pylist"):
            values = values.to_pylist()
        if keys is not None and hasattr(keys, "to_pylist"):
            keys = keys.to_pylist()
        batches: list[ProducerBatch] = []
        if keys is not None or self._has_stages:
            last: dict[int, ProducerBatch] = {}
            for index, value in enumerate(values):
                key = None if keys is None else keys[index]
                batch = self.send(topic, value, key).batch
                last[id(batch)] = batch
            return BulkDelivery(list(last.values()), len(values))
        index, end = 0, len(values)
        deadline = monotonic() + self._twin.config.max_block_ms / 1000
        while True:
            taken = self._pipeline.place_many(topic, values, index, batches)
            if taken == end:
                return BulkDelivery(batches, end)
            if taken > index:
                deadline = monotonic() + self._twin.config.max_block_ms / 1000
            index = taken
            self._wait_for_place(topic, None, deadline)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until all of it is stored or given up."""
        run(self._twin.flush(timeout), self._twin)

    def close(self, timeout: float | None = None) -> None:
        """Flush, then let go of everything; what is not sent within `timeout` seconds fails."""
        if not is_inherited(self._twin):
            run(self._twin.close(timeout), self._twin)

    partitions_for = blocking(AsyncProducer.partitions_for)
    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = blocking(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
    commit_transaction = blocking(AsyncProducer.commit_transaction)
    end_transaction = commit_transaction
    abort_transaction = blocking(AsyncProducer.abort_transaction)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin; commit at the end of the block, abort if it raises.

        >>> with producer.transaction():                  # doctest: +SKIP
        ...     producer.send("orders", b"1")
        """
        self.begin_transaction()
        is_done = False
        try:
            yield self
            is_done = True
        finally:
            machine = self._twin.machine
            if not is_done and machine is not None and not machine.is_fatal:
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

        >>> worker = Producer.attach(session, bootstrap_servers="...")     # doctest: +SKIP
        >>> worker.send("orders", b"1"); worker.flush()                    # doctest: +SKIP
        >>> owner.adopt(worker.session()); owner.commit_transaction()      # doctest: +SKIP
        """
        producer = cls.__new__(cls)
        producer._open(AsyncProducer.attach(session, config, **settings))
        return producer

    def session(self) -> ProducerSession:
        """Who this producer is now, for `attach` and `adopt` in other processes. Flush first."""
        return self._twin.session()

    def adopt(self, session: ProducerSession) -> None:
        """Go on where another process stopped that writes with this producer's id and epoch."""
        self._twin.adopt(session)

    @property
    def producer_id(self) -> int:
        """-1 until the first record is sent or `init_transactions` is done."""
        return self._twin.producer_id

    @property
    def producer_epoch(self) -> int:
        return self._twin.producer_epoch

    @property
    def sequences(self) -> dict[TopicPartition, int]:
        """The next sequence of every partition written to in this epoch."""
        return self._twin.sequences

    def metrics(self) -> dict[str, int]:
        """Counters under Kafka's names."""
        return self._twin.metrics()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()

    def _send_staged(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> Delivery:
        args: tuple[Any, ...] = (*record, on_delivery)
        if self._has_stages:
            args = self._pipeline.prepare(record, on_delivery)
        if self._pipeline.missing_partition(args[0], args[4]):
            self._wait_for_place(args[0], args[4], self._deadline())
        return self._place(*args) or self._send_waiting(args)

    def _send_waiting(self, args: tuple[Any, ...]) -> Delivery:
        deadline = self._deadline()
        delivery = None
        while delivery is None:
            self._wait_for_place(args[0], args[4], deadline)
            delivery = self._place(*args)
        return delivery

    def _deadline(self) -> float:
        return monotonic() + self._twin.config.max_block_ms / 1000

    def _wait_for_place(self, topic: str, partition: int | None, deadline: float) -> None:
        """Until there may be a place for a record; raises when max.block.ms has passed."""
        pipeline, twin = self._pipeline, self._twin
        pipeline.check()
        if topic not in pipeline.lanes or pipeline.missing_partition(topic, partition):
            run(twin.open_topic(topic, partition, deadline), twin)
            return
        left_s = deadline - monotonic()
        if left_s <= 0:
            raise buffer_exhausted(twin.config.max_block_ms)
        if is_loop_thread():
            raise KafkaTimeoutError("The buffer is full, and a callback cannot wait for room")
        with self._room:
            twin.accumulator.hurries += 1
            self._starved += 1
        pipeline.wake()
        with self._room:
            if twin.accumulator.free_bytes < self._room_bytes:
                self._room.wait(min(ROOM_CHECK_S, left_s))
            self._starved -= 1
            twin.accumulator.hurries -= 1

    def _let_in(self) -> None:
        """On the loop: enough memory was freed to be worth waking those who wait."""
        if self._starved and self._twin.accumulator.free_bytes >= self._room_bytes:
            with self._room:
                self._room.notify_all()
