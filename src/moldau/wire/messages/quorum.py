"""The controllers' metadata quorum (KIP-595)."""

from __future__ import annotations

from moldau.wire.primitives import INT32_MAX, Records
from moldau.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    raw_records,
    string,
    struct,
    uint16,
    uuid,
)


class VoteRequestPartitionData(Struct):
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("1+")
    voter_directory_id: bytes = uuid("1+")
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean("2+")


class VoteRequestTopicData(Struct):
    topic_name: str = string()
    partitions: list[VoteRequestPartitionData] = array(VoteRequestPartitionData)


class VoteRequest(Message, versions="0-2", flexible="0+"):
    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32("1+", default=-1)
    topics: list[VoteRequestTopicData] = array(VoteRequestTopicData)


class VoteResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class VoteResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[VoteResponsePartitionData] = array(VoteResponsePartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class VoteResponse(Message, versions="0-2", flexible="0+"):
    error_code: int = int16()
    topics: list[VoteResponseTopicData] = array(VoteResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: int = int32()
    voter_directory_id: bytes = uuid("1+")
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: str = string()
    partitions: list[BeginQuorumEpochRequestPartitionData] = array(
        BeginQuorumEpochRequestPartitionData
    )


class LeaderEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class BeginQuorumEpochRequest(Message, versions="0-1", flexible="1+"):
    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32("1+", default=-1)
    topics: list[BeginQuorumEpochRequestTopicData] = array(BeginQuorumEpochRequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+")


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[BeginQuorumEpochResponsePartitionData] = array(
        BeginQuorumEpochResponsePartitionData
    )


class BeginQuorumEpochResponse(Message, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[BeginQuorumEpochResponseTopicData] = array(BeginQuorumEpochResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class ReplicaInfo(Struct):
    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0")
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+")


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: str = string()
    partitions: list[EndQuorumEpochRequestPartitionData] = array(EndQuorumEpochRequestPartitionData)


class EndQuorumEpochRequest(Message, versions="0-1", flexible="1+"):
    cluster_id: str | None = string(nullable="0+")
    topics: list[EndQuorumEpochRequestTopicData] = array(EndQuorumEpochRequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+")


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[EndQuorumEpochResponsePartitionData] = array(
        EndQuorumEpochResponsePartitionData
    )


class EndQuorumEpochResponse(Message, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[EndQuorumEpochResponseTopicData] = array(EndQuorumEpochResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: int = int32()


class DescribeQuorumRequestTopicData(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumRequestPartitionData] = array(DescribeQuorumRequestPartitionData)


class DescribeQuorumRequest(Message, versions="0-2", flexible="0+"):
    topics: list[DescribeQuorumRequestTopicData] = array(DescribeQuorumRequestTopicData)


class ReplicaState(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class DescribeQuorumResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumResponsePartitionData] = array(
        DescribeQuorumResponsePartitionData
    )


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class Node(Struct):
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


class DescribeQuorumResponse(Message, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData)
    nodes: list[Node] = array(Node, "2+")


class SnapshotId(Struct):
    end_offset: int = int64()
    epoch: int = int32()


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid("1+", tag=0)


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: str = string()
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = array(
        FetchSnapshotRequestPartitionSnapshot
    )


class FetchSnapshotRequest(Message, versions="0-1", flexible="0+"):
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=INT32_MAX)
    topics: list[FetchSnapshotRequestTopicSnapshot] = array(FetchSnapshotRequestTopicSnapshot)
    cluster_id: str | None = string(nullable="0+", tag=0)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    size: int = int64()
    position: int = int64()
    unaligned_records: Records = raw_records()
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, tag=0)


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: str = string()
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = array(
        FetchSnapshotResponsePartitionSnapshot
    )


class FetchSnapshotResponse(Message, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[FetchSnapshotResponseTopicSnapshot] = array(FetchSnapshotResponseTopicSnapshot)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)
