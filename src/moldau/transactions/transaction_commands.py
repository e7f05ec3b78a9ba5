"""What the transaction coordinator can be asked, what it answers, and what it sends.

Pure. Handlers make the commands from requests, jobs and the outbox make the others. The machine
asks no clock and makes no ids: where an answer is `ProducerIdNeeded`, the same command is given
again with a `new_producer_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from moldau.engine.machine import Command
from moldau.model.errors import Error
from moldau.model.names import Millis, TopicPartition
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from moldau.transactions.transaction_facts import VERSION_1, Topics, Transaction
from moldau.transactions.transaction_states import State


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


@dataclass(frozen=True, slots=True)
class InitProducer(Command[ProducerGranted | ProducerIdNeeded]):
    grows = True
    transactional_id: str
    timeout_ms: Millis
    expected_producer_id: int = NO_PRODUCER_ID
    """What a producer that recovers from an error believes to be (KIP-360)."""
    expected_epoch: int = NO_PRODUCER_EPOCH
    new_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class AddPartitions(Command[Mapping[TopicPartition, Error]]):
    """Answered by an error for each partition."""

    grows = True

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    verify_only: bool = False
    """Only tell whether they are in the transaction."""
    client_version: int = VERSION_1


@dataclass(frozen=True, slots=True)
class EndTransaction(Command[ProducerGranted | ProducerIdNeeded]):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int = VERSION_1
    new_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class DescribeTransaction(Command[Transaction]):
    """Answered by the Transaction; while markers are on their way it has only the partitions that
    still await one."""

    transactional_id: str


class IdPattern(Protocol):
    def matches(self, text: str) -> bool:
        """Whether all of the text fits."""


@dataclass(frozen=True, slots=True)
class ListTransactions(Command[list[Transaction]]):
    """Answered by a list of Transactions."""

    states: frozenset[State] | None = None
    """None for all; an empty set for none."""
    producer_ids: frozenset[int] = frozenset()
    """Empty for all."""
    older_than_ms: Millis = -1
    """Negative for all."""
    pattern: IdPattern | None = None


@dataclass(frozen=True, slots=True)
class AbortTimedOut(Command[TimedOut]):
    """The periodic job. Answered by `TimedOut`."""

    new_producer_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpireTransactionalIds(Command[Expired]):
    """The periodic job. Answered by `Expired`."""


class Loaded(NamedTuple):
    """All facts of the past are applied: decided transactions have to be completed."""

    topics: Topics


class TopicsChanged(NamedTuple):
    """Partitions have come, gone, or have another leader."""

    topics: Topics


@dataclass(frozen=True, slots=True)
class MarkersWritten(Command[None]):
    """What became of a `WriteMarkers`; made by its `answer`."""

    transactional_id: str
    round: int
    coordinator_epoch: int
    results: Mapping[TopicPartition, Error]


class RetryMarkers(NamedTuple):
    """By a timer: send the markers that are not on their way."""

    transactional_id: str
    round: int


@dataclass(frozen=True, slots=True)
class ResendMarkers(Command[int]):
    """The periodic job: send all markers again where nobody has answered for too long. Answered by
    the number of such transactions."""


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

    def answer(self, results: Mapping[TopicPartition, Error]) -> MarkersWritten:
        return MarkersWritten(self.transactional_id, self.round, self.coordinator_epoch, results)

    def failed(self, error: Error) -> MarkersWritten:
        """The whole message was lost or refused."""
        return self.answer(dict.fromkeys(self.partitions, error))
