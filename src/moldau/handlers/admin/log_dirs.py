"""DescribeLogDirs and AlterReplicaLogDirs: what lies in which directory, and where it should."""

from __future__ import annotations

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.replication.log_dir_reports import LogDir, describe, place_in
from moldau.wire.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def describe_log_dirs(
    request: DescribeLogDirsRequest, ctx: RequestContext, on: Services
) -> DescribeLogDirsResponse:
    asked = None
    if request.topics is not None:
        asked = {
            (topic.topic, partition) for topic in request.topics for partition in topic.partitions
        }
    return DescribeLogDirsResponse(results=[_result(row) for row in describe(on.replicas, asked)])


def _result(directory: LogDir) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for row in directory.partitions:
        name = row.topic_partition.topic
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = DescribeLogDirsTopic(name=name)
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=row.topic_partition.partition,
                partition_size=row.size_bytes,
                offset_lag=row.offset_lag,
                is_future_key=row.is_future,
            )
        )
    return DescribeLogDirsResult(
        error_code=directory.error,
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )


async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, ctx: RequestContext, on: Services
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            )
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=number,
                    error_code=await place_in(on.replicas, directory.path, topic.name, number),
                )
                for number in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))
