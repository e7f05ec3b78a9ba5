"""What lies in each log directory: for requests about it, and for whoever watches the disks."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.replication.replica import Replica
from moldau.replication.replica_loading import load
from moldau.replication.replicas import Replicas
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.server.ReplicaManager")

UNKNOWN_BYTES = -1


class LogDirPartition(NamedTuple):
    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    """How far the log's end is behind the high watermark; a copy's, behind the log's end."""
    is_future: bool = False
    """Whether it is being copied here from another directory."""


class LogDir(NamedTuple):
    error: Error
    path: str
    partitions: list[LogDirPartition]
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES


def describe(replicas: Replicas, asked: Collection[tuple[str, int]] | None) -> list[LogDir]:
    """Every directory, with the partitions that were asked for; None asks for all."""
    by_path: dict[str, list[LogDirPartition]] = {}
    for replica in replicas:
        if asked is None or replica.partition.topic_partition in asked:
            path = os.path.dirname(replica.log.directory)
            by_path.setdefault(path, []).append(_row(replica))
    for place, future in replicas.moves.futures.items():
        if asked is None or place in asked:
            row = LogDirPartition(place, future.log.size_bytes, future.offset_lag, is_future=True)
            by_path.setdefault(future.parent, []).append(row)
    return [
        LogDir(Error.KAFKA_STORAGE_ERROR, directory.path, [])
        if directory.fault is not None
        else _directory(directory.path, by_path.get(directory.path, []))
        for directory in replicas.directories
    ]


def _row(replica: Replica) -> LogDirPartition:
    partition, log = replica.partition, replica.log
    lag = max(0, partition.high_watermark - log.offset_end)
    return LogDirPartition(partition.topic_partition, log.size_bytes, lag)


def _directory(path: str, partitions: list[LogDirPartition]) -> LogDir:
    try:
        disk = os.statvfs(path)
    except OSError:
        return LogDir(Error.KAFKA_STORAGE_ERROR, path, [])
    return LogDir(
        Error.NONE,
        path,
        partitions,
        disk.f_blocks * disk.f_frsize,
        disk.f_bavail * disk.f_frsize,
    )


async def place_in(replicas: Replicas, path: str, topic: str, partition: int) -> Error:
    """Have a replica moved to that directory; one that is yet to come will be made there."""
    directory = next((each for each in replicas.directories if each.path == path), None)
    if directory is None:
        return Error.LOG_DIR_NOT_FOUND
    if directory.fault is not None:
        return Error.KAFKA_STORAGE_ERROR
    try:
        replica = replicas.find(topic, partition)
        replicas.moves.move(replica, await load(replica), path)
    except ApiError as absence:
        if absence.error is not Error.NOT_LEADER_OR_FOLLOWER:
            return absence.error
        replicas.moves.prefer(TopicPartition(topic, partition), path)
        return Error.REPLICA_NOT_AVAILABLE
    except StorageFault as fault:
        log.error("%s-%d cannot be moved to %s: %s", topic, partition, path, fault)
        return Error.KAFKA_STORAGE_ERROR
    return Error.NONE
