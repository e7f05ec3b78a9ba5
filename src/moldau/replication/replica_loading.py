"""The log of a replica with its files: loaded in a thread if it was at rest until now.

Whoever is about to use more than a log at rest knows awaits `load` first. What fails is the answer
for this one partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from moldau.model.errors import ApiError, Error
from moldau.net.connection_muting import MutingWait
from moldau.replication.replica import Replica
from moldau.storage.log.log_at_rest import AnyLog
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.storage_faults import StorageFault


async def load(replica: Replica) -> PartitionLog:
    """Raises ApiError."""
    replica_log = replica.log
    if isinstance(replica_log, PartitionLog):
        return replica_log
    try:
        return await loaded(replica_log)
    except StorageFault as fault:
        if replica.log is not replica_log or not replica.partition.is_served:
            # Deleted meanwhile, or moved: no fault of the disk.
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER, str(fault)) from fault
        raise replica.refuse(fault) from fault


def at_rest(replica: Replica) -> ApiError:
    """For those who cannot wait, where somebody should have awaited `load` before."""
    place = replica.partition.topic_partition
    return ApiError(Error.KAFKA_STORAGE_ERROR, f"the log of {place} is not loaded yet")


async def load_all(replicas: Iterable[Replica]) -> None:
    """Side by side. What fails will fail again for whoever uses the log."""
    await asyncio.gather(*map(load, replicas), return_exceptions=True)


async def loaded(rested: AnyLog) -> PartitionLog:
    """Raises StorageFault."""
    if isinstance(rested, PartitionLog):
        return rested
    future: MutingWait[PartitionLog | StorageFault] = MutingWait()

    def woken(outcome: PartitionLog | StorageFault) -> None:
        if not future.done():
            future.set_result(outcome)

    rested.wake(woken)
    outcome = await future
    if isinstance(outcome, StorageFault):
        try:
            raise outcome
        finally:
            del outcome  # it remembers this frame: that would be a circle
    return outcome


def adopt(replicas: Mapping[tuple[str, int], Replica], loaded: PartitionLog) -> None:
    """The log of one of these is loaded now."""
    replica = replicas.get(loaded.topic_partition)
    if replica is not None:
        replica.log = loaded
