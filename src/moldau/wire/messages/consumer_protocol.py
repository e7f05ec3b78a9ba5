"""What consumers tell each other inside JoinGroup and SyncGroup.

Each is preceded by its version as an int16; a reader takes the lower of that and its own newest.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    Struct,
    array,
    blob,
    int32,
    string,
)


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array(string)
    user_data: bytes | None = blob(nullable="0+")
    owned_partitions: list[TopicPartitions] = array(TopicPartitions, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+")


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = blob(nullable="0+")
