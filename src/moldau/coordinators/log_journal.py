"""A coordinator's journal: the partition of an internal topic that this broker leads.

Facts become batches of the partition, written under the rules of acks=all; positions are offsets,
and the high watermark says what is committed. With a single replica that is so at once. Where
flush.messages is set, this disk must have it too. The same log, read from its start, gives a new
leader the facts of its predecessors.

A journal is of one leader epoch. After it the same offsets may hold what another leader wrote, so
the high watermark says nothing more about our facts: the journal fails, and its owner is told.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence

from moldau.coordinators.coordinator_errors import of_coordinator
from moldau.engine.machine import JournalFault, JournalListener
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.records.batch import BatchHeader, whole_headers
from moldau.records.batch_codec import Record, decode_batch
from moldau.records.old_formats.old_messages import holds_old
from moldau.records.old_formats.up_conversion import to_batches
from moldau.replication.delayed_requests import Watched
from moldau.replication.replica import Replica
from moldau.replication.replica_flushing import flushed_end, when_flushed
from moldau.replication.replica_loading import at_rest, load
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.storage_faults import StorageFault
from moldau.wire.primitives import EncodeError

SLICE_BYTES = 256 * 1024

Encode = Callable[[Sequence[object], Millis], list[bytes]]


class LogJournal:
    """Watches the replica while something is appended that is not committed."""

    def __init__(self, replica: Replica, encode: Encode, clock: Clock) -> None:
        """Raises ApiError if this broker does not lead the partition."""
        replica.partition.check_leader()
        self._replica = replica
        self._leader_epoch = replica.partition.leader_epoch
        self._encode = encode
        self._clock = clock
        self._listener: JournalListener | None = None
        self._reported = -1
        self._is_woken = False
        self._is_flushing = False

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition in the epoch that the journal is of."""
        partition = self._replica.partition
        return partition.is_leader and partition.leader_epoch == self._leader_epoch

    @property
    def position(self) -> int:
        """Of the last fact; -1 if there is none."""
        replica_log = self._replica.log
        return replica_log.offset_end - 1 if replica_log.size_bytes else -1

    # Writing

    def listen(self, listener: JournalListener) -> None:
        self._listener = listener
        self._await_flush()
        self._report()

    def append(self, facts: Sequence[object]) -> int:
        try:
            batches = self._encode(facts, self._clock.wall_ms())
        except EncodeError as flaw:
            # Nothing is written yet: whoever asked for it is told, and nobody else hears of it.
            raise JournalFault(Error.UNKNOWN_SERVER_ERROR, f"not to be stored: {flaw}") from flaw
        assert batches, f"{facts} need no record"
        self._check(batches)
        before = self._replica.log.offset_end
        offset_last = before
        try:
            for batch in batches:
                appended = self._replica.append_as_coordinator(bytearray(batch))
                if appended is None:
                    raise at_rest(self._replica)
                offset_last = appended.offset_last
        except ApiError as refusal:
            fault = JournalFault(of_coordinator(refusal.error), refusal.message)
            if self._replica.log.offset_end != before and self._listener is not None:
                # Some of the facts are in the log, so they are true: only a replay knows which.
                self._listener.failed(fault)
            raise fault from refusal
        self._await_flush()
        self._report()
        return offset_last

    def _await_flush(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            if not when_flushed(self._replica, self._flushed):
                self._is_flushing = False

    def _flushed(self, fault: StorageFault | None) -> None:
        self._is_flushing = False
        if fault is None:
            # There may be more by now.
            self._await_flush()
            self.wake()
            return
        refusal = self._replica.refuse(fault)
        if self._listener is not None:
            # The facts may be in the log or not: only a replay knows.
            self._listener.failed(JournalFault(of_coordinator(refusal.error), refusal.message))

    def _check(self, batches: list[bytes]) -> None:
        """Refuse before the first batch is written what could only be written in part."""
        if not self.is_current:
            raise self._outdated()
        partition = self._replica.partition
        largest = max(map(len, batches))
        if largest > self._replica.settings.max_message_bytes:
            raise JournalFault(
                Error.MESSAGE_TOO_LARGE,
                f"{partition.topic_partition} takes batches of "
                f"{self._replica.settings.max_message_bytes} bytes, the facts need {largest}",
            )

    def _outdated(self) -> JournalFault:
        partition = self._replica.partition
        return JournalFault(
            Error.NOT_COORDINATOR,
            f"{partition.topic_partition} is led by {partition.leader} in leader epoch "
            f"{partition.leader_epoch}, this journal is of epoch {self._leader_epoch}",
        )

    # The high watermark

    def is_ready(self, place: Watched) -> bool:
        return self._committed > self._reported or not self.is_current

    def wake(self) -> None:
        """Called while the replica's watchers are looked at, so that nothing may change yet."""
        if not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._report)

    @property
    def _committed(self) -> int:
        return min(self._replica.partition.high_watermark, flushed_end(self._replica)) - 1

    def _report(self) -> None:
        self._is_woken = False
        if self._listener is None:
            return
        if not self.is_current:
            self._replica.parked.pop(self, None)
            self._listener.failed(self._outdated())
            return
        committed = self._committed
        if committed < self._replica.log.offset_end - 1:
            self._replica.parked[self] = None
        else:
            self._replica.parked.pop(self, None)
        if committed > self._reported:
            self._reported = committed
            self._listener.committed(committed)

    def close(self) -> None:
        """Nobody listens any more."""
        self._listener = None
        self._replica.parked.pop(self, None)

    # Reading

    @property
    def is_loaded(self) -> bool:
        """Whether it can be written to and read."""
        return isinstance(self._replica.log, PartitionLog)

    async def load(self) -> None:
        """Have its files loaded. Raises ApiError."""
        await load(self._replica)

    def batches(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Everything there is, read piece by piece. Raises ApiError for what cannot be read."""
        offset = self._replica.log.log_start_offset
        while offset < self._replica.log.offset_end:
            # It may have moved to another directory since the last piece.
            replica_log = self._replica.log
            if not isinstance(replica_log, PartitionLog):
                raise at_rest(self._replica)
            try:
                region, offset_end = replica_log.read(offset, SLICE_BYTES, replica_log.offset_end)
                if region is None:
                    return
                piece = os.pread(region.file.fileno(), region.size_bytes, region.position)
            except (OSError, StorageFault) as fault:
                raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
            offset = offset_end
            if holds_old(piece, 0, len(piece)):
                piece = to_batches(piece)
            for position, header in whole_headers(piece):
                yield header, decode_batch(piece, position)
