"""Records that travel to one partition together, and what becomes of them.

Pure: the accumulator fills a batch, the sender gives it a producer id and a sequence, encodes it
once per attempt and completes it. Everybody who waits for one of its records holds the batch and
the record's index, so that nothing is made per record unless somebody asks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import cast

from moldau.client.shared.interceptors import RecordMetadata
from moldau.client.shared.user_callbacks import call
from moldau.model.names import TopicPartition
from moldau.records import batch_kernel
from moldau.records.batch import (
    HEADER_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from moldau.records.batch_codec import assemble
from moldau.records.compression import Codec, compress

RECORD_OVERHEAD_BYTES = 12
"""Lengths, deltas and attributes of a usual record; a few bytes more for very large ones."""
SEQUENCE_MASK = 0x7FFFFFFF
"""Sequences run to 2^31 - 1 and start again at 0."""

UNENCODABLE = (
    ArithmeticError,
    AttributeError,
    BufferError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)
"""What `encode` may raise where a record holds what no record can."""

OnDelivery = Callable[[RecordMetadata | None, BaseException | None], object]
Callback = tuple[int, int, OnDelivery]
"""Index and timestamp of a record, and whom to tell of it."""


def record_bytes(key: bytes | None, value: bytes | None, headers: batch_kernel.Headers) -> int:
    size = RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += len(name) + 4 + (0 if content is None else len(content))
    return size


class ProducerBatch:
    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "callbacks",
        "created_ms",
        "error",
        "headers",
        "is_done",
        "is_transactional",
        "keys",
        "limit_bytes",
        "log_append_time_ms",
        "partition",
        "payload",
        "producer_epoch",
        "producer_id",
        "record_count",
        "reserved_bytes",
        "retry_at_ms",
        "size_bytes",
        "split_into",
        "stamps",
        "topic",
        "values",
        "waiters",
    )
    can_split = True
    """Whether its records can be put into smaller batches."""

    def __init__(self, topic: str, partition: int, limit_bytes: int, created_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.limit_bytes = limit_bytes
        self.created_ms = created_ms
        # Columns: a value and a time is all that most records have, and a tuple for each would
        # cost more than both.
        self.values: list[bytes | None] = []
        self.stamps: list[int] = []
        self.keys: list[bytes | None] | None = None
        self.headers: list[batch_kernel.Headers] | None = None
        """These two are None while no record has one."""
        self.record_count = 0
        """Set when the batch is taken to be sent: from then on nothing is added."""
        self.size_bytes = HEADER_BYTES
        self.reserved_bytes = 0
        self.attempts = 0
        self.retry_at_ms = 0
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.is_transactional = False
        self.payload: bytes | None = None
        self.callbacks: list[Callback] = []
        self.waiters: list[Callable[[], object]] = []
        self.is_done = False
        self.base_offset = -1
        self.log_append_time_ms = NO_TIMESTAMP
        self.error: BaseException | None = None
        self.split_into: list[ProducerBatch] = []

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def sequence_end(self) -> int:
        """The sequence of the record that would follow."""
        return (self.base_sequence + self.record_count) & SEQUENCE_MASK

    def add(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: batch_kernel.Headers,
        stamp: int,
        size_bytes: int,
    ) -> None:
        if key is not None or self.keys is not None:
            keys = self.keys
            if keys is None:
                keys = self.keys = list(repeat(None, len(self.values)))
            keys.append(key)
        if headers or self.headers is not None:
            rows = self.headers
            if rows is None:
                rows = self.headers = list(repeat((), len(self.values)))
            rows.append(headers)
        self.values.append(value)
        self.stamps.append(stamp)
        self.size_bytes += size_bytes

    def rows(self) -> Iterator[batch_kernel.Row]:
        """The records as the kernel takes them."""
        return zip(
            repeat(0),
            self.stamps,
            self.keys or repeat(None),
            self.values,
            self.headers or repeat(()),
            strict=False,
        )

    def seal(self) -> None:
        """Nothing is added from now on."""
        self.record_count = len(self.values)

    def set_producer(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence

    def encode(self, codec: Codec, level: int | None) -> bytearray:
        """The batch as it goes to the broker; the body is made and compressed only once."""
        count, base_timestamp = self.record_count, self.stamps[0]
        if self.payload is None:
            rows = cast(Sequence[batch_kernel.Row], self.rows())  # Only ever iterated over.
            body = batch_kernel.write_records(rows, base_timestamp, range(count))
            self.payload = compress(codec, body, level)
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC_V2,
            crc=0,
            attributes=codec | (TRANSACTIONAL_FLAG if self.is_transactional else 0),
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max(self.stamps),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=count,
        )
        return assemble(header, self.payload)

    def complete(self, base_offset: int, log_append_time_ms: int) -> bool:
        """Stored. False if the outcome was decided before."""
        if self.is_done:
            return False
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()
        return True

    def fail(self, error: BaseException) -> bool:
        if self.is_done:
            return False
        self.error = error
        self._finish()
        return True

    def tell(self) -> None:
        """Run the callbacks of its records, each once; the outcome must be known."""
        callbacks, self.callbacks = self.callbacks, []
        for index, timestamp, callback in callbacks:
            known = None if self.error is not None else self.metadata(index, timestamp)
            call(f"A callback for {self.topic_partition}", callback, known, self.error)

    def disown(self, error: BaseException) -> None:
        """In a forked child: the records are the parent's, and so is who waits for them."""
        self.callbacks, self.waiters = [], []
        self.fail(error)

    def metadata(self, index: int, timestamp: int) -> RecordMetadata:
        """Of the record at `index`, once it is stored."""
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        if self.log_append_time_ms != NO_TIMESTAMP:
            timestamp = self.log_append_time_ms
        return RecordMetadata(self.topic, self.partition, offset, timestamp)

    def locate(self, index: int) -> tuple[ProducerBatch, int]:
        """The batch that the record is in now, and its index there."""
        batch = self
        while batch.split_into:
            for part in batch.split_into:
                if index < part.record_count:
                    batch = part
                    break
                index -= part.record_count
        return batch, index

    def leaves(self) -> Iterator[ProducerBatch]:
        """The batches that its records are in now: itself, unless it was split."""
        if not self.split_into:
            yield self
        for part in self.split_into:
            yield from part.leaves()

    def when_done(self, waiter: Callable[[], object]) -> None:
        """Call once the outcome is known, at once if it is. May be called from any thread, so a
        waiter may in rare cases be called twice."""
        self.waiters.append(waiter)
        if self.is_done:
            call(f"A waiter for {self.topic_partition}", waiter)

    def split(self, limit_bytes: int) -> list[ProducerBatch]:
        """The same records in smaller batches; this one is done when they are."""
        parts: list[ProducerBatch] = []
        part: ProducerBatch | None = None
        for _, stamp, key, value, headers in self.rows():
            size = record_bytes(key, value, headers)
            if part is None or part.size_bytes + size > limit_bytes:
                part = ProducerBatch(self.topic, self.partition, limit_bytes, self.created_ms)
                part.is_transactional = self.is_transactional
                parts.append(part)
            part.add(value, key, headers, stamp, size)
        sequence = self.base_sequence
        for part in parts:
            part.seal()
            if self.has_sequence:
                part.set_producer(self.producer_id, self.producer_epoch, sequence)
                sequence = part.sequence_end
        self._hand_over_callbacks(parts)
        self.split_into = parts
        for part in parts:
            part.when_done(self._part_is_done)
        return parts

    def _hand_over_callbacks(self, parts: list[ProducerBatch]) -> None:
        callbacks, self.callbacks = self.callbacks, []
        start = 0
        for part in parts:
            end = start + part.record_count
            part.callbacks = [
                (index - start, timestamp, callback)
                for index, timestamp, callback in callbacks
                if start <= index < end
            ]
            start = end

    def _part_is_done(self) -> None:
        if all(part.is_done for part in self.split_into) and not self.is_done:
            self._finish()

    def _finish(self) -> None:
        self.is_done = True
        self.values, self.stamps, self.keys, self.headers = [], [], None, None
        self.payload = None
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            call(f"A waiter for {self.topic_partition}", waiter)
