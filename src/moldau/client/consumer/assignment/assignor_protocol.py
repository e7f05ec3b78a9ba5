"""Subscriptions and assignments as bytes inside JoinGroup and SyncGroup.

Each starts with its version; a reader takes the lower of that and its own newest, and skips what
a newer writer put behind. Decoding never trusts the bytes: they come from other clients.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from moldau.client.consumer.assignment.partition_assignors import Assignment, Subscription
from moldau.client.consumer.assignment.sticky_assignors import grouped, ungrouped
from moldau.model.names import TopicPartition
from moldau.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from moldau.wire.primitives import DecodeError

VERSION_NEWEST = 3
_VERSION = struct.Struct(">h")


def encode_subscription(
    topics: Sequence[str],
    user_data: bytes | None,
    owned: Sequence[TopicPartition],
    generation_id: int,
    rack_id: str | None,
) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=grouped(owned),
        generation_id=generation_id,
        rack_id=rack_id,
    )
    return _VERSION.pack(VERSION_NEWEST) + message.encode(VERSION_NEWEST)


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    row = ConsumerProtocolSubscription.decode(data, _version(data), _VERSION.size)
    return Subscription(
        topics=tuple(row.topics),
        user_data=row.user_data,
        owned_partitions=ungrouped(row.owned_partitions),
        generation_id=row.generation_id,
        rack_id=row.rack_id,
        group_instance_id=group_instance_id,
    )


def encode_assignment(assignment: Assignment) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=grouped(assignment.partitions), user_data=assignment.user_data
    )
    return _VERSION.pack(VERSION_NEWEST) + message.encode(VERSION_NEWEST)


def decode_assignment(data: bytes) -> Assignment:
    """No bytes at all are an empty share: what a leader may send to those who get nothing."""
    if not data:
        return Assignment(())
    row = ConsumerProtocolAssignment.decode(data, _version(data), _VERSION.size)
    return Assignment(ungrouped(row.assigned_partitions), row.user_data)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError(f"{len(data)} bytes are too few for a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"there is no version {version} of the consumer protocol")
    return min(version, VERSION_NEWEST)
