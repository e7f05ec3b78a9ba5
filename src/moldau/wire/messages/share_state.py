"""Share groups: the state that their coordinator keeps for the partition leaders (KIP-932).

Only brokers send these.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class InitializeShareGroupStateRequestPartition(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[InitializeShareGroupStateRequestPartition] = array(
        InitializeShareGroupStateRequestPartition
    )


class InitializeShareGroupStateRequest(Message, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class InitializeShareGroupStateResponsePartition(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class InitializeStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[InitializeShareGroupStateResponsePartition] = array(
        InitializeShareGroupStateResponsePartition
    )


class InitializeShareGroupStateResponse(Message, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = array(InitializeStateResult)


class ReadShareGroupStateRequestPartition(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStateRequestPartition] = array(
        ReadShareGroupStateRequestPartition
    )


class ReadShareGroupStateRequest(Message, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ReadShareGroupStateResponsePartition(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStateResponsePartition] = array(
        ReadShareGroupStateResponsePartition
    )


class ReadShareGroupStateResponse(Message, versions="0", flexible="0+"):
    results: list[ReadStateResult] = array(ReadStateResult)


class WriteShareGroupStateRequestPartition(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[WriteShareGroupStateRequestPartition] = array(
        WriteShareGroupStateRequestPartition
    )


class WriteShareGroupStateRequest(Message, versions="0-1", flexible="0+"):
    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class WriteShareGroupStateResponsePartition(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class WriteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[WriteShareGroupStateResponsePartition] = array(
        WriteShareGroupStateResponsePartition
    )


class WriteShareGroupStateResponse(Message, versions="0-1", flexible="0+"):
    results: list[WriteStateResult] = array(WriteStateResult)


class DeleteShareGroupStateRequestPartition(Struct):
    partition: int = int32()


class DeleteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[DeleteShareGroupStateRequestPartition] = array(
        DeleteShareGroupStateRequestPartition
    )


class DeleteShareGroupStateRequest(Message, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class DeleteShareGroupStateResponsePartition(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class DeleteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[DeleteShareGroupStateResponsePartition] = array(
        DeleteShareGroupStateResponsePartition
    )


class DeleteShareGroupStateResponse(Message, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = array(DeleteStateResult)


class ReadShareGroupStateSummaryRequestPartition(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStateSummaryRequestPartition] = array(
        ReadShareGroupStateSummaryRequestPartition
    )


class ReadShareGroupStateSummaryRequest(Message, versions="0-1", flexible="0+"):
    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class ReadShareGroupStateSummaryResponsePartition(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStateSummaryResponsePartition] = array(
        ReadShareGroupStateSummaryResponsePartition
    )


class ReadShareGroupStateSummaryResponse(Message, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
