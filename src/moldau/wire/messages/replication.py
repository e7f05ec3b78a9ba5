"""What a ZooKeeper-era controller tells brokers, and what a broker that stops tells it.

Apache Kafka dropped these with version 4.0; brokers of a Moldau cluster speak them. Every request
carries the controller's epoch, so that brokers can refuse a controller that was replaced.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32, "3+")
    removing_replicas: list[int] = array(int32, "3+")
    is_new: bool = boolean("1+")
    leader_recovery_state: int = int8("6+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid("5+")
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


class LeaderAndIsrRequest(Message, versions="0-7", flexible="4+"):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32()
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1"
    )
    broker_epoch: int = int64("2+", default=-1)
    type: int = int8("5+")
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4")
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = uuid()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


class LeaderAndIsrResponse(Message, versions="0-7", flexible="4+"):
    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")


class StopReplicaPartitionV0(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class StopReplicaTopicV1(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class StopReplicaPartitionState(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


class StopReplicaTopicState(Struct):
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


class StopReplicaRequest(Message, versions="0-4", flexible="2+"):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


class StopReplicaPartitionError(Struct):
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


class StopReplicaResponse(Message, versions="0-4", flexible="2+"):
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    zk_version: int = int32()
    replicas: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "4+")


class UpdateMetadataEndpoint(Struct):
    port: int = int32()
    host: str = string()
    listener: str = string("3+")
    security_protocol: int = int16()


class UpdateMetadataBroker(Struct):
    id: int = int32()
    v0_host: str = string("0")
    v0_port: int = int32("0")
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+")
    rack: str | None = string("2+", nullable="2+", default="")


class UpdateMetadataTopicState(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid("7+")
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


class UpdateMetadataRequest(Message, versions="0-8", flexible="6+"):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+")
    controller_epoch: int = int32()
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    broker_epoch: int = int64("5+", default=-1)
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)
    type: int = int8("8+", tag=0)


class UpdateMetadataResponse(Message, versions="0-8", flexible="6+"):
    error_code: int = int16()


class ControlledShutdownRequest(Message, versions="0-3", flexible="3+"):
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1)


class RemainingPartition(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Message, versions="0-3", flexible="3+"):
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
