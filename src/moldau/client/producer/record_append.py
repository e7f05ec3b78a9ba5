"""From `send` to the accumulator: interceptors, serializers, partitioner, buffer.

`place` is the hot path: it runs in the user's thread, takes one lock and makes nothing but the
record's row and its future. It returns None where it would have to wait, for metadata or for
memory; the faces of the producer know how to wait. The loop is woken once per batch, not once
per record.
"""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time_ns
from typing import Any, Generic, TypeVar

from moldau.client.producer.partitioners import (
    StickyChoice,
    TopicView,
    ignores_keys,
    load_partitioner,
    partition_for_key,
)
from moldau.client.producer.producer_batch import (
    RECORD_OVERHEAD_BYTES,
    OnDelivery,
    ProducerBatch,
    record_bytes,
)
from moldau.client.producer.record_accumulator import Accumulator, TopicQueues
from moldau.client.producer.record_future import RecordAwaitable, RecordFuture
from moldau.client.producer.record_values import (
    TIMESTAMP_MAX,
    checked_timestamp,
    clean,
    cleaned,
    cleaned_until,
)
from moldau.client.producer.transaction_manager import TransactionMachine, TransactionState
from moldau.client.serialization.serializers import serializer
from moldau.client.shared import client_errors as errors
from moldau.client.shared.client_errors import KafkaError, SerializationError
from moldau.client.shared.interceptors import (
    ProducerRecord,
    RecordMetadata,
    intercept,
    load_interceptors,
)
from moldau.client.shared.user_callbacks import call
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.records.batch import HEADER_BYTES

F = TypeVar("F", bound=RecordFuture | RecordAwaitable)

_IN_TRANSACTION = TransactionState.IN_TRANSACTION
_RECORD_OVERHEAD_BYTES_MAX = 21
_UNSERIALIZABLE = (
    AttributeError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    struct.error,
)


class Lane:
    """A topic that is being written to."""

    __slots__ = ("queues", "sticky", "sticky_batch", "used_ms", "view")

    def __init__(self, view: TopicView, queues: TopicQueues, sticky: StickyChoice) -> None:
        self.view = view
        self.queues = queues
        self.sticky = sticky
        self.sticky_batch: ProducerBatch | None = None
        """The batch that records without a key were put into last."""
        self.used_ms = int(monotonic() * 1000)
        """When its last batch was opened."""


