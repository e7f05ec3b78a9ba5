"""What one log knows of the producers that wrote to it: epochs, sequences, open transactions.

The log asks `duplicate_of` and `check_*` before it writes and calls `record_*` after, so a failed
write leaves no trace here. The rules and error codes are KIP-98's as Apache Kafka applies them:
an older epoch is INVALID_PRODUCER_EPOCH, a gap in the sequence OUT_OF_ORDER_SEQUENCE_NUMBER, and a
repetition of one of a producer's last five batches is answered as it was the first time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from moldau.records.batch_codec import ControlType, EndMarker

BATCHES_KEPT = 5
NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1
_SEQUENCE_MASK = 0x7FFFFFFF


class Origin(Enum):
    """Who appends, and so how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """Offset commits and markers: epochs are checked, sequences there are none."""
    REPLICATION = "replication"
    """The leader has checked."""


class BatchSpan(NamedTuple):
    """What must be remembered of a batch to answer its repetition."""

    last_sequence: int
    offset_last: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.offset_last - self.offset_delta

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    offset_last: int
    aborted: bool
    last_stable_offset: int
    """Once this transaction is done; bounded by the high watermark elsewhere."""


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "markers_count",
        "producer_id",
        "seen",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        txn_first_offset: int = NO_OFFSET,
        batches: Iterable[BatchSpan] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self.batches = list(batches)
        self.seen = 0
        """The minute of its `ProducerStates` in which it last wrote."""
        self.markers_count = 0
        """Since the log was opened: whoever waits before it writes can see that the transaction
        has ended meanwhile."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    __slots__ = ("_entries", "_ongoing", "_unreplicated", "minutes", "partition")

    def __init__(self, partition: str, entries: Iterable[ProducerEntry] = ()) -> None:
        self.partition = partition
        self.minutes = 0
        """Since this was made, as far as somebody counts them."""
        self._entries: dict[int, ProducerEntry] = {}
        # First offset to producer id. Transactions start at growing offsets, so the order of
        # insertion is the order of offsets and the first key is the first undecided offset.
        self._ongoing: dict[int, int] = {}
        # Decided, but the marker may still be above the high watermark: (first, last) offsets.
        self._unreplicated: list[tuple[int, int]] = []
        self.load(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[ProducerEntry]:
        return list(self._entries.values())

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace everything by what a snapshot held."""
        self._entries = {entry.producer_id: entry for entry in entries}
        for entry in self._entries.values():
            entry.seen = self.minutes
        self._unreplicated.clear()
        open_transactions = [e for e in self._entries.values() if e.txn_first_offset >= 0]
        open_transactions.sort(key=lambda entry: entry.txn_first_offset)
        self._ongoing = {e.txn_first_offset: e.producer_id for e in open_transactions}

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open here in that epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.epoch == epoch and entry.txn_first_offset >= 0

    def has_late_transaction(self, before_ms: int) -> bool:
        """Whether one is open whose last record was written before then, by its timestamp."""
        return any(
            0 < self._entries[producer_id].last_timestamp < before_ms
            for producer_id in self._ongoing.values()
        )

    def markers_count(self, producer_id: int) -> int:
        entry = self._entries.get(producer_id)
        return 0 if entry is None else entry.markers_count

    def duplicate_of(
        self, producer_id: int, epoch: int, base_sequence: int, last_sequence: int
    ) -> BatchSpan | None:
        """The batch that this one repeats, if it is among the last five."""
        entry = self._entries.get(producer_id)
        if entry is None or entry.epoch != epoch:
            return None
        for span in entry.batches:
            if span.last_sequence == last_sequence and span.base_sequence == base_sequence:
                return span
        return None

    def is_next(
        self, producer_id: int, epoch: int, base_sequence: int, transactional: bool
    ) -> bool:
        """The usual case, cheaply: the batch that was due from a producer we know. If not, ask
        `duplicate_of` and `check_data`."""
        entry = self._entries.get(producer_id)
        return (
            entry is not None
            and entry.epoch == epoch
            and bool(entry.batches)
            and base_sequence == (entry.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
            and (transactional or entry.txn_first_offset < 0)
        )

    def check_data(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        transactional: bool,
        offset: int,
        origin: Origin = Origin.CLIENT,
    ) -> None:
        if origin is Origin.REPLICATION:
            return
        entry = self._entries.get(producer_id)
        if entry is None:
            # Nothing known, perhaps because retention took all its records: any sequence will do.
            return
        if epoch < entry.epoch:
            raise self._stale_epoch(producer_id, epoch, entry.epoch, offset)
        if origin is Origin.CLIENT:
            self._check_sequence(entry, epoch, base_sequence, offset)
        if entry.txn_first_offset >= 0 and not transactional:
            raise ApiError(
                Error.INVALID_TXN_STATE,
                f"producer {producer_id} sent a batch outside its open transaction at offset "
                f"{offset} of {self.partition}",
            )

    def record_data(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        base_offset: int,
        offset_last: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        batches = entry.batches
        if entry.epoch != epoch:
            batches.clear()
            entry.epoch = epoch
        batches.append(BatchSpan(last_sequence, offset_last, offset_last - base_offset, timestamp))
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        entry.last_timestamp = timestamp
        entry.seen = self.minutes
        if transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = base_offset
            self._ongoing[base_offset] = producer_id

    def check_marker(
        self,
        producer_id: int,
        epoch: int,
        marker: EndMarker,
        offset: int,
        transaction_version: int = 0,
    ) -> None:
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        # From version 2 on the coordinator raises the epoch before it writes the marker, so an
        # equal epoch can only be a repetition, harmless once the transaction has ended (KIP-890).
        repeated = epoch == entry.epoch and entry.txn_first_offset < 0
        stale = epoch <= entry.epoch if transaction_version >= 2 else epoch < entry.epoch
        if stale and not (transaction_version >= 2 and repeated):
            raise self._stale_epoch(producer_id, epoch, entry.epoch, offset)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                Error.TRANSACTION_COORDINATOR_FENCED,
                f"marker for producer {producer_id} at offset {offset} of {self.partition} has "
                f"coordinator epoch {marker.coordinator_epoch}, the last was "
                f"{entry.coordinator_epoch}",
            )

    def record_marker(
        self, producer_id: int, epoch: int, marker: EndMarker, offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """None if the transaction had written nothing here."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        first_offset = entry.txn_first_offset
        if entry.epoch != epoch:
            entry.batches.clear()
            entry.epoch = epoch
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.markers_count += 1
        entry.last_timestamp = timestamp
        entry.seen = self.minutes
        entry.txn_first_offset = NO_OFFSET
        if first_offset < 0:
            return None
        del self._ongoing[first_offset]
        self._unreplicated.append((first_offset, offset))
        undecided = next(iter(self._ongoing), offset + 1)
        return CompletedTransaction(
            producer_id, first_offset, offset, marker.kind is ControlType.ABORT, undecided
        )

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where read_committed must stop: the first record whose transaction is undecided, or
        whose marker is not yet below the high watermark."""
        if self._unreplicated:
            self._unreplicated = [t for t in self._unreplicated if t[1] >= high_watermark]
        first = next(iter(self._ongoing), None)
        for first_offset, _ in self._unreplicated:
            if first is None or first_offset < first:
                first = first_offset
        return first

    @property
    def has_transactions(self) -> bool:
        return bool(self._ongoing or self._unreplicated)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have long been silent; how many."""
        idle = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)

    def silent_minutes(self) -> Counter[int]:
        """How many have written nothing for how many minutes; who has a transaction open is not
        silent. By this broker's clock: timestamps are what producers say."""
        return Counter(
            self.minutes - entry.seen
            for entry in self._entries.values()
            if entry.txn_first_offset < 0
        )

    def forget_silent(self, minutes: int) -> int:
        """Forget who has written nothing for so long; how many."""
        silent = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.txn_first_offset < 0 and self.minutes - entry.seen >= minutes
        ]
        for producer_id in silent:
            del self._entries[producer_id]
        return len(silent)

    def _check_sequence(
        self, entry: ProducerEntry, epoch: int, base_sequence: int, offset: int
    ) -> None:
        if epoch != entry.epoch:
            if base_sequence == 0 or entry.epoch == NO_PRODUCER_EPOCH:
                return
            raise ApiError(
                Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {entry.producer_id} starts epoch {epoch} with sequence {base_sequence} "
                f"at offset {offset} of {self.partition}, must be 0",
            )
        last_sequence = entry.last_sequence
        if base_sequence != (last_sequence + 1) & _SEQUENCE_MASK:
            raise ApiError(
                Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {entry.producer_id} sent sequence {base_sequence} at offset {offset} of "
                f"{self.partition}, the last was {last_sequence}",
            )

    def _stale_epoch(self, producer_id: int, epoch: int, current: int, offset: int) -> ApiError:
        return ApiError(
            Error.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} wrote with epoch {epoch} at offset {offset} of "
            f"{self.partition}, the last seen is {current}",
        )
