"""The controllers' metadata quorum of Apache Kafka (KIP-595).

Tools ask DescribeQuorum; the rest travels between controllers only.
"""

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


class VoteRequestPartition(Struct):
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("1+")
    voter_directory_id: bytes = uuid("1+")
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean("2+")


class VoteRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[VoteRequestPartition] = array(VoteRequestPartition)


class VoteRequest(Message, versions="0-2", flexible="0+"):
    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32("1+", default=-1)
    topics: list[VoteRequestTopic] = array(VoteRequestTopic)


class VoteResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class VoteResponseTopic(Struct):
    topic_name: str = string()
    partitions: list[VoteResponsePartition] = array(VoteResponsePartition)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class VoteResponse(Message, versions="0-2", flexible="0+"):
    error_code: int = int16()
    topics: list[VoteResponseTopic] = array(VoteResponseTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class BeginQuorumEpochRequestPartition(Struct):
    partition_index: int = int32()
    voter_directory_id: bytes = uuid("1+")
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[BeginQuorumEpochRequestPartition] = array(BeginQuorumEpochRequestPartition)


class LeaderEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class BeginQuorumEpochRequest(Message, versions="0-1", flexible="1+"):
    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32("1+", default=-1)
    topics: list[BeginQuorumEpochRequestTopic] = array(BeginQuorumEpochRequestTopic)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+")


class BeginQuorumEpochResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochResponseTopic(Struct):
    topic_name: str = string()
    partitions: list[BeginQuorumEpochResponsePartition] = array(BeginQuorumEpochResponsePartition)


class BeginQuorumEpochResponse(Message, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[BeginQuorumEpochResponseTopic] = array(BeginQuorumEpochResponseTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class ReplicaInfo(Struct):
    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


class EndQuorumEpochRequestPartition(Struct):
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0")
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+")


class EndQuorumEpochRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[EndQuorumEpochRequestPartition] = array(EndQuorumEpochRequestPartition)


class EndQuorumEpochRequest(Message, versions="0-1", flexible="1+"):
    cluster_id: str | None = string(nullable="0+")
    topics: list[EndQuorumEpochRequestTopic] = array(EndQuorumEpochRequestTopic)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+")


class EndQuorumEpochResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class EndQuorumEpochResponseTopic(Struct):
    topic_name: str = string()
    partitions: list[EndQuorumEpochResponsePartition] = array(EndQuorumEpochResponsePartition)


class EndQuorumEpochResponse(Message, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[EndQuorumEpochResponseTopic] = array(EndQuorumEpochResponseTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class DescribeQuorumRequestPartition(Struct):
    partition_index: int = int32()


class DescribeQuorumRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumRequestPartition] = array(DescribeQuorumRequestPartition)


class DescribeQuorumRequest(Message, versions="0-2", flexible="0+"):
    topics: list[DescribeQuorumRequestTopic] = array(DescribeQuorumRequestTopic)


class ReplicaState(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class DescribeQuorumResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default="")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class DescribeQuorumResponseTopic(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumResponsePartition] = array(DescribeQuorumResponsePartition)


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class Node(Struct):
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


class DescribeQuorumResponse(Message, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default="")
    topics: list[DescribeQuorumResponseTopic] = array(DescribeQuorumResponseTopic)
    nodes: list[Node] = array(Node, "2+")


class SnapshotId(Struct):
    end_offset: int = int64()
    epoch: int = int32()


class FetchSnapshotRequestPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid("1+", tag=0)


class FetchSnapshotRequestTopic(Struct):
    name: str = string()
    partitions: list[FetchSnapshotRequestPartition] = array(FetchSnapshotRequestPartition)


class FetchSnapshotRequest(Message, versions="0-1", flexible="0+"):
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=INT32_MAX)
    topics: list[FetchSnapshotRequestTopic] = array(FetchSnapshotRequestTopic)
    cluster_id: str | None = string(nullable="0+", tag=0)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class FetchSnapshotResponsePartition(Struct):
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    size: int = int64()
    position: int = int64()
    unaligned_records: Records = raw_records()
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, tag=0)


class FetchSnapshotResponseTopic(Struct):
    name: str = string()
    partitions: list[FetchSnapshotResponsePartition] = array(FetchSnapshotResponsePartition)


class FetchSnapshotResponse(Message, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[FetchSnapshotResponseTopic] = array(FetchSnapshotResponseTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)
