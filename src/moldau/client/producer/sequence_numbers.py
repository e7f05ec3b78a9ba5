"""Producer id, epoch and the sequence of every partition: what makes retries harmless (KIP-98).

Pure. A batch gets its sequence when it is first sent and keeps it over retries, so a broker drops
what it has already. Batches of a partition are kept in order of sequence until their outcome is
known; after a gap that no retry can fill, the epoch goes up by one and sequences start again at 0
(KIP-360). Always: `in_flight` of a partition is sorted by sequence and all of one epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from moldau.client.producer.producer_batch import SEQUENCE_MASK, ProducerBatch
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

EPOCH_LAST = 0x7FFF
"""The epoch after this one does not exist: a new producer id is needed."""
REMEMBERED_MAX = 5
"""Batches of a producer and partition that a leader remembers. Were more of them sent since the
oldest whose outcome is open, as when the leader changes while requests to the old one wait, that
one would not be known as a repetition when it is sent again, and would be stored twice."""


class PartitionSequences:
    __slots__ = (
        "acked_end",
        "acked_offset_last",
        "in_flight",
        "next_sequence",
        "producer_epoch",
        "producer_id",
        "sent",
        "unresolved_end",
    )

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.acked_end = 0
        """The sequence after the last one that the broker is known to have."""
        self.acked_offset_last = -1
        self.in_flight: list[ProducerBatch] = []
        """Batches with a sequence whose outcome is open, waiting for a retry or under way."""
        self.sent: deque[int] = deque()
        """First sequences of the batches from the oldest open one on, answered ones included."""
        self.unresolved_end: int | None = None
        """Set after a batch was given up whose fate is unknown: the sequence after it."""

    @property
    def sent_since_oldest(self) -> int:
        sent = self.sent
        oldest = self.in_flight[0].base_sequence if self.in_flight else None
        while sent and sent[0] != oldest:
            sent.popleft()
        return len(sent)

    def restart(self, producer_id: int, producer_epoch: int) -> None:
        """From 0 in this epoch, with the batches that are still open."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.acked_end = 0
        self.unresolved_end = None
        sequence = 0
        for batch in self.in_flight:
            batch.set_producer(producer_id, producer_epoch, sequence)
            sequence = batch.sequence_end
        self.sent = deque(batch.base_sequence for batch in self.in_flight)
        self.next_sequence = sequence


