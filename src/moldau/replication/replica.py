"""A replica on this broker: the log, the partition's numbers, and the rules for what may go in.

The hot path of Produce and Fetch ends here. Every refusal is an ApiError, which its row of the
answer carries; a fault of the disk becomes KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from moldau.config.topic import TopicConfig
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis, Offset
from moldau.net.log_limit import LogLimit
from moldau.records.batch import HEADER_BYTES, Buffer, read_header
from moldau.records.old_formats_reading import is_old
from moldau.records.validation import validate_produce
from moldau.replication.fetch_sessions import FetchedPartition, PartitionRead
from moldau.replication.offset_lookup import look_up
from moldau.replication.partition import Partition
from moldau.replication.produce_rules import ZSTD_SINCE, produce_rules, validate_early
from moldau.replication.waiting import Waiting, Watched
from moldau.storage.faults import StorageFault
from moldau.storage.log import Appended, PartitionLog
from moldau.storage.producer_state import Origin
from moldau.storage.timestamps import TimedOffset

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
        "isr_changes",
        "log",
        "partition",
        "settings",
    )

    def __init__(
        self,
        partition: Partition,
        log: PartitionLog,
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
        self.configure(settings)

    def configure(self, settings: TopicConfig) -> None:
        self.settings = settings
        self.log.settings = settings
        self._rules = produce_rules(settings)
        if self.partition.require_in_sync(settings.min_insync_replicas):
            self._waiting.changed(self)

    # Writing

    def append(
        self, records: memoryview, acks: int, now_ms: Millis, version: int = ZSTD_SINCE
    ) -> Appended:
        """Store one batch from a producer and move the high watermark as far as it may go."""
        partition = self.partition
        if not partition.is_leader:
            partition.check_leader()
        if acks == ACKS_ALL and not partition.has_enough_in_sync:
            self._check_in_sync()
        if version >= ZSTD_SINCE:
            batch = validate_produce(records, self._rules, now_ms)
        else:
            batch = validate_early(records, self._rules, now_ms, version)
        try:
            appended = self.log.append_as_leader(
                batch.records, batch.header, partition.leader_epoch
            )
        except StorageFault as fault:
            raise self._refuse(fault) from fault
        if not appended.duplicate:
            self.bytes_appended += len(batch.records)
            partition.appended(appended.offset_last + 1)
            if self.parked:
                self._waiting.changed(self)
        return appended

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

    def append_as_coordinator(self, batch: bytearray, transaction_version: int = 0) -> Appended:
        """Store a batch that this broker itself has made: a coordinator's facts or a marker. It
        counts only once all in-sync replicas have it, as with acks=all."""
        partition = self.partition
        partition.check_leader()
        partition.check_in_sync()
        before = self.log.offset_end
        try:
            appended = self.log.append_as_leader(
                batch,
                read_header(batch),
                partition.leader_epoch,
                Origin.COORDINATOR,
                transaction_version,
            )
        except StorageFault as fault:
            raise self._refuse(fault) from fault
        finally:
            if self.log.offset_end != before:
                self.bytes_appended += len(batch)
                partition.appended(self.log.offset_end)
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
            raise self._refuse(fault) from fault
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
    ) -> PartitionRead:
        partition, log = self.partition, self.log
        if wanted.current_leader_epoch >= 0 or not partition.is_leader:
            if leader_only:
                partition.check_leader(wanted.current_leader_epoch)
            else:
                partition.check_epoch(wanted.current_leader_epoch)
        if wanted.last_fetched_epoch >= 0:
            diverging_epoch = self._divergence(wanted)
            if diverging_epoch is not None:
                return self._read_nothing(isolation, diverging_epoch)
        offset = wanted.fetch_offset
        limit = self.readable_end(isolation)
        if limit <= offset <= log.offset_end:
            return self._read_nothing(isolation)
        try:
            region, offset_end = log.read(offset, max_bytes, limit, min_one_batch)
        except StorageFault as fault:
            raise self._refuse(fault) from fault
        if region is None:
            return self._read_nothing(isolation)
        high_watermark = partition.high_watermark
        aborted = None
        if isolation == READ_COMMITTED:
            aborted = [
                (transaction.producer_id, transaction.first_offset)
                for transaction in log.aborted_transactions(offset, offset_end)
            ]
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

    def _divergence(self, wanted: FetchedPartition) -> tuple[int, Offset] | None:
        """Where the reader's log parts from ours, if it does (KIP-595)."""
        epoch, offset_end = self._end_of(wanted.last_fetched_epoch)
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
        self, records: Buffer, leader_high_watermark: Offset, leader_log_start: Offset
    ) -> None:
        """Store what the leader sent, and learn from it what is committed and what is deleted.
        Raises ApiError for damaged records and StorageFault for a broken disk."""
        log, partition = self.log, self.partition
        if len(records):
            self._start_in_batch(records)
            try:
                log.append_as_follower(records)
            finally:
                self.bytes_appended += len(records)
                partition.offset_end = log.offset_end
        moved = partition.followed(log.offset_end, leader_high_watermark)
        if leader_log_start > log.log_start_offset:
            log.advance_log_start(min(leader_log_start, partition.high_watermark))
        if moved and self.parked:
            self._waiting.changed(self)

    def _start_in_batch(self, records: Buffer) -> None:
        """An empty log may be told to start in the middle of a batch: where the leader's records
        were deleted up to there. Batches are whole, so it starts with this one."""
        if is_old(records) or len(records) < HEADER_BYTES:
            return
        first = read_header(records)
        log = self.log
        is_empty = log.log_start_offset == log.offset_end
        if is_empty and first.base_offset < log.offset_end <= first.last_offset:
            log.truncate_fully(first.base_offset)

    def truncate_to(self, offset: Offset) -> None:
        """Drop what the leader does not have."""
        self.log.truncate_to(offset)
        self.partition.truncated(self.log.offset_end)
        self._waiting.disturb(self)

    def start_over_at(self, offset: Offset) -> None:
        """The leader has deleted all that we have."""
        self.log.truncate_fully(offset)
        self.partition.truncated(offset)
        self.partition.high_watermark = offset
        self._waiting.disturb(self)

    @property
    def low_watermark(self) -> Offset:
        return self.partition.low_watermark(self.log.log_start_offset)

    # Looking up offsets

    def offset_at(
        self, timestamp: Millis, isolation: int, current_leader_epoch: int
    ) -> TimedOffset:
        """By time, or by one of the special negative timestamps."""
        self.partition.check_leader(current_leader_epoch)
        try:
            return look_up(self, timestamp, isolation, isolation == READ_TO_END)
        except StorageFault as fault:
            raise self._refuse(fault) from fault

    def epoch_end_offset(self, epoch: int, current_leader_epoch: int) -> tuple[int, Offset]:
        """The largest epoch up to `epoch` and where it ends; (-1, -1) if there is none."""
        self.partition.check_leader(current_leader_epoch)
        return self._end_of(epoch)

    def _end_of(self, epoch: int) -> tuple[int, Offset]:
        try:
            return self.log.epoch_end_offset(epoch)
        except StorageFault as fault:
            raise self._refuse(fault) from fault

    def _refuse(self, fault: StorageFault) -> ApiError:
        text = str(fault)
        if text != self._fault:
            # Once per kind of fault: clients retry, and every retry fails alike.
            self._fault = text
            log.error("storage fault partition=%s: %s", self.partition.topic_partition, text)
            self._broken(self, fault)
        return ApiError(Error.KAFKA_STORAGE_ERROR, text)
