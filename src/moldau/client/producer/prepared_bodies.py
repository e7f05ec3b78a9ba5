"""Whole bodies of batches through the producer: for those who make them by the thousand records.

`send_body` puts a body that is ready, and compressed as the producer is set to, behind what waits
for its partition. Order, retries, sequences and transactions are those of every other batch; only
a broker that finds it too large cannot be helped by splitting it.
"""

from __future__ import annotations

from time import monotonic
from typing import NamedTuple

from moldau.client.producer.blocking_producer import Producer
from moldau.client.producer.producer_batch import ProducerBatch
from moldau.client.producer.producer_core import buffer_exhausted
from moldau.client.producer.record_accumulator import TopicQueues
from moldau.client.shared.client_errors import KafkaError
from moldau.model.names import TopicPartition


class Body(NamedTuple):
    payload: bytes
    """The records, compressed by the producer's codec."""
    record_count: int
    base_timestamp: int
    max_timestamp: int


class BodyBatch(ProducerBatch):
    """A batch whose records nobody looks at again."""

    __slots__ = ()

    can_split = False


def send_body(producer: Producer, topic: str, partition: int, body: Body) -> ProducerBatch:
    """Hand a body over; waits for metadata and room as `send` does, up to max.block.ms."""
    pipeline, core = producer._pipeline, producer._core
    max_block_ms = core.config.max_block_ms
    deadline = monotonic() + max_block_ms / 1000
    machine = core.machine
    if machine is not None:
        machine.check_send()
    while True:
        pipeline.check()
        lane = pipeline.lanes.get(topic)
        if lane is not None and not pipeline.missing_partition(topic, partition):
            with pipeline.lock:
                batch = _enqueue(producer, lane.queues, partition, body)
                if batch is not None:
                    lane.used_ms = batch.created_ms
            if batch is not None:
                pipeline.wake()
                return batch
        if monotonic() > deadline:
            raise buffer_exhausted(max_block_ms)
        producer._wait_for_place(topic, partition, deadline)


def _enqueue(
    producer: Producer, topic: TopicQueues, partition: int, body: Body
) -> ProducerBatch | None:
    """Behind everything that waits; None without memory. Under the lock."""
    accumulator, machine = producer._core.accumulator, producer._core.machine
    if len(body.payload) > accumulator.buffer_memory_bytes // 2:
        raise KafkaError(
            f"A batch of {len(body.payload)} bytes does not fit into buffer.memory "
            f"({accumulator.buffer_memory_bytes} bytes) beside another"
        )
    queue = topic.queues[partition]
    queue.open = None
    if len(body.payload) > accumulator.free_bytes:
        return None
    accumulator.free_bytes -= len(body.payload)
    batch = BodyBatch(topic.topic, partition, len(body.payload), int(monotonic() * 1000))
    batch.reserved_bytes = len(body.payload)
    batch.size_bytes += len(body.payload)
    batch.payload = body.payload
    batch.record_count = body.record_count
    batch.stamps = [body.base_timestamp, body.max_timestamp]
    queue.batches.append(batch)
    accumulator.waiting[queue] = None
    accumulator.incomplete[batch] = None
    if machine is not None:
        machine.add_partition(TopicPartition(topic.topic, partition))
    return batch
