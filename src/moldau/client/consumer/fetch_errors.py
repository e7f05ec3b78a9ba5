"""What fetches have failed with, until a poll can tell it: not before what was read ahead of it.

Belongs to the loop. At most one failure per partition is kept, and that partition is not fetched
meanwhile; a seek or a new assignment makes it void.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.client.consumer.subscription_state import PartitionState, Positions
from moldau.client.shared.client_errors import KafkaError
from moldau.model.names import TopicPartition


class _Failure(NamedTuple):
    state: PartitionState
    round: int
    offset: int | None
    error: KafkaError


class FetchFailures:
    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._kept: dict[TopicPartition, _Failure] = {}
        self.of_all: KafkaError | None = None
        """What keeps a broker from being asked at all."""

    def __bool__(self) -> bool:
        return self.of_all is not None or bool(self._kept)

    def __contains__(self, state: PartitionState) -> bool:
        failure = self._kept.get(state.tp)
        return failure is not None and failure.round == state.round

    def add(self, state: PartitionState, error: KafkaError) -> None:
        """The fetch that was due next has failed."""
        self._kept[state.tp] = _Failure(state, state.round, state.fetch_offset, error)

    def pop(self) -> KafkaError | None:
        """What a poll has to raise now; it is told once, and then the fetch is tried again."""
        fault, self.of_all = self.of_all, None
        if fault is not None:
            return fault
        for tp, (state, round, offset, error) in list(self._kept.items()):
            if not self._positions.is_current(state, round):
                del self._kept[tp]
            elif state.position == offset and not state.is_paused:
                del self._kept[tp]
                return error
        return None
