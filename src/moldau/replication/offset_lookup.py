"""Offsets by timestamp, or by one of the special negative timestamps of ListOffsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.records.batch import NO_TIMESTAMP
from moldau.storage.log.offsets_by_timestamp import TimedOffset
from moldau.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from moldau.replication.replica import Replica

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6

NOWHERE = TimedOffset(NO_TIMESTAMP, -1, -1)


def look_up(
    replica: Replica, timestamp: Millis, isolation: int, to_end: bool
) -> TimedOffset | None:
    """At a leader; `to_end` is for readers that see what is not committed. None if the log has to
    be loaded first. Raises StorageFault."""
    partition, log = replica.partition, replica.log
    is_behind = not to_end and partition.epoch_start > partition.high_watermark
    if timestamp == LATEST_TIMESTAMP:
        if is_behind:
            raise _not_available(replica)
        return TimedOffset(NO_TIMESTAMP, replica.readable_end(isolation), partition.leader_epoch)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return NOWHERE
    if not isinstance(log, PartitionLog):
        return None
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        start = log.log_start_offset
        return TimedOffset(NO_TIMESTAMP, start, log.epoch_at(start))
    found = (
        log.offset_of_max_timestamp()
        if timestamp == MAX_TIMESTAMP
        else log.offset_for_timestamp(timestamp)
    )
    if found is None or found.offset >= replica.readable_end(isolation):
        if is_behind:
            raise _not_available(replica)
        return NOWHERE
    return found


def _not_available(replica: Replica) -> ApiError:
    """A new leader must not name an end that lies before one that readers have seen."""
    place = replica.partition.topic_partition
    return ApiError(
        Error.OFFSET_NOT_AVAILABLE,
        f"{place} has a new leader; its high watermark is behind yet",
    )
