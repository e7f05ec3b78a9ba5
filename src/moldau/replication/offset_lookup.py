"""Offsets by timestamp, or by one of the special negative timestamps of ListOffsets.

Whoever asks for a time waits for a thread, one for all who ask: a search may read much and
decompress much, and one at a time bounds the memory. Long searches take turns.
"""

from __future__ import annotations

from typing import Final

from moldau.engine.side_thread import SideThread
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.records.batch import NO_TIMESTAMP
from moldau.replication.replica import READ_TO_END, Replica
from moldau.replication.replica_loading import load
from moldau.storage.log.offsets_by_timestamp import TimedOffset
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.storage_faults import StorageFault

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6

NOWHERE = TimedOffset(NO_TIMESTAMP, -1, -1)


class OffsetLookUp:
    def __init__(self) -> None:
        self._thread = SideThread("look-ups")

    async def offset_at(
        self, replica: Replica, timestamp: Millis, isolation: int, current_leader_epoch: int
    ) -> TimedOffset:
        """At a leader, for a reader of this isolation. Raises ApiError."""
        replica.partition.check_leader(current_leader_epoch)
        at_once = _known(replica, timestamp, isolation)
        if at_once is not None:
            return at_once
        log = await load(replica)
        replica.partition.check_leader(current_leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start = log.log_start_offset
            return TimedOffset(NO_TIMESTAMP, start, log.epoch_at(start))
        try:
            found = await self._search(log, timestamp)
        except StorageFault as fault:
            raise replica.refuse(fault) from fault
        finally:
            # Who follows by now may have cut the log while it was searched.
            replica.partition.check_leader(current_leader_epoch)
        if found is None or found.offset >= replica.readable_end(isolation):
            _check_caught_up(replica, isolation)
            return NOWHERE
        return found

    async def _search(self, log: PartitionLog, timestamp: Millis) -> TimedOffset | None:
        is_latest = timestamp == MAX_TIMESTAMP
        search = log.max_timestamp_search() if is_latest else log.time_search(timestamp)
        while search is not None:
            found = await self._thread.run(search.run)
            if isinstance(found, TimedOffset):
                return found
            search = found or log.time_search(search.timestamp, behind=search.segment)
        return None


def _known(replica: Replica, timestamp: Millis, isolation: int) -> TimedOffset | None:
    """What needs no log."""
    if timestamp == LATEST_TIMESTAMP:
        _check_caught_up(replica, isolation)
        end = replica.readable_end(isolation)
        return TimedOffset(NO_TIMESTAMP, end, replica.partition.leader_epoch)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return NOWHERE
    return None


def _check_caught_up(replica: Replica, isolation: int) -> None:
    """A new leader must not name an end that lies before one that readers have seen."""
    partition = replica.partition
    if isolation != READ_TO_END and partition.epoch_start > partition.high_watermark:
        raise ApiError(
            Error.OFFSET_NOT_AVAILABLE,
            f"{partition.topic_partition} has a new leader; its high watermark is behind yet",
        )
