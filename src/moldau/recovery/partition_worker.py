"""One partition in a thread of its own: fence, restore, then transaction after transaction.

Records come through a bounded queue. `stop` drops what waits there; the transaction under way is
ended. After any fault the worker is over, and a new one begins again with fencing: a state that
has the effect of an aborted transaction must not be used any more.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, TypeVar

from moldau.client.consumer.blocking_consumer import Consumer
from moldau.client.consumer.consumer_records import ConsumerGroupMetadata, ConsumerRecord
from moldau.client.producer.blocking_producer import Producer
from moldau.model.names import TopicPartition
from moldau.recovery.application import Application, FullSnapshots, Topics
from moldau.recovery.full_writer import FullUnderway, FullWriter
from moldau.recovery.last_record import last_record, read_full
from moldau.recovery.recovery_machine import Begin, Kind, LoadFull, RecoveryMachine
from moldau.recovery.snapshot_records import Increment

S = TypeVar("S")
log = logging.getLogger("moldau.recovery")
Observe = Callable[[str, TopicPartition], None]
STEP_SECONDS = 0.5
CLOSE_SECONDS = 2.0
FULL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class WorkerParts(Generic[S]):
    """What all workers of a process have in common."""

    application: Application[S]
    topics: Topics
    fulls: FullSnapshots
    reading: Mapping[str, Any]
    """Settings of a consumer that is no member of the group, but knows its offsets."""
    writing: Mapping[str, Any]
    """Settings of a transactional producer, without its id."""
    writer: FullWriter
    group: Callable[[], ConsumerGroupMetadata]
    observe: Observe
    batch: int
    """Records of one transaction at most."""
    wake: Callable[[], None]
    """Called from any thread when there is something for the main loop to see."""


class PartitionWorker(Generic[S]):
    def __init__(
        self, parts: WorkerParts[S], partition: TopicPartition, transactional_id: str
    ) -> None:
        self.partition = partition
        self._parts = parts
        self._id = transactional_id
        self._machine = RecoveryMachine(parts.fulls, str(partition), monotonic())
        self._changed = threading.Condition()
        self._queue: deque[ConsumerRecord] = deque()
        self._is_stopping = False
        self._takes_last_full = False
        self._begin: int | None = None
        self.is_held = False
        """Set while nothing is read for it because enough is queued."""
        self._state: S
        self._full: FullUnderway | None = None

    # For the main loop.

    def put(self, records: Sequence[ConsumerRecord]) -> None:
        with self._changed:
            if not self._is_stopping:
                self._queue.extend(records)
                self._changed.notify()

    @property
    def waiting(self) -> int:
        """How many records are queued."""
        return len(self._queue)

    def stop(self, *, with_full: bool = False) -> None:
        """Drop what is queued and end after the transaction under way; `with_full`: after a last
        full snapshot too."""
        with self._changed:
            self._is_stopping = True
            self._takes_last_full = with_full
            self._queue.clear()
            self._changed.notify()

    def take_begin(self) -> int | None:
        """Where to read from, told once, when the state is loaded."""
        begin, self._begin = self._begin, None
        return begin

    # The thread.

    def run(self) -> None:
        settings = {**self._parts.writing, "transactional.id": self._id}
        producer = Producer(settings)
        try:
            self._step("fence")
            producer.init_transactions()
            self._machine.fenced()
            self._restore()
            while records := self._next_records():
                self._replay_or_process(producer, records)
                self._take_full()
            if self._takes_last_full:
                self._last_full(producer)
        finally:
            # What is open is aborted by whoever fences this one.
            producer.close(CLOSE_SECONDS)
            self._parts.wake()

    def _step(self, name: str) -> None:
        self._parts.observe(name, self.partition)

    def _restore(self) -> None:
        topics, number, machine = self._parts.topics, self.partition.partition, self._machine
        with Consumer(self._parts.reading) as consumer:
            self._step("find")
            committed = consumer.committed([self.partition])[self.partition]
            last = last_record(consumer, TopicPartition(topics.increments, number))
            start = consumer.beginning_offsets([self.partition])[self.partition]
            step = machine.found(
                Increment.decoded(last.value if last else None),
                committed.offset if committed else None,
                start,
            )
            self._state = self._parts.application.initial()
            while isinstance(step, LoadFull):
                self._step("load")
                step = self._load(consumer, TopicPartition(topics.fulls, number), step.position)
        self._step("begin")
        self._begin = step.offset
        self._parts.wake()

    def _load(self, consumer: Consumer, fulls: TopicPartition, position: int) -> LoadFull | Begin:
        found = read_full(consumer, fulls, position)
        if found is None:
            log.warning("%s has no whole full snapshot at offset %d", fulls, position)
            return self._machine.not_loaded()
        start, data = found
        try:
            state = self._parts.application.load(data)
        except ValueError as error:
            log.warning("The full snapshot in %s at offset %d: %s", fulls, position, error)
            return self._machine.not_loaded()
        step = self._machine.loaded(start)
        if isinstance(step, Begin) and step.offset == start + 1:
            self._state = state
        return step

    def _next_records(self) -> list[ConsumerRecord]:
        """Some that were queued; none when it is time to stop."""
        limit = self._parts.batch
        with self._changed:
            while not self._queue and not self._is_stopping:
                self._changed.wait(STEP_SECONDS)
            taken = [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]
            is_low = len(self._queue) < limit
        if is_low and self.is_held:
            self._parts.wake()
        return taken

    def _replay_or_process(self, producer: Producer, records: Sequence[ConsumerRecord]) -> None:
        machine, apply = self._machine, self._parts.application.apply
        fresh: list[ConsumerRecord] = []
        for record in records:
            kind = machine.kind(record.offset)
            if kind is Kind.NEW:
                fresh.append(record)
            elif kind is Kind.REPLAY:
                self._step("replay")
                for _ in apply(self._state, record):
                    pass  # Written by the predecessor.
                machine.applied(record.offset)
        if fresh:
            self._transaction(producer, fresh)

    def _transaction(self, producer: Producer, records: Sequence[ConsumerRecord]) -> None:
        """Outputs, the input's offset and the increment: all of it, or nothing."""
        wants_full = self._parts.application.wants_full
        self._note_stored_full()
        producer.begin_transaction()
        for record in records:
            for output in self._parts.application.apply(self._state, record):
                self._step("send")
                producer.send_record(output)
            self._machine.applied(record.offset)
            if wants_full is not None and wants_full(record):
                self._machine.command()
        self._commit(producer)

    def _commit(self, producer: Producer) -> None:
        increment = self._machine.next_increment()
        self._step("increment")
        producer.send(
            self._parts.topics.increments,
            increment.encoded(),
            key=str(self.partition),
            partition=self.partition.partition,
        )
        self._step("offset")
        producer.send_offsets_to_transaction(
            {self.partition: increment.end + 1}, self._parts.group()
        )
        self._step("commit")
        producer.commit_transaction()
        self._step("committed")
        self._machine.committed(increment)

    # Full snapshots.

    def _take_full(self, *, is_stopping: bool = False) -> None:
        if self._full is None and self._machine.full_due(monotonic(), is_stopping=is_stopping):
            self._step("full")
            state = self._parts.application.dump(self._state)
            number = self._machine.increment.number + 1
            start = self._machine.full_begun(monotonic())
            self._full = self._parts.writer.write(self.partition.partition, number, start, state)
            self._step("full sent")

    def _note_stored_full(self, timeout: float = 0.0) -> None:
        if self._full is not None and (timeout or self._full.is_done):
            position = self._full.position(timeout)
            self._full = None
            if position is not None:
                self._step("full stored")
                self._machine.full_stored(position)

    def _last_full(self, producer: Producer) -> None:
        """Before a stop: the whole state, and an increment of its own that says where it is."""
        self._note_stored_full(FULL_SECONDS)
        self._take_full(is_stopping=True)
        self._note_stored_full(FULL_SECONDS)
        if self._machine.has_news:
            producer.begin_transaction()
            self._commit(producer)
