"""Reading record batches, by consumers and by followers.

Topics are named up to version 12 and identified from 13 on. A follower states its id in
`replica_id` up to version 14 and in the tagged `replica_state` from 15 on; None there is a
consumer. Encoded, `records` may be regions of a segment file.
"""

from __future__ import annotations

from moldau.wire.primitives import INT32_MAX, INT64_MAX, Records
from moldau.wire.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    raw_records,
    string,
    struct,
    uuid,
)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0)
    high_watermark: int = int64("18+", tag=1, default=INT64_MAX)


class FetchTopic(Struct):
    topic_id: bytes = uuid("13+")
    topic: str = string("0-12")
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic_id: bytes = uuid("13+")
    topic: str = string("7-12")
    partitions: list[int] = array(int32)


class ReplicaState(Struct):
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchRequest(Message, versions="0-18", flexible="12+"):
    replica_id: int = int32("0-14", default=-1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=INT32_MAX)
    isolation_level: int = int8("4+")
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")
    cluster_id: str | None = string("12+", nullable="12+", tag=0)
    replica_state: ReplicaState | None = struct(ReplicaState, "15+", tag=1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()


class EpochEndOffset(Struct):
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class FetchablePartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+"
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = raw_records(nullable="0+")
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, "12+", tag=2)


class FetchableTopicResponse(Struct):
    topic_id: bytes = uuid("13+")
    topic: str = string("0-12")
    partitions: list[FetchablePartitionResponse] = array(FetchablePartitionResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+")


class FetchResponse(Message, versions="0-18", flexible="12+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
