"""What happened to transactional ids.

Pure. The durable facts hold the whole transaction, as Kafka's log does: its topic is compacted, so
the last record of an id must be enough. The volatile ones tell which markers are still awaited; a
restart forgets them and asks for all markers again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from moldau.model.cluster import TopicImage
from moldau.model.names import Millis, TopicPartition
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.transactions.transaction_states import State

NO_TIME: Millis = -1

Topics = Mapping[str, TopicImage]
"""Of the cluster image."""

EPOCH_MAX = 2**15 - 1
EPOCH_LAST = EPOCH_MAX - 1
"""The last epoch that a producer may have: one more is kept to fence it with."""

VERSION_1 = 0
"""Transactions of clients that reuse their epoch. Kafka writes 0 for them."""
VERSION_2 = 2
"""Every transaction has an epoch of its own (KIP-890)."""

TRANSACTION_BYTES = 1_000
PARTITION_BYTES = 100
"""About what an id, and a partition of its transaction, take in memory."""


class Transaction(NamedTuple):
    """A transactional id, its producer, and the transaction that is open or was the last."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: Millis
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: Millis = NO_TIME
    update_ms: Millis = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    """Before the last move; another one only right after the epochs of an id were used up."""
    next_producer_id: int = NO_PRODUCER_ID
    """Takes over when the markers are written: the epochs of `producer_id` are used up."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """Lets a producer repeat a request whose answer was lost. Not stored."""
    client_version: int = VERSION_1

    @property
    def kept_bytes(self) -> int:
        """About what it takes in memory."""
        return (
            TRANSACTION_BYTES + len(self.transactional_id) + PARTITION_BYTES * len(self.partitions)
        )

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= EPOCH_LAST


class Cause(Enum):
    """Who wanted the move. Not stored."""

    PRODUCER = "the producer asked"
    NEW_PRODUCER = "another producer took over"
    TIMEOUT = "the transaction took too long"
    MARKERS = "all markers are written"


class TransactionMoved(NamedTuple):
    """The id is now exactly this."""

    after: Transaction
    cause: Cause = Cause.PRODUCER


class TransactionalIdExpired(NamedTuple):
    transactional_id: str


class TopicsSeen(NamedTuple):
    """Volatile: the topics of the cluster are these, so it is known where markers go."""

    topics: Topics


class RoundsBegun(NamedTuple):
    """Volatile: the coordinator is loaded, and rounds of markers count on from here. Its
    predecessor in the same process may still be given answers: they must fit to no round."""

    round: int
    at_ms: Millis
    """By the monotonic clock."""


class MarkersSent(NamedTuple):
    """Volatile: markers for these partitions are on their way. In a new round the answers to
    earlier ones no longer count."""

    transactional_id: str
    partitions: frozenset[TopicPartition]
    at_ms: Millis
    """By the monotonic clock."""
    is_new_round: bool = False


class MarkersAnswered(NamedTuple):
    """Volatile: some markers are written or no longer needed, others have to be sent again."""

    transactional_id: str
    written: frozenset[TopicPartition]
    failed: frozenset[TopicPartition] = frozenset()


class MarkersRefused(NamedTuple):
    """Volatile: a partition knows a newer producer or coordinator. Nothing more is sent, and the
    transaction stays as it is until somebody loads it anew."""

    transactional_id: str
    partition: TopicPartition
    error: int


Durable = TransactionMoved | TransactionalIdExpired