class Pipeline(Generic[F]):
    """`future` is what `place` makes for each record."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        transactions: TransactionMachine | None,
        future: Callable[[ProducerBatch, int, int], F],
    ) -> None:
        given = config.given
        self._future = future
        self.accumulator = accumulator
        self.lock = threading.Lock()
        self.lanes: dict[str, Lane] = {}
        self.refusal: KafkaError | None = None
        """Set once nothing can be sent any more: closed, or a fatal error."""
        self.wake: Callable[[], None] = _nothing
        self._is_awake = False
        self._transactions = transactions
        self._serialize_key = serializer(config.key_serializer, given, is_key=True)
        self._serialize_value = serializer(config.value_serializer, given, is_key=False)
        self.interceptors = load_interceptors(config.interceptor_classes, given)
        self._partition = load_partitioner(config.partitioner_class, given)
        self._ignores_keys = config.partitioner_ignore_keys or ignores_keys(
            config.partitioner_class
        )
        self._is_adaptive = config.partitioner_adaptive_partitioning_enable
        self._record_bytes_max = (
            min(config.max_request_size, config.buffer_memory) - HEADER_BYTES
        ) - _RECORD_OVERHEAD_BYTES_MAX
        self.has_stages = bool(self.interceptors or self._serialize_key or self._serialize_value)
        """Whether records have to go through `prepare`."""

    def know(self, topic: str, partition_count: int, available: Iterable[int]) -> None:
        """The topic's metadata as of now: makes its lane, or changes it."""
        view = TopicView(topic, partition_count, tuple(available))
        with self.lock:
            queues = self.accumulator.topic_queues(topic, partition_count)
            lane = self.lanes.get(topic)
            if lane is None:
                sticky = StickyChoice(self.accumulator.batch_size_bytes, random.randrange)
                sticky.next(view)
                self.lanes[topic] = Lane(view, queues, sticky)
            else:
                lane.view = view

    def forget_idle(self, since_ms: int) -> list[str]:
        """Forget topics that nothing was sent to since then and nothing waits for."""
        with self.lock:
            busy = {batch.topic for batch in self.accumulator.incomplete}
            idle = [
                name
                for name, lane in self.lanes.items()
                if lane.used_ms < since_ms and name not in busy
            ]
            for name in idle:
                del self.lanes[name]
        return idle

    def prepare(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> tuple[Any, ...]:
        """The arguments for `place` after interceptors and serializers."""
        if self.interceptors:
            record = intercept(self.interceptors, record)
            on_delivery = self._acknowledging(on_delivery)
        topic, value, key = record.topic, record.value, record.key
        if self._serialize_key is not None:
            key = self._serialized(self._serialize_key, topic, key, "key")
        if self._serialize_value is not None:
            value = self._serialized(self._serialize_value, topic, value, "value")
        return topic, value, key, record.headers, record.partition, record.timestamp_ms, on_delivery

    def place(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> F | None:
        """Put a record into its batch; None if that has to wait for metadata or memory."""
        lane = self.lanes.get(topic)
        if lane is None or self.refusal is not None:
            self.check()
            return None
        machine = self._transactions
        if machine is not None and machine.state is not _IN_TRANSACTION:
            machine.check_send()
        if key is None and value.__class__ is bytes and not headers:
            size = RECORD_OVERHEAD_BYTES + len(value)
        else:
            value, key, headers = cleaned(value, key, headers)
            size = record_bytes(key, value, headers)
        if size > self._record_bytes_max:
            raise self._too_large(size)
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        elif timestamp_ms.__class__ is not int or not 0 <= timestamp_ms <= TIMESTAMP_MAX:
            timestamp_ms = checked_timestamp(timestamp_ms)
        if partition is None and (key is not None or self._partition is not None):
            partition = self._choose(lane, key, value)
        with self.lock:
            at = lane.sticky.partition if partition is None else partition
            batch = lane.queues.queues[at].open
            if batch is None or batch.size_bytes + size > batch.limit_bytes:
                batch = self._next_batch(lane, partition, size)
                if batch is None:
                    return None
            index = len(batch.stamps)
            batch.add(value, key, headers, timestamp_ms, size)
            if on_delivery is not None:
                batch.callbacks.append((index, timestamp_ms, on_delivery))
        if not index and not self._is_awake:
            # Outside the lock: waking the loop lets its thread run, which wants the lock.
            self._is_awake = True
            self.wake()
        # Through a name of its own: Python looks `self._future(...)` up as a method first.
        make = self._future
        return make(batch, index, timestamp_ms)

    def place_many(
        self, topic: str, values: Sequence[Any], start: int, batches: list[ProducerBatch]
    ) -> int:
        """Values without keys, from index `start` on, until a wait is needed.

        Returns the index of the first value that was not taken; `batches` gets those used."""
        lane = self.lanes.get(topic)
        if lane is None or self.refusal is not None:
            self.check()
            return start
        if self._transactions is not None:
            self._transactions.check_send()
        limit, timestamp_ms = self._record_bytes_max, time_ns() // 1_000_000
        index, end = start, len(values)
        while index < end:
            size = RECORD_OVERHEAD_BYTES + len(clean(values[index]) or b"")
            if size > limit:
                raise self._too_large(size)
            with self.lock:
                batch = lane.queues.queues[lane.sticky.partition].open
                if batch is None or batch.size_bytes + size > batch.limit_bytes:
                    batch = self._next_batch(lane, None, size)
                    if batch is None:
                        return index
                index = _fill(batch, values, index, timestamp_ms, limit)
            batches.append(batch)
            if not self._is_awake:
                self._is_awake = True
                self.wake()
        return index

    def check(self) -> None:
        """Raise if nothing can be sent any more."""
        if self.refusal is not None:
            raise self.refusal

    def close(self) -> None:
        """Tell the user's own objects that they are no longer needed."""
        stages = (self._serialize_key, self._serialize_value, self._partition)
        owners = [getattr(stage, "__self__", None) for stage in stages]
        for each in (*self.interceptors, *owners):
            if each is not None and hasattr(each, "close"):
                call(f"Closing {each!r}", each.close)

    def slept(self) -> None:
        """The loop is about to look: what is placed from now on has to wake it again."""
        self._is_awake = False

    def missing_partition(self, topic: str, partition: int | None) -> bool:
        """Whether fresh metadata may help to find the partition that a record names."""
        if partition is not None and partition < 0:
            raise ValueError(f"Invalid partition given with record: {partition}")
        lane = self.lanes.get(topic)
        return lane is not None and partition is not None and partition >= lane.view.partition_count

    def _choose(self, lane: Lane, key: bytes | None, value: bytes | None) -> int | None:
        """By the user's partitioner or the key; None: wherever records without keys go."""
        if self._partition is not None:
            chosen = self._partition(lane.view, key, value)
            if not 0 <= chosen < lane.view.partition_count:
                raise ValueError(
                    f"The partitioner chose partition {chosen} of {lane.view.topic}, which has "
                    f"{lane.view.partition_count}"
                )
            return chosen
        if key is None or self._ignores_keys:
            return None
        return partition_for_key(key, lane.view.partition_count)

    def _next_batch(self, lane: Lane, partition: int | None, size: int) -> ProducerBatch | None:
        """A batch with room, in a partition of our choice if none is given. Under the lock, where
        nobody can have closed the producer since: what is placed after that is never sent."""
        self.check()
        is_sticky = partition is None
        if is_sticky:
            last, lane.sticky_batch = lane.sticky_batch, None
            if last is not None:
                lengths = None
                if self._is_adaptive and lane.view.partition_count > 1:
                    lengths = [len(queue.batches) for queue in lane.queues.queues]
                # One that is still open ends because it is full, if not to the last byte.
                is_full = lane.queues.queues[last.partition].open is last
                size_bytes = lane.sticky.batch_size_bytes if is_full else last.size_bytes
                lane.sticky.batch_closed(size_bytes, lane.view, lengths)
            partition = lane.sticky.current(lane.view)
        assert partition is not None
        batch = lane.queues.queues[partition].open
        if batch is None or batch.size_bytes + size > batch.limit_bytes:
            is_first = batch is None
            now_ms = lane.used_ms = int(monotonic() * 1000)
            batch = self.accumulator.open_batch(lane.queues, partition, size, now_ms)
            if batch is None:
                return None
            if self._transactions is not None and is_first:
                self._transactions.add_partition(TopicPartition(lane.view.topic, partition))
        if is_sticky:
            lane.sticky_batch = batch
        return batch

    def _acknowledging(self, on_delivery: OnDelivery | None) -> OnDelivery:
        def tell(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            for interceptor in self.interceptors:
                call(f"{interceptor!r}", interceptor.on_acknowledgement, metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return tell

    def _serialized(self, serialize: Any, topic: str, data: Any, part: str) -> Any:
        try:
            return serialize(topic, data)
        except _UNSERIALIZABLE as error:
            raise SerializationError(
                f"The {part} of a record for {topic} is a {type(data).__name__} that "
                f"{part}.serializer does not take: {error}"
            ) from error

    def _too_large(self, size: int) -> KafkaError:
        return errors.error_for(
            Error.MESSAGE_TOO_LARGE,
            f"The message is {size + HEADER_BYTES} bytes when serialized which is larger than "
            f"{self._record_bytes_max + HEADER_BYTES}, the least of max.request.size and "
            "buffer.memory.",
        )


def _fill(batch: ProducerBatch, values: Sequence[Any], index: int, stamp: int, limit: int) -> int:
    """Add values while they fit; the index of the first that does not. The first one does."""
    room = batch.limit_bytes - batch.size_bytes
    first = clean(values[index])
    # Values are mostly alike, so the first tells how many to look at; all by built-ins.
    guess = max(1, room // (RECORD_OVERHEAD_BYTES + len(first or b"")))
    chunk = list(values[index : index + guess])
    if set(map(type, chunk)) != {bytes}:
        chunk = cleaned_until(chunk)
    sizes = [RECORD_OVERHEAD_BYTES + (0 if v is None else len(v)) for v in chunk]
    total = sum(sizes)
    while len(chunk) > 1 and (total > room or max(sizes) > limit):
        chunk.pop()
        total -= sizes.pop()
    if sizes[0] > limit:
        return index
    if batch.keys is None and batch.headers is None:
        batch.values += chunk
        batch.stamps += [stamp] * len(chunk)
        batch.size_bytes += total
    else:
        for value, size in zip(chunk, sizes, strict=True):
            batch.add(value, None, (), stamp, size)
    return index + len(chunk)


def _nothing() -> None:
    return None
