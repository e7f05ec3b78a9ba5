"""Waiting until what a replica has written is on disk, where flush.messages wants it there.

The flush itself is done beside the loop. Whoever answers for a write asks right after it, so that
no outcome is missed, and waits before it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.model.names import Offset
from moldau.replication.replica import Replica
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.storage_faults import StorageFault

Flushing = asyncio.Future[StorageFault | None]


def flushed_end(replica: Replica) -> Offset:
    """Everything before it is as safe on this disk as the topic's settings want it."""
    replica_log = replica.log
    if replica.flushes and isinstance(replica_log, PartitionLog):
        return replica_log.flushed_end
    return replica_log.offset_end


def when_flushed(replica: Replica, flushed: Callable[[StorageFault | None], None]) -> bool:
    """Have `flushed` called once the disk has what was just written, or cannot have it; False if
    there is nothing to wait for."""
    replica_log = replica.log
    if not replica.flushes or not isinstance(replica_log, PartitionLog):
        return False
    if replica_log.fault is None and replica_log.flushed_end >= replica_log.offset_end:
        return False
    replica_log.when_flushed(flushed)
    return True


def flushing(replica: Replica) -> Flushing | None:
    """The same as a future."""
    future: Flushing = asyncio.get_running_loop().create_future()

    def flushed(fault: StorageFault | None) -> None:
        if not future.done():
            future.set_result(fault)

    return future if when_flushed(replica, flushed) else None
