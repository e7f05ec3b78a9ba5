"""Snapshots of a broker: Moldau's own requests, which Apache Kafka does not know.

Their keys are far from Kafka's, and ApiVersions names them only to clients that introduce
themselves as Moldau's.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string


class SnapshotDescription(Struct):
    name: str = string()
    created_ms: int = int64()
    cluster_id: str = string()
    node_id: int = int32()
    partitions: int = int32()
    size_bytes: int = int64()
    directories: list[str] = array(string)
    held_us: int = int64()
    """For how long answers were held back, in a cluster."""


class CreateSnapshotRequest(Message, versions="0-0", flexible="0+"):
    name: str = string()


class CreateSnapshotResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    snapshots: list[SnapshotDescription] = array(SnapshotDescription)


class DescribeSnapshotsRequest(Message, versions="0-0", flexible="0+"):
    pass


class DescribeSnapshotsResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    snapshots: list[SnapshotDescription] = array(SnapshotDescription)


class DeleteSnapshotRequest(Message, versions="0-0", flexible="0+"):
    name: str = string()


class DeleteSnapshotResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class LedPartition(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()


class LedTopic(Struct):
    name: str = string()
    partitions: list[LedPartition] = array(LedPartition)


class PartDescription(Struct):
    name: str = string()
    uid: str = string()
    is_whole: bool = boolean()
    """Whether it is the part that makes all the others a snapshot."""
    created_ms: int = int64()
    cluster_id: str = string()
    node_id: int = int32()
    partitions: int = int32()
    size_bytes: int = int64()
    directories: list[str] = array(string)
    held_us: int = int64()


class TakeSnapshotPartRequest(Message, versions="0-0", flexible="0+"):
    """Among brokers: what one of them does for a snapshot of the cluster, step by step."""

    step: int = int8()
    name: str = string()
    uid: str = string()


class TakeSnapshotPartResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    led: list[LedTopic] = array(LedTopic)
    held_us: int = int64()
    under_way: str = string()
    """The uid of the snapshot that is being made."""
    parts: list[PartDescription] = array(PartDescription)
