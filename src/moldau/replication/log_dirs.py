"""What lies in each log directory: for requests about it, and for whoever watches the disks."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.replication.replica import Replica
from moldau.replication.replicas import Replicas

UNKNOWN_BYTES = -1


class LogDirPartition(NamedTuple):
    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    """How far the log's end is behind the high watermark: 0 unless it is being copied here."""


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


def place_in(replicas: Replicas, path: str, topic: str, partition: int) -> Error:
    """Whether a replica lies in that directory, as somebody wants it to.

    A log stays in the directory it was made in: a move to another one is refused for good, with
    the code for what this broker is not able to do, so that nobody waits for it.
    """
    directory = next((each for each in replicas.directories if each.path == path), None)
    if directory is None:
        return Error.LOG_DIR_NOT_FOUND
    if directory.fault is not None:
        return Error.KAFKA_STORAGE_ERROR
    try:
        replica = replicas.find(topic, partition)
    except ApiError as absence:
        return absence.error
    is_there = os.path.dirname(replica.log.directory) == path
    return Error.NONE if is_there else Error.UNSUPPORTED_VERSION
