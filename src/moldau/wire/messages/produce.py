"""Appending record batches.

Topics are named up to version 12 and identified from 13 on. A response tells the new leader
(`current_leader`, `node_endpoints`) from version 10 on, where the old one has to refuse (KIP-951).
"""

from __future__ import annotations

from moldau.wire.primitives import Buffer
from moldau.wire.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    raw_records,
    string,
    struct,
    uuid,
)


class PartitionProduceData(Struct):
    index: int = int32()
    records: Buffer | None = raw_records(nullable="0+")


class TopicProduceData(Struct):
    topic_id: bytes = uuid("13+")
    name: str = string("0-12")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, versions="0-13", flexible="9+"):
    transactional_id: str | None = string("3+", nullable="3+")
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+")
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    topic_id: bytes = uuid("13+")
    name: str = string("0-12")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+")


class ProduceResponse(Message, versions="0-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
