"""The in-sync replicas of a partition as its leader sees them, with a change of them under way.

Pure. Only the controller changes the ISR: the leader proposes (AlterPartition, KIP-497) and waits.
Meanwhile the high watermark goes by the larger of the two sets, which is right whatever the
answer: who may join counts already, who is to leave counts still.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from moldau.model.errors import Error
from moldau.model.names import BrokerId, TopicId, TopicPartition

NOBODY: frozenset[BrokerId] = frozenset()


class Committed(NamedTuple):
    """What the controller has said; nothing is under way."""

    isr: frozenset[BrokerId] = NOBODY

    @property
    def maximal(self) -> frozenset[BrokerId]:
        return self.isr

    def expand(self, follower: BrokerId) -> PendingExpand:
        return PendingExpand(self, follower)

    def shrink(self, lagging: frozenset[BrokerId]) -> PendingShrink:
        return PendingShrink(self, lagging)


class PendingExpand(NamedTuple):
    committed: Committed
    joining: BrokerId

    @property
    def isr(self) -> frozenset[BrokerId]:
        return self.committed.isr

    @property
    def maximal(self) -> frozenset[BrokerId]:
        return self.committed.isr | {self.joining}

    @property
    def proposed(self) -> frozenset[BrokerId]:
        return self.maximal


class PendingShrink(NamedTuple):
    committed: Committed
    leaving: frozenset[BrokerId]

    @property
    def isr(self) -> frozenset[BrokerId]:
        return self.committed.isr

    @property
    def maximal(self) -> frozenset[BrokerId]:
        # The controller may refuse: to count without them now could commit what they lack.
        return self.committed.isr

    @property
    def proposed(self) -> frozenset[BrokerId]:
        return self.committed.isr - self.leaving


Pending = PendingExpand | PendingShrink
IsrState = Committed | PendingExpand | PendingShrink


class IsrProposal(NamedTuple):
    """What the leader asks of the controller."""

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    state: Pending
    """An answer counts only while this is still the partition's state."""


class IsrAnswer(NamedTuple):
    """What the controller said about one partition."""

    error: Error
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[BrokerId, ...] = ()


class AfterRefusal(Enum):
    REVERT = "revert"
    """Surely not applied: the committed state holds, and another proposal may follow."""
    AWAIT = "await"
    """What is known here is out of date: the next LeaderAndIsr tells."""
    RETRY = "retry"


_REVERTED = frozenset({Error.OPERATION_NOT_ATTEMPTED, Error.INELIGIBLE_REPLICA})
_AWAITED = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.FENCED_LEADER_EPOCH,
        Error.INVALID_UPDATE_VERSION,
        Error.INVALID_REQUEST,
        Error.NEW_LEADER_ELECTED,
    }
)


def after_refusal(error: Error) -> AfterRefusal:
    if error in _REVERTED:
        return AfterRefusal.REVERT
    return AfterRefusal.AWAIT if error in _AWAITED else AfterRefusal.RETRY


def isr_text(isr: Iterable[BrokerId]) -> str:
    return ",".join(map(str, isr))
