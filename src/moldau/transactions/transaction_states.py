"""The states of a transactional id and the moves between them.

Pure. Numbers and names are Kafka's: the numbers stand in the transaction log, the names are what
tools show and filter by.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class State(IntEnum):
    EMPTY = 0
    """The producer is known and has not begun a transaction."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """The outcome is decided and durable; the markers are on their way."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Expired: the last step before the id is forgotten, never stored."""
    PREPARE_EPOCH_FENCE = 7
    """An open transaction is being taken from its producer: the step before its abort, never
    stored."""

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS: Final = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
    State.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
STATES_BY_LABEL: Final = {label: state for state, label in _LABELS.items()}

_AT_REST: Final = frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD})
MOVES: Final[dict[State, frozenset[State]]] = {
    # InitProducerId, a first partition, an abort of nothing (KIP-890), expiry.
    State.EMPTY: _AT_REST,
    # More partitions, EndTxn, a new producer or the time-out.
    State.ONGOING: frozenset(
        {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}
    ),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
    # All markers are written. Nothing else ends these two: what is decided stays decided.
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _AT_REST,
    State.COMPLETE_ABORT: _AT_REST,
    State.DEAD: frozenset(),
}
"""Where each state may lead."""

PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
EXPIRABLE: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
