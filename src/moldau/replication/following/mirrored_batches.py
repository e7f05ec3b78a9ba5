"""What goes into a mirrored partition: batches of the original, as they are there, or nothing.

As at a follower: offsets, epochs, producers and markers are the original's. Whoever sends them says
where they begin, so that what was sent twice, or came out of order, is refused.
"""

from __future__ import annotations

from moldau.model.errors import ApiError, Error
from moldau.model.names import Offset
from moldau.records.batch import NO_LEADER_EPOCH, Buffer, whole_headers
from moldau.records.batch_codec import ControlType, EndMarker, encode_marker
from moldau.replication.replica import Replica
from moldau.replication.replica_loading import at_rest
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.replicated_batches import start_in_batch
from moldau.storage.storage_faults import StorageFault

EPOCH_LAST = 2**15 - 1


def append_mirrored(
    replica: Replica, source: str, offset: Offset, log_start: Offset, records: Buffer
) -> Offset:
    """Where the log ends now; it is loaded. `log_start` is the original's. Raises ApiError."""
    log, partition = checked(replica, source), replica.partition
    end_before = log.offset_end
    try:
        if offset == log_start > end_before and was_never_written(log):
            replica.start_over_at(log, log_start)
        if offset != log.offset_end:
            raise ApiError(
                Error.OFFSET_OUT_OF_RANGE,
                f"{partition.topic_partition} ends at {log.offset_end}, not at {offset}",
            )
        _check_epochs(replica, records)
        try:
            start_in_batch(log, records)
            log.append_as_follower(records)
        finally:
            # Also what came before a damaged batch.
            replica.took_mirrored(log, len(records), log.offset_end - end_before)
        if log_start > log.log_start_offset:
            log.advance_log_start(min(log_start, partition.high_watermark))
    except StorageFault as fault:
        raise replica.refuse(fault) from fault
    return log.offset_end


def checked(replica: Replica, source: str) -> PartitionLog:
    """The log of a partition that repeats this source and is led here. Raises ApiError."""
    replica.partition.check_leader()
    found = replica.settings.mirror_source
    if found != source:
        what = f"repeats {found}" if found else "is no mirror"
        place = replica.partition.topic_partition
        raise ApiError(Error.INVALID_REQUEST, f"{place} {what}, and not a mirror of {source}")
    if not isinstance(replica.log, PartitionLog):
        raise at_rest(replica)
    return replica.log


def was_never_written(log: PartitionLog) -> bool:
    """Only then may a mirror begin where its original begins."""
    return log.log_start_offset == log.offset_end and log.latest_epoch == NO_LEADER_EPOCH


def _check_epochs(replica: Replica, records: Buffer) -> None:
    """Clients refuse metadata with an older leader epoch than they have seen in records."""
    known = replica.partition.leader_epoch
    newest = max((header.leader_epoch for _, header in whole_headers(records)), default=-1)
    if newest > known:
        raise ApiError(
            Error.UNKNOWN_LEADER_EPOCH,
            f"{replica.partition.topic_partition} is in leader epoch {known}, and records are of"
            f" {newest}: raise it first",
        )


def cut(replica: Replica, source: str, offset: Offset) -> None:
    """Drop what the original does not have. Raises ApiError."""
    log = checked(replica, source)
    try:
        replica.truncate_to(log, offset)
    except StorageFault as fault:
        raise replica.refuse(fault) from fault


def abort_open(replica: Replica, source: str, now_ms: int) -> int:
    """Write the end of every transaction that is open; how many. Raises ApiError.

    The epoch rises with it: what the producer still sends is refused."""
    log = checked(replica, source)
    count = 0
    for entry in sorted(log.producers.entries, key=lambda each: each.txn_first_offset):
        if entry.txn_first_offset < 0:
            continue
        marker = encode_marker(
            EndMarker(ControlType.ABORT, max(entry.coordinator_epoch, 0)),
            producer_id=entry.producer_id,
            producer_epoch=min(entry.epoch + 1, EPOCH_LAST),
            timestamp=now_ms,
        )
        if replica.append_as_coordinator(bytearray(marker)) is None:
            raise at_rest(replica)
        count += 1
    return count
