"""What the transaction coordinator can be asked, what it answers, and what it sends.

Pure. Handlers make the commands from requests, jobs and the outbox make the others. The machine
asks no clock: `wall_ms` is the time of day, for what is stored. It makes no ids either: where an
answer is `ProducerIdNeeded`, the same command is given again with a `new_producer_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from moldau.model.errors import Error
from moldau.model.names import Millis, TopicPartition
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.transactions.facts import VERSION_1
from moldau.transactions.states import State


class InitProducer(NamedTuple):
    transactional_id: str
    timeout_ms: Millis
    wall_ms: Millis
    expected_producer_id: int = NO_PRODUCER_ID
    """What a producer that recovers from an error believes to be (KIP-360)."""
    expected_epoch: int = NO_PRODUCER_EPOCH
    new_producer_id: int = NO_PRODUCER_ID


class AddPartitions(NamedTuple):
    """Answered by an error for each partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    wall_ms: Millis
    verify_only: bool = False
    """Only tell whether they are in the transaction."""
    client_version: int = VERSION_1


class EndTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    wall_ms: Millis
    client_version: int = VERSION_1
    new_producer_id: int = NO_PRODUCER_ID


class DescribeTransaction(NamedTuple):
    """Answered by the Transaction; while markers are on their way it has only the partitions that
    still await one."""

    transactional_id: str


class IdPattern(Protocol):
    def matches(self, text: str) -> bool:
        """Whether all of the text fits."""


class ListTransactions(NamedTuple):
    """Answered by a list of Transactions."""

    wall_ms: Millis
    states: frozenset[State] | None = None
    """None for all; an empty set for none."""
    producer_ids: frozenset[int] = frozenset()
    """Empty for all."""
    older_than_ms: Millis = -1
    """Negative for all."""
    pattern: IdPattern | None = None


class AbortTimedOut(NamedTuple):
    """The periodic job. Answered by `TimedOut`."""

    wall_ms: Millis
    new_producer_ids: tuple[int, ...] = ()


class ExpireTransactionalIds(NamedTuple):
    """The periodic job. Answered by `Expired`."""

    wall_ms: Millis


class Loaded(NamedTuple):
    """All facts of the past are applied: decided transactions have to be completed."""

    wall_ms: Millis


class MarkersWritten(NamedTuple):
    """What became of a `WriteMarkers`; made by its `answer`."""

    transactional_id: str
    round: int
    coordinator_epoch: int
    results: Mapping[TopicPartition, Error]
    wall_ms: Millis


class RetryMarkers(NamedTuple):
    """By a timer: send the markers that are not on their way."""

    transactional_id: str
    round: int
    wall_ms: Millis


class ResendMarkers(NamedTuple):
    """The periodic job: send all markers again where nobody has answered for too long. Answered by
    the number of such transactions."""

    wall_ms: Millis


class ProducerGranted(NamedTuple):
    """Who the producer is from now on."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class ProducerIdNeeded(NamedTuple):
    """Nothing was done: give the command again, with a new producer id."""


class TimedOut(NamedTuple):
    aborted: tuple[str, ...]
    producer_ids_needed: int = 0
    has_more: bool = False


class Expired(NamedTuple):
    transactional_ids: tuple[str, ...]
    has_more: bool = False


class WriteMarkers(NamedTuple):
    """Sent to a broker: end the producer's transaction in these partitions, which it leads. The
    sender keeps the order per broker and gives `answer(...)` back, also when no answer came."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
    round: int

    def answer(self, results: Mapping[TopicPartition, Error], wall_ms: Millis) -> MarkersWritten:
        return MarkersWritten(
            self.transactional_id, self.round, self.coordinator_epoch, results, wall_ms
        )

    def failed(self, error: Error, wall_ms: Millis) -> MarkersWritten:
        """The whole message was lost or refused."""
        return self.answer(dict.fromkeys(self.partitions, error), wall_ms)
