"""What the broker's log says about transactions, in Kafka's words.

Pure. An observer of committed facts writes the lines; nothing here does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.model.errors import Error
from moldau.model.names import BrokerId
from moldau.transactions.transaction_facts import Cause, MarkersRefused, TransactionMoved
from moldau.transactions.transaction_states import State

COORDINATOR_LOGGER = "kafka.coordinator.transaction.TransactionCoordinator"
MARKERS_LOGGER = "kafka.coordinator.transaction.TransactionMarkerRequestCompletionHandler"


class LogLine(NamedTuple):
    logger: str
    text: str


def lines(facts: Iterable[object], partition: int, node_id: BrokerId) -> Iterator[LogLine]:
    """INFO lines for the committed facts of a decision about a partition of the log."""
    for line in _said(facts, partition, node_id):
        yield line._replace(text=_on_one_line(line.text))


def _on_one_line(text: str) -> str:
    """Transactional ids are what clients sent: none of them may forge a line of its own."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def _said(facts: Iterable[object], partition: int, node_id: BrokerId) -> Iterator[LogLine]:
    prefix = f"[TransactionCoordinator id={node_id}]"
    for fact in facts:
        match fact:
            case TransactionMoved(after) if after.state is State.EMPTY:
                yield LogLine(
                    COORDINATOR_LOGGER,
                    f"{prefix} Initialized transactionalId {after.transactional_id} with "
                    f"producerId {after.producer_id} and producer epoch {after.producer_epoch} on "
                    f"partition __transaction_state-{partition}",
                )
            case TransactionMoved(after, Cause.TIMEOUT):
                yield LogLine(
                    COORDINATOR_LOGGER,
                    f"{prefix} Completed rollback of ongoing transaction for transactionalId "
                    f"{after.transactional_id} due to timeout",
                )
            case MarkersRefused(name, place, error):
                yield LogLine(
                    MARKERS_LOGGER,
                    f"[Transaction Marker Request Completion Handler {node_id}]: Sending {name}'s "
                    f"transaction marker for partition {place} has permanently failed with error "
                    f"{Error(error).name}; no more markers of this transaction are sent",
                )
