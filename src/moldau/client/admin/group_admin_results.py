"""What admins see of groups and transactions."""

from __future__ import annotations

from typing import NamedTuple

from moldau.client.network.network_client import Node
from moldau.model.names import TopicPartition


class GroupListing(NamedTuple):
    """`state` and `type` are empty if the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    type: str

    @property
    def is_simple(self) -> bool:
        """Nobody ever joined: the group only stores offsets."""
        return self.protocol_type == ""


class MemberDescription(NamedTuple):
    """The last four are told by groups of the consumer protocol only (KIP-848)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]
    subscription: list[str]
    member_metadata: bytes = b""
    member_assignment: bytes = b""
    rack: str | None = None
    member_epoch: int | None = None
    target_assignment: list[TopicPartition] | None = None
    member_type: int = -1


class GroupDescription(NamedTuple):
    group_id: str
    state: str
    type: str
    """"classic" or "consumer"."""
    protocol_type: str
    assignor: str
    members: list[MemberDescription]
    coordinator: Node | None
    authorized_operations: frozenset[int] | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None


class ProducerState(NamedTuple):
    """A producer that wrote to a partition; `transaction_start_offset` is -1 outside of one."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


class TransactionDescription(NamedTuple):
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    """-1 if no transaction is open."""
    partitions: list[TopicPartition]


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int
