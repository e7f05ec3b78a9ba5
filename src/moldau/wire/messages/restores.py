"""Restoring topics as they were: Moldau's own requests, which Apache Kafka does not know.

Batches come as a follower gets them: with the offsets, epochs and producers of the original. What
is restored is no topic before the last request, and then all of it is.
"""

from __future__ import annotations

from moldau.wire.primitives import Buffer
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
    uuid,
)


class RestoredConfig(Struct):
    name: str = string()
    value: str = string()


class RestoredTopic(Struct):
    name: str = string()
    topic_id: bytes = uuid()
    """Zero: a new one."""
    configs: list[RestoredConfig] = array(RestoredConfig)
    log_start_offsets: list[int] = array(int64)
    """One for each partition."""


class BeginRestoreRequest(Message, versions="0-0", flexible="0+"):
    topics: list[RestoredTopic] = array(RestoredTopic)


class BeginRestoreResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    restore_id: str = string()


class AppendRestoredRequest(Message, versions="0-0", flexible="0+"):
    restore_id: str = string()
    topic: str = string()
    partition: int = int32()
    records: Buffer | None = raw_records(nullable="0+")


class AppendRestoredResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    offset_end: int = int64(default=-1)


class EndRestoreRequest(Message, versions="0-0", flexible="0+"):
    restore_id: str = string()
    is_wanted: bool = boolean()
    """False gives it up."""
    producer_id_last: int = int64(default=-1)
    """The largest in the restored batches: nobody is given it again."""


class EndRestoreResponse(Message, versions="0-0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
