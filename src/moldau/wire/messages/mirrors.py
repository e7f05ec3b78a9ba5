"""Mirroring topics of another cluster: Moldau's own requests, which Apache Kafka does not know.

Batches come as a follower gets them. Every request names what the topic repeats, so that one that
comes late, to a topic that was promoted or made anew, is refused.
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
    uuid,
)


class MirrorConfig(Struct):
    name: str = string()
    value: str = string()


class NewMirror(Struct):
    name: str = string()
    topic_id: bytes = uuid()
    """Zero: a new one."""
    source: str = string()
    configs: list[MirrorConfig] = array(MirrorConfig)
    leader_epochs: list[int] = array(int32)
    """One for each partition."""


class BeginMirrorsRequest(Message, versions="0-0", flexible="0+"):
    source_producer_id: int = int64(default=-1)
    """One that the source has just given."""
    topics: list[NewMirror] = array(NewMirror)


class BeginMirrorsResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class MirroredPartition(Struct):
    partition: int = int32()
    fetch_offset: int = int64()
    log_start_offset: int = int64()
    """Of the original."""
    records: Buffer | None = raw_records(nullable="0+")


class MirroredTopic(Struct):
    topic_id: bytes = uuid()
    source: str = string()
    partitions: list[MirroredPartition] = array(MirroredPartition)


class AppendMirroredRequest(Message, versions="0-0", flexible="0+"):
    topics: list[MirroredTopic] = array(MirroredTopic)


class AppendedPartition(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    offset_end: int = int64(default=-1)


class AppendedTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[AppendedPartition] = array(AppendedPartition)


class AppendMirroredResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[AppendedTopic] = array(AppendedTopic)


class DescribeMirrorsRequest(Message, versions="0-0", flexible="0+"):
    topics: list[str] = array(string)
    """Empty: all mirrors. Topics that are none may be named."""


class MirrorPartition(Struct):
    partition: int = int32()
    error_code: int = int16()
    leader_epoch: int = int32()
    last_epoch: int = int32()
    """Of the last batch."""
    log_start_offset: int = int64()
    offset_end: int = int64()
    last_stable_offset: int = int64()


class DescribedMirror(Struct):
    name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    source: str = string()
    """Empty: it is no mirror."""
    partitions: list[MirrorPartition] = array(MirrorPartition)


class DescribeMirrorsResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    topics: list[DescribedMirror] = array(DescribedMirror)


class MirrorEpoch(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class RaiseMirrorEpochsRequest(Message, versions="0-0", flexible="0+"):
    topic_id: bytes = uuid()
    source: str = string()
    partitions: list[MirrorEpoch] = array(MirrorEpoch)


class RaiseMirrorEpochsResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class PromoteMirrorRequest(Message, versions="0-0", flexible="0+"):
    topic: str = string()


class PromoteMirrorResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    aborted_transactions: int = int32()


class DemoteToMirrorRequest(Message, versions="0-0", flexible="0+"):
    topic: str = string()
    source: str = string()
    offset_ends: list[int] = array(int64)
    """One for each partition: what is behind it goes."""


class DemoteToMirrorResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
