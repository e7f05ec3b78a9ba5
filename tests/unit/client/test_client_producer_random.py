"""Random losses between the accumulator and a model of a leader: each record once, in order.

The leadership moves to other brokers, which have all that was stored; requests to the old one may
stay without an answer for long while the new one is written to. The leader follows Kafka's rules
for sequences: it remembers five batches of a producer, drops what it has, refuses gaps, takes any
first sequence of a producer it does not know, and wants 0 in a new epoch. A failure prints its
seed.
"""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from moldau.client.producer.producer_batch import ProducerBatch, record_bytes
from moldau.client.producer.record_accumulator import Accumulator
from moldau.client.producer.sequence_numbers import SequenceBook
from moldau.model.errors import Error
from tests.support import seeds

RECORDS = 600
IN_FLIGHT_MAX = 5
COUNT_MAX = 8
"""The leader calls batches of more records too large."""


class Leader:
    def __init__(self) -> None:
        self.log: list[bytes | None] = []
        self.epoch: int | None = None
        self.next_sequence = 0
        self.recent: deque[tuple[int, int]] = deque(maxlen=5)

    def append(self, sent: tuple[int, int, list[bytes | None]]) -> Error:
        epoch, sequence, values = sent
        if len(values) > COUNT_MAX:
            return Error.MESSAGE_TOO_LARGE
        if self.epoch is not None and epoch < self.epoch:
            return Error.INVALID_PRODUCER_EPOCH
        if epoch == self.epoch and (sequence, len(values)) in self.recent:
            return Error.NONE
        if self.epoch is not None:
            expected = self.next_sequence if epoch == self.epoch else 0
            if sequence != expected:
                return Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        if epoch != self.epoch:
            self.recent.clear()
        self.epoch = epoch
        self.next_sequence = sequence + len(values)
        self.recent.append((sequence, len(values)))
        self.log += values
        return Error.NONE


Request = tuple[ProducerBatch, tuple[int, int, list[bytes | None]]]


class World:
    """One partition, one connection to its leader; a request is what was sent, not what the batch
    became."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.leader = Leader()
        self.box = Accumulator(
            batch_size_bytes=self.random.choice((60, 200)),
            linger_ms=0,
            buffer_memory_bytes=1 << 20,
            delivery_timeout_ms=1 << 30,
        )
        self.book = SequenceBook()
        self.book.set_identity(1, 0)
        self.topic = self.box.topic_queues("t", 1)
        self.wire: deque[Request] = deque()
        self.stranded: list[list[Request]] = []
        """Requests to brokers that led before and do not answer."""

    def place(self, value: bytes) -> None:
        size = record_bytes(None, value, ())
        batch = self.topic.queues[0].open
        if batch is None or batch.size_bytes + size > batch.limit_bytes:
            batch = self.box.open_batch(self.topic, 0, size, 0)
        assert batch is not None
        batch.add(value, None, (), 0, size)

    def send(self) -> None:
        self.book.bump_if_broken()
        queue = self.topic.queues[0]
        while queue.batches and len(self.wire) < IN_FLIGHT_MAX:
            if not self.book.may_send(queue.batches[0]):
                return
            batch = self.box.take(queue)
            self.book.assign(batch)
            image = (batch.producer_epoch, batch.base_sequence, list(batch.values))
            self.wire.append((batch, image))

    def answer(self) -> None:
        """The oldest request arrives and is answered, perhaps by somebody who does not lead."""
        batch, image = self.wire.popleft()
        error = Error.NOT_LEADER_OR_FOLLOWER
        if self.random.random() > 0.1:
            error = self.leader.append(image)
        if error is Error.NONE:
            self.book.acked(batch, 0)
            self.box.release(batch)
            batch.complete(0, -1)
        elif error is Error.MESSAGE_TOO_LARGE:
            self.book.replace(batch, self.box.split(batch))
        else:
            self.refused(batch, error)

    def disconnect(self) -> None:
        """Some of the requests under way still arrive; no answer does."""
        self.move()
        self.give_up()

    def move(self) -> None:
        """Another broker leads from now on, and the client knows. Some of the requests to the old
        one were stored before; of none is it known."""
        arriving = min(self.random.randint(0, 2 * IN_FLIGHT_MAX), len(self.wire))
        for _, image in list(self.wire)[:arriving]:
            self.leader.append(image)
        self.stranded.append(list(self.wire))
        self.wire.clear()

    def give_up(self) -> None:
        """The connection to a broker that led before breaks at last."""
        lost = self.stranded.pop(self.random.randrange(len(self.stranded)))
        for batch, _ in lost:
            self.refused(batch, Error.NETWORK_EXCEPTION)

    def refused(self, batch: ProducerBatch, error: Error) -> None:
        if error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
            assert self.book.retries_sequence_error(batch, error)
        else:
            assert error in (Error.NOT_LEADER_OR_FOLLOWER, Error.NETWORK_EXCEPTION)
        self.box.put_back(batch, 0)


@pytest.mark.parametrize("seed", seeds.parameters(200))
def test_each_record_is_stored_once_and_in_order_whatever_is_lost(seed: int) -> None:
    world = World(seed)
    sent = [b"%d" % n for n in range(RECORDS)]
    waiting = deque(sent)
    for _ in range(100_000):
        if waiting and world.random.random() < 0.7:
            for _ in range(world.random.randint(1, 20)):
                if waiting:
                    world.place(waiting.popleft())
        world.send()
        if world.stranded and (not world.wire or world.random.random() < 0.05):
            world.give_up()
        elif world.wire:
            chance = world.random.random()
            if chance < 0.05:
                world.move()
            elif chance < 0.1:
                world.disconnect()
            else:
                world.answer()
        elif not waiting and not world.box.incomplete:
            break
    assert world.leader.log == sent
    assert world.book.producer_epoch == 0
    assert world.box.free_bytes == 1 << 20
