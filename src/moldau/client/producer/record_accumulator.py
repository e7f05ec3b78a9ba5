"""Where records wait until they are sent: one queue of batches per partition, and their memory.

Pure: the time is given, nobody is woken from here. The producer appends (any thread) and the
sender takes (the loop), both under the producer's lock. The last batch of a queue is the open
one, all others are full or were taken back for another attempt. Memory is counted per batch, as
Kafka's: `batch.size` is taken when a batch is opened and given back when it is done. Where records
come faster than they leave, batches may grow: fewer and larger requests are what helps then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from moldau.client.producer.producer_batch import ProducerBatch
from moldau.records.batch import HEADER_BYTES

RATIO_LEAST = 0.05
"""Batches are not made larger than so many times batch.size, however well they compress."""
RATIO_STEP = 0.05
BACKLOG = 5
"""Each time so many batches wait for one partition, the next one may be twice as large."""
GROWTH_MAX = 16


class PartitionQueue:
    __slots__ = ("batches", "in_flight", "open", "partition", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        self.in_flight = 0
        """Batches that were taken and neither done nor put back."""


class TopicQueues:
    """The queues of one topic, by partition, and how well its records compress."""

    __slots__ = ("limit_bytes", "may_grow", "queues", "ratio", "topic")

    def __init__(self, topic: str, limit_bytes: int) -> None:
        self.topic = topic
        self.queues: list[PartitionQueue] = []
        self.limit_bytes = limit_bytes
        self.may_grow = True
        """False once the broker has called a batch too large."""
        self.ratio = 1.0

    def grow(self, partition_count: int) -> None:
        for partition in range(len(self.queues), partition_count):
            self.queues.append(PartitionQueue(self.topic, partition))


class Accumulator:
    def __init__(
        self,
        *,
        batch_size_bytes: int,
        linger_ms: int,
        buffer_memory_bytes: int,
        delivery_timeout_ms: int,
        growth_bytes_max: int = 0,
    ) -> None:
        self.batch_size_bytes = max(1, min(batch_size_bytes, buffer_memory_bytes))
        self.linger_ms = linger_ms
        self.buffer_memory_bytes = buffer_memory_bytes
        self.delivery_timeout_ms = delivery_timeout_ms
        self.growth_bytes_max = min(
            growth_bytes_max, GROWTH_MAX * self.batch_size_bytes, buffer_memory_bytes // 16
        )
        """How large batches become while many wait; 0: never larger than batch.size."""
        self.free_bytes = buffer_memory_bytes
        self.topics: dict[str, TopicQueues] = {}
        self.waiting: dict[PartitionQueue, None] = {}
        """Queues that hold batches."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """Every batch whose outcome is open, in a queue or in flight."""
        self.hurries = 0
        """Reasons to send without lingering: flushes under way, senders without memory."""

    def topic_queues(self, topic: str, partition_count: int) -> TopicQueues:
        queues = self.topics.get(topic)
        if queues is None:
            queues = self.topics[topic] = TopicQueues(topic, self.batch_size_bytes)
        queues.grow(partition_count)
        return queues

    def open_batch(
        self, topic: TopicQueues, partition: int, size_bytes: int, now_ms: int
    ) -> ProducerBatch | None:
        """A new last batch, large enough for one record of that size; None without memory."""
        queue = topic.queues[partition]
        limit_bytes = topic.limit_bytes
        doublings = len(queue.batches) // BACKLOG
        if doublings and topic.may_grow and limit_bytes < self.growth_bytes_max:
            limit_bytes = min(limit_bytes << min(doublings, 8), self.growth_bytes_max)
        need_bytes = max(limit_bytes, HEADER_BYTES + size_bytes)
        if need_bytes > self.free_bytes:
            return None
        self.free_bytes -= need_bytes
        batch = ProducerBatch(topic.topic, partition, limit_bytes, now_ms)
        batch.reserved_bytes = need_bytes
        queue.open = batch
        queue.batches.append(batch)
        self.waiting[queue] = None
        self.incomplete[batch] = None
        return batch

    def ready_at(self, queue: PartitionQueue, now_ms: int) -> int:
        """When its first batch may be sent: a time that has come, or one to wake up at."""
        head = queue.batches[0]
        if head.retry_at_ms > now_ms:
            return head.retry_at_ms
        if head is not queue.open or self.hurries or head.size_bytes >= head.limit_bytes:
            return now_ms
        return head.created_ms + self.linger_ms

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """The first batch, which is closed by this."""
        batch = queue.batches.popleft()
        if batch is queue.open:
            queue.open = None
        if not queue.batches:
            del self.waiting[queue]
        if not batch.record_count:
            batch.seal()
        queue.in_flight += 1
        return batch

    def put_back(self, batch: ProducerBatch, retry_at_ms: int) -> None:
        """For another attempt: before everything that was not sent yet, in order of sequence."""
        batch.retry_at_ms = retry_at_ms
        self.queue_of(batch).in_flight -= 1
        self._insert(batch)

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Its records in batches of batch.size, to be sent next; it is done when they are."""
        topic = self.topics[batch.topic]
        topic.ratio, topic.limit_bytes, topic.may_grow = 1.0, self.batch_size_bytes, False
        limit_bytes = self.batch_size_bytes
        if batch.size_bytes <= limit_bytes:
            limit_bytes = max(1, batch.size_bytes // 2)
        parts = batch.split(limit_bytes)
        parts[0].reserved_bytes, batch.reserved_bytes = batch.reserved_bytes, 0
        self.queue_of(batch).in_flight -= 1
        del self.incomplete[batch]
        for part in reversed(parts):
            part.retry_at_ms = 0
            self._insert(part)
            self.incomplete[part] = None
        return parts

    def release(self, batch: ProducerBatch) -> None:
        """The outcome of a batch that was taken is known: its memory is free again."""
        if batch in self.incomplete:
            del self.incomplete[batch]
            self.free_bytes += batch.reserved_bytes
            self.queue_of(batch).in_flight -= 1

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Batches that waited for delivery.timeout.ms, taken out of their queues."""
        oldest_ms = now_ms - self.delivery_timeout_ms
        late: list[ProducerBatch] = []
        for queue in list(self.waiting):
            while queue.batches and queue.batches[0].created_ms <= oldest_ms:
                late.append(self.take(queue))
        return late

    def drop_all(self) -> list[ProducerBatch]:
        """Every batch that is not in flight, for an abort or a forced close."""
        dropped: list[ProducerBatch] = []
        for queue in list(self.waiting):
            while queue.batches:
                dropped.append(self.take(queue))
        return dropped

    def compressed(self, batch: ProducerBatch, encoded_bytes: int) -> None:
        """Let batches of the topic grow as far as their compressed size allows."""
        topic = self.topics[batch.topic]
        observed = max(encoded_bytes / max(batch.size_bytes, 1), RATIO_LEAST)
        if observed > topic.ratio:
            topic.ratio = min(observed, 1.0)
        else:
            topic.ratio = max(observed, topic.ratio - RATIO_STEP)
        # Few large batches must not hold all the memory.
        most_bytes = max(self.batch_size_bytes, self.buffer_memory_bytes // 16)
        topic.limit_bytes = min(int(self.batch_size_bytes / topic.ratio), most_bytes)

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        return self.topics[batch.topic].queues[batch.partition]

    def queues(self) -> Iterator[PartitionQueue]:
        for topic in self.topics.values():
            yield from topic.queues

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self.queue_of(batch)
        index = 0
        if batch.has_sequence:
            for other in queue.batches:
                if not other.has_sequence or not _precedes(other, batch):
                    break
                index += 1
        queue.batches.insert(index, batch)
        self.waiting[queue] = None


def _precedes(one: ProducerBatch, other: ProducerBatch) -> bool:
    """By sequence, which starts again at 0 after 2^31 - 1."""
    return 0 < (other.base_sequence - one.base_sequence) % (1 << 31) < 1 << 30
