"""A replica on this broker: the log, the partition's numbers, and the rules for what may go in.

The hot path of Produce and Fetch ends here. Every refusal is an ApiError, which its row of the
answer carries; a fault of the disk becomes KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from moldau.config.topic_config import TopicConfig
from moldau.metrics.traffic_cells import TrafficCells
from moldau.model.errors import ApiError, Error
from moldau.model.log_line_limit import LogLimit
from moldau.model.names import BrokerId, Millis, Offset
from moldau.records.batch import Buffer, read_header
from moldau.records.batch_validation import LongBatch, ProducedBatch, validate_produce
from moldau.replication.delayed_requests import Waiting, Watched
from moldau.replication.fetch_sessions import FetchedPartition, PartitionRead
from moldau.replication.partition import Partition
from moldau.replication.produce_rules import ZSTD_SINCE, produce_rules, validate
from moldau.storage.log.log_at_rest import AnyLog
from moldau.storage.log.partition_log import Appended, PartitionLog
from moldau.storage.log.replicated_batches import start_in_batch
from moldau.storage.log_state.producer_state import Origin, ProducerStates
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.server.ReplicaManager")
log.addFilter(LogLimit())

ACKS_ALL: Final = -1
NO_FOLLOWER: BrokerId = -1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
READ_TO_END: Final = 2
"""What replicas read, and a consumer that debugs one: the whole log, committed or not."""

TO_HIGH_WATERMARK: Final = -1
"""The offset that asks DeleteRecords for everything that is committed."""


class IsrChanges(Protocol):
    """Where a leader's wishes about the ISR go."""

    def join(self, replica: Replica, follower: BrokerId) -> None:
        """The follower has all that is committed."""

    def lose(self, replica: Replica, fault: StorageFault) -> None:
        """The disk failed under the leader itself: another broker has to lead."""