class SequenceBook:
    def __init__(self, *, is_transactional: bool = False) -> None:
        self.is_transactional = is_transactional
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.partitions: dict[TopicPartition, PartitionSequences] = {}
        self.established: set[TopicPartition] = set()
        """Partitions whose leader is known to have a record of this producer id."""
        self.broken: set[TopicPartition] = set()
        """Partitions with a gap that only a new epoch closes."""

    @property
    def has_identity(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def set_identity(self, producer_id: int, producer_epoch: int) -> None:
        if producer_id != self.producer_id:
            self.established.clear()
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def restart_all(self) -> None:
        """Every sequence from 0: after an epoch that the coordinator gave."""
        self.partitions.clear()
        self.broken.clear()

    def adopt(self, sequences: Mapping[TopicPartition, int]) -> None:
        """Go on where another holder of this producer id stopped."""
        for partition, sequence in sequences.items():
            entry = self._entry(partition)
            entry.producer_id, entry.producer_epoch = self.producer_id, self.producer_epoch
            entry.next_sequence = entry.acked_end = sequence
            if sequence:
                self.established.add(partition)

    def next_sequences(self) -> dict[TopicPartition, int]:
        """Of every partition written to in this epoch."""
        return {
            partition: entry.next_sequence
            for partition, entry in self.partitions.items()
            if self._is_current(entry)
        }

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of its queue may go now, as far as order is concerned."""
        if not self.has_identity:
            return False
        entry = self._entry(batch.topic_partition)
        if batch.has_sequence:
            # One retry at a time, the oldest first: what follows would be refused as a gap.
            return bool(entry.in_flight) and entry.in_flight[0] is batch
        if entry.unresolved_end is not None:
            return False
        if not entry.in_flight:
            return True
        if entry.sent_since_oldest >= REMEMBERED_MAX:
            return False
        # A leader takes whatever sequence of a producer it sees first. If the first batch has to
        # be sent again, one sent right after it must not have been that.
        return batch.topic_partition in self.established and self._is_current(entry)

    def assign(self, batch: ProducerBatch) -> None:
        """Its producer id, epoch and sequence, unless it has them from an earlier attempt."""
        if batch.has_sequence:
            return
        entry = self._entry(batch.topic_partition)
        if not self._is_current(entry):
            entry.restart(self.producer_id, self.producer_epoch)
        batch.set_producer(self.producer_id, self.producer_epoch, entry.next_sequence)
        batch.is_transactional = self.is_transactional
        entry.in_flight.append(batch)
        entry.sent.append(batch.base_sequence)
        entry.next_sequence = batch.sequence_end

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        entry = self._entry(batch.topic_partition)
        if batch in entry.in_flight:
            entry.in_flight.remove(batch)
        if batch.producer_id == self.producer_id:
            self.established.add(batch.topic_partition)
        if not self._same_epoch(entry, batch):
            return
        if _is_after(batch.sequence_end, entry.acked_end):
            entry.acked_end = batch.sequence_end
        if base_offset >= 0:
            offset_last = base_offset + batch.record_count - 1
            entry.acked_offset_last = max(entry.acked_offset_last, offset_last)
        self._resolve(batch.topic_partition, entry)

    def retries_sequence_error(self, batch: ProducerBatch, error: Error) -> bool:
        """Whether a refusal for its sequence is worth a retry; may ask for a new epoch."""
        partition = batch.topic_partition
        entry = self._entry(partition)
        is_ahead = not self._same_epoch(entry, batch) or _is_after(
            batch.base_sequence, entry.acked_end
        )
        if error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if entry.unresolved_end is None and is_ahead:
                # An earlier batch is being retried; this one fits once that is there.
                return True
            if self.is_transactional:
                return False
            if entry.unresolved_end is None or batch.base_sequence == entry.unresolved_end:
                self.broken.add(partition)
            return True
        if error == Error.UNKNOWN_PRODUCER_ID:
            if self.is_transactional:
                return False
            self.broken.add(partition)
            return True
        return False

    def failed(self, batch: ProducerBatch, *, is_refused: bool) -> None:
        """Given up. `is_refused`: the broker does not have it; otherwise nobody knows."""
        if not batch.has_sequence:
            return
        partition = batch.topic_partition
        entry = self._entry(partition)
        if batch in entry.in_flight:
            entry.in_flight.remove(batch)
        if not self._same_epoch(entry, batch):
            return
        if not is_refused:
            end = entry.unresolved_end
            if end is None or _is_after(batch.sequence_end, end):
                entry.unresolved_end = batch.sequence_end
            self._resolve(partition, entry)
        elif self.is_transactional:
            self._close_gap(entry, batch)
        else:
            self.broken.add(partition)

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """The batch was split; the parts have its sequences between them."""
        entry = self._entry(batch.topic_partition)
        if batch in entry.in_flight:
            index = entry.in_flight.index(batch)
            entry.in_flight[index : index + 1] = parts

    def bump_if_broken(self) -> bool:
        """Start a new epoch for partitions with a gap; True if a new producer id is needed."""
        if self.is_transactional or not self.broken:
            return False
        if self.producer_epoch == EPOCH_LAST:
            self.set_identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            for partition in self.broken:
                entry = self._entry(partition)
                entry.producer_id = NO_PRODUCER_ID
                for batch in entry.in_flight:
                    batch.set_producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, -1)
                entry.in_flight.clear()
                entry.unresolved_end = None
            self.broken.clear()
            return True
        self.producer_epoch += 1
        for partition in self.broken:
            self._entry(partition).restart(self.producer_id, self.producer_epoch)
        self.broken.clear()
        return False

    @property
    def has_unresolved(self) -> bool:
        """Whether a transaction holds records of which nobody knows if they were stored."""
        return any(
            entry.unresolved_end is not None and not entry.in_flight
            for entry in self.partitions.values()
        )

    def _entry(self, partition: TopicPartition) -> PartitionSequences:
        entry = self.partitions.get(partition)
        if entry is None:
            entry = self.partitions[partition] = PartitionSequences()
        return entry

    def _is_current(self, entry: PartitionSequences) -> bool:
        return entry.producer_id == self.producer_id and entry.producer_epoch == self.producer_epoch

    def _same_epoch(self, entry: PartitionSequences, batch: ProducerBatch) -> bool:
        return (
            entry.producer_id == batch.producer_id and entry.producer_epoch == batch.producer_epoch
        )

    def _resolve(self, partition: TopicPartition, entry: PartitionSequences) -> None:
        """Once nothing is under way, a batch of unknown fate was either stored or is missing."""
        if entry.unresolved_end is None or entry.in_flight:
            return
        if entry.acked_end == entry.next_sequence:
            entry.unresolved_end = None
        elif not self.is_transactional:
            self.broken.add(partition)

    def _close_gap(self, entry: PartitionSequences, batch: ProducerBatch) -> None:
        """What follows a refused batch moves up, or it would be refused as well."""
        for later in entry.in_flight:
            if _is_after(later.base_sequence, batch.base_sequence):
                sequence = (later.base_sequence - batch.record_count) & SEQUENCE_MASK
                later.set_producer(later.producer_id, later.producer_epoch, sequence)
        entry.sent = deque(each.base_sequence for each in entry.in_flight)
        entry.next_sequence = (entry.next_sequence - batch.record_count) & SEQUENCE_MASK


def _is_after(one: int, other: int) -> bool:
    """By sequence, which starts again at 0 after 2^31 - 1."""
    return 0 < (one - other) & SEQUENCE_MASK < 1 << 30