class Replica(Watched):
    __slots__ = (
        "_broken",
        "_fault",
        "_rules",
        "_waiting",
        "bytes_appended",
        "counts",
        "flushes",
        "is_mirror",
        "isr_changes",
        "lag",
        "log",
        "partition",
        "settings",
    )

    def __init__(
        self,
        partition: Partition,
        log: AnyLog,
        settings: TopicConfig,
        waiting: Waiting,
        isr_changes: IsrChanges | None = None,
        broken: Callable[[Replica, StorageFault], None] = lambda replica, fault: None,
    ) -> None:
        """`broken` hears of faults of the disk, once for each kind."""
        super().__init__()
        self.isr_changes = isr_changes
        self.partition = partition
        self.log = log
        self._waiting = waiting
        self._fault = ""
        self._broken = broken
        self.bytes_appended = 0
        """Since the replica was opened: lets a parked fetch see how much has come without
        reading."""
        self.counts = TrafficCells()
        """Those of its topic, once it is one of the broker's replicas."""
        self.lag: Offset = 0
        """How much the leader had that is not here, when it was last asked."""
        self.configure(settings)

    def configure(self, settings: TopicConfig) -> None:
        self.settings = settings
        self.log.settings = settings
        self.flushes = settings.flush_messages < 2**63 - 1  # a write waits for the disk
        self.is_mirror = settings.mirror_source != ""  # written to by mirroring alone
        self._rules = produce_rules(settings)
        if self.partition.require_in_sync(settings.min_insync_replicas):
            self._waiting.changed(self)

    @property
    def producers(self) -> ProducerStates | None:
        """None while the log is at rest."""
        return self.log.producers if isinstance(self.log, PartitionLog) else None

    # Writing

    def append(
        self,
        records: memoryview,
        acks: int,
        now_ms: Millis,
        version: int = ZSTD_SINCE,
        checked: ProducedBatch | None = None,
    ) -> Appended | None:
        """Store one batch from a producer and move the high watermark as far as it may go. None if
        somebody has to wait first, for the log to be loaded or for a long batch to be `checked`
        (`long_batches.py`); then nothing has happened."""
        partition, log = self.partition, self.log
        if not partition.is_leader:
            partition.check_leader()
        if self.is_mirror:
            raise self.mirror_refusal()
        if acks == ACKS_ALL and not partition.has_enough_in_sync:
            self._check_in_sync()
        if not isinstance(log, PartitionLog):
            return None
        try:
            if checked is None and version >= ZSTD_SINCE:
                batch = validate_produce(records, self._rules, now_ms)
            else:
                batch = checked or validate(records, self._rules, now_ms, version)
        except LongBatch:
            return None
        try:
            appended = log.append_as_leader(batch.records, batch.header, partition.leader_epoch)
        except StorageFault as fault:
            raise self.refuse(fault) from fault
        base_offset, offset_last, _, _, is_duplicate = appended
        size_bytes, counts = len(batch.records), self.counts
        counts.produces += 1
        counts.bytes_in += size_bytes
        counts.messages_in += offset_last - base_offset + 1
        if not is_duplicate:
            self.bytes_appended += size_bytes
            partition.appended(offset_last + 1)
            if self.parked:
                self._waiting.changed(self)
        return appended

    def mirror_refusal(self) -> ApiError:
        return ApiError(
            Error.POLICY_VIOLATION,
            f"{self.partition.topic_partition} repeats {self.settings.mirror_source}: it takes"
            " records from its mirror alone until it is promoted",
        )

    def check_at_leisure(self, records: memoryview, now_ms: Millis, version: int) -> ProducedBatch:
        """A long batch, beside the loop: changes nothing here. Raises ApiError."""
        return validate(records, replace(self._rules, at_leisure=True), now_ms, version)

    def _check_in_sync(self) -> None:
        try:
            self.partition.check_in_sync()
        except ApiError as refusal:
            log.error(
                "[ReplicaManager broker=%d] Error processing append operation on partition %s: %s",
                self.partition.node_id,
                self.partition.topic_partition,
                refusal.message,
            )
            raise

    def append_as_coordinator(
        self, batch: bytearray, transaction_version: int = 0
    ) -> Appended | None:
        """Store a batch that this broker itself has made: a coordinator's facts or a marker. It
        counts only once all in-sync replicas have it, as with acks=all. None as for `append`."""
        partition, log = self.partition, self.log
        partition.check_leader()
        partition.check_in_sync()
        if not isinstance(log, PartitionLog):
            return None
        before = log.offset_end
        try:
            appended = log.append_as_leader(
                batch,
                read_header(batch),
                partition.leader_epoch,
                Origin.COORDINATOR,
                transaction_version,
            )
        except StorageFault as fault:
            raise self.refuse(fault) from fault
        finally:
            if log.offset_end != before:
                self.bytes_appended += len(batch)
                self.counts.bytes_in += len(batch)
                self.counts.messages_in += log.offset_end - before
                partition.appended(log.offset_end)
                self._waiting.changed(self)
        return appended

    def is_committed(self, offset_end: Offset, tenure: int) -> bool:
        """Whether everything before `offset_end` is, as it was written in that tenure of the
        partition; raises if nobody will ever know here."""
        partition = self.partition
        if not partition.is_leader:
            partition.check_leader()
        if partition.tenure != tenure:
            raise ApiError(
                Error.NOT_LEADER_OR_FOLLOWER,
                f"another broker has led {partition.topic_partition} since the write",
            )
        if partition.high_watermark < offset_end:
            return False
        if not partition.has_enough_to_commit:
            raise ApiError(
                Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                f"{partition.topic_partition} lost replicas while the write was on its way",
            )
        return True

    def delete_records(self, offset: Offset) -> Offset:
        """Make `offset` the first that can be read; returns the low watermark."""
        partition = self.partition
        partition.check_leader()
        if self.is_mirror:
            raise self.mirror_refusal()
        if not self.settings.deletes_old_segments:
            raise ApiError(
                Error.POLICY_VIOLATION,
                f"{partition.topic_partition} has the cleanup policy "
                f"{','.join(self.settings.cleanup_policy)}: its records are not to be deleted",
            )
        if offset == TO_HIGH_WATERMARK:
            offset = partition.high_watermark
        if not 0 <= offset <= partition.high_watermark:
            raise ApiError(
                Error.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {partition.topic_partition} is not within "
                f"0..{partition.high_watermark}",
            )
        try:
            if self.log.advance_log_start(offset):
                self._waiting.disturb(self)
        except StorageFault as fault:
            raise self.refuse(fault) from fault
        return self.log.log_start_offset

    # Reading

    def readable_end(self, isolation: int) -> Offset:
        """Exclusive end of what such a reader may see."""
        if isolation == READ_UNCOMMITTED:
            return self.partition.high_watermark
        if isolation == READ_COMMITTED:
            return self.log.last_stable_offset(self.partition.high_watermark)
        return self.log.offset_end

    def read(
        self,
        wanted: FetchedPartition,
        max_bytes: int,
        min_one_batch: bool,
        isolation: int,
        leader_only: bool = True,
    ) -> PartitionRead | None:
        """None if the log has to be loaded first."""
        partition, log = self.partition, self.log
        self.counts.fetches += 1
        if wanted.current_leader_epoch >= 0 or not partition.is_leader:
            if leader_only:
                partition.check_leader(wanted.current_leader_epoch)
            else:
                partition.check_epoch(wanted.current_leader_epoch)
        if wanted.last_fetched_epoch >= 0:
            end = self._end_of(wanted.last_fetched_epoch)
            if end is None:
                return None
            diverging_epoch = self._divergence(wanted, end)
            if diverging_epoch is not None:
                return self._read_nothing(isolation, diverging_epoch)
        offset = wanted.fetch_offset
        limit = self.readable_end(isolation)
        if limit <= offset <= log.offset_end:
            return self._read_nothing(isolation)
        if not isinstance(log, PartitionLog):
            log.check_range(offset)
            return None
        aborted = None
        try:
            region, offset_end = log.read(offset, max_bytes, limit, min_one_batch)
            if region is None:
                return self._read_nothing(isolation)
            if isolation == READ_COMMITTED:
                found = log.aborted_transactions(offset, offset_end)
                aborted = [(each.producer_id, each.first_offset) for each in found]
        except StorageFault as fault:
            raise self.refuse(fault) from fault
        high_watermark = partition.high_watermark
        return PartitionRead(
            0,
            high_watermark,
            log.last_stable_offset(high_watermark),
            log.log_start_offset,
            region,
            region.size_bytes,
            aborted,
        )

    def _read_nothing(
        self, isolation: int, diverging_epoch: tuple[int, Offset] | None = None
    ) -> PartitionRead:
        high_watermark = self.partition.high_watermark
        return PartitionRead(
            0,
            high_watermark,
            self.log.last_stable_offset(high_watermark),
            self.log.log_start_offset,
            None,
            0,
            () if isolation == READ_COMMITTED else None,
            diverging_epoch,
        )

    def read_elsewhere(self, isolation: int, nearer: BrokerId) -> PartitionRead:
        return self._read_nothing(isolation)._replace(preferred_read_replica=nearer)

    def _divergence(
        self, wanted: FetchedPartition, end: tuple[int, Offset]
    ) -> tuple[int, Offset] | None:
        """Where the reader's log parts from ours, if it does (KIP-595); `end` is that of its epoch
        here."""
        epoch, offset_end = end
        if epoch < 0 or offset_end < 0 or wanted.fetch_offset < self.log.log_start_offset:
            raise ApiError(
                Error.OFFSET_OUT_OF_RANGE,
                f"{self.partition.topic_partition} does not know where leader epoch "
                f"{wanted.last_fetched_epoch} ended",
            )
        if epoch < wanted.last_fetched_epoch or offset_end < wanted.fetch_offset:
            return epoch, offset_end
        return None

    # Replicating

    def follower_fetched(
        self, follower: BrokerId, offset_end: Offset, now_ms: Millis, log_start: Offset = -1
    ) -> None:
        """A follower asks from `offset_end` on, so it has everything before."""
        partition = self.partition
        before, low_before = partition.high_watermark, partition.follower_start(follower)
        after = partition.follower_fetched(follower, offset_end, now_ms, log_start)
        if after != before or log_start != low_before:
            self._waiting.changed(self)
        if self.isr_changes is not None and partition.may_join(follower):
            self.isr_changes.join(self, follower)

    def append_as_follower(
        self,
        loaded: PartitionLog | None,
        records: Buffer,
        leader_high_watermark: Offset,
        leader_log_start: Offset,
    ) -> None:
        """Store what the leader sent, and learn from it what is committed and what is deleted;
        `loaded` is the log, needed for records only. Raises ApiError for damaged records and
        StorageFault for a broken disk."""
        log, partition = self.log, self.partition
        if len(records):
            assert loaded is log, "another log, or one that is not loaded"
            log = loaded
            start_in_batch(log, records)
            try:
                log.append_as_follower(records)
            finally:
                self.bytes_appended += len(records)
                self.counts.replication_bytes_in += len(records)
                if partition.is_moving and partition.node_id in partition.adding:
                    self.counts.reassignment_bytes_in += len(records)
                partition.offset_end = log.offset_end
        self.lag = max(0, leader_high_watermark - log.offset_end)
        moved = partition.followed(log.offset_end, leader_high_watermark)
        if leader_log_start > log.log_start_offset:
            log.advance_log_start(min(leader_log_start, partition.high_watermark))
        if moved and self.parked:
            self._waiting.changed(self)

    def took_mirrored(self, loaded: PartitionLog, size_bytes: int, count: int) -> None:
        """Batches of another cluster are in the log."""
        self.bytes_appended += size_bytes
        self.counts.bytes_in += size_bytes
        self.counts.messages_in += max(0, count)
        self.partition.appended(loaded.offset_end)
        self._waiting.changed(self)

    def truncate_to(self, loaded: PartitionLog, offset: Offset) -> None:
        """Drop what the leader does not have; `loaded` is the log."""
        assert loaded is self.log, "the log is another one by now"
        loaded.truncate_to(offset)
        self.partition.truncated(loaded.offset_end)
        self._waiting.disturb(self)

    def start_over_at(self, loaded: PartitionLog, offset: Offset) -> None:
        """The leader has deleted all that we have."""
        assert loaded is self.log, "the log is another one by now"
        loaded.truncate_fully(offset)
        self.partition.truncated(offset)
        self.partition.high_watermark = offset
        self._waiting.disturb(self)

    @property
    def low_watermark(self) -> Offset:
        return self.partition.low_watermark(self.log.log_start_offset)

    # Looking up offsets

    def epoch_end_offset(self, epoch: int, current_leader_epoch: int) -> tuple[int, Offset] | None:
        """The largest epoch up to `epoch` and where it ends; (-1, -1) if there is none. None if the
        log has to be loaded first."""
        self.partition.check_leader(current_leader_epoch)
        return self._end_of(epoch)

    def _end_of(self, epoch: int) -> tuple[int, Offset] | None:
        return self.log.epoch_end_offset(epoch)

    def refuse(self, fault: StorageFault) -> ApiError:
        text = str(fault)
        if text != self._fault:
            # Once per kind of fault: clients retry, and every retry fails alike.
            self._fault = text
            log.error("storage fault partition=%s: %s", self.partition.topic_partition, text)
            self._broken(self, fault)
        return ApiError(Error.KAFKA_STORAGE_ERROR, text)
