"""Where reading starts: from committed offsets, by auto.offset.reset, after a seek to an edge.

Also the check whether a new leader's log still has what was read from the old one (KIP-320).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from time import time

from moldau.client.cluster import Cluster
from moldau.client.consumer_commits import Commits
from moldau.client.consumer_offsets import OffsetLookup
from moldau.client.errors import LogTruncationError, NoOffsetForPartitionError, error_for
from moldau.client.network import coordinator_node
from moldau.client.positions import LATEST, PartitionState, Positions, reset_timestamp
from moldau.model.errors import RETRIABLE
from moldau.model.names import TopicPartition
from moldau.wire.messages.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


class PositionUpkeep:
    """Resets positions that were lost or never known, and checks those that met a new leader."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        lookup: OffsetLookup,
        *,
        auto_offset_reset: str,
        prefix: str,
    ) -> None:
        self.commits: Commits | None = None
        """Where committed offsets are; None without a group."""
        self._policy = auto_offset_reset
        self._cluster = cluster
        self._positions = positions
        self._lookup = lookup
        self._prefix = prefix
        self._log = logging.getLogger("moldau.consumer.fetcher")

    def reset_by_policy(self, state: PartitionState) -> bool:
        """False if the user wants to be told instead (auto.offset.reset=none)."""
        timestamp = reset_timestamp(self._policy, int(time() * 1000))
        if timestamp is None:
            return False
        state.reset(timestamp)
        return True

    async def start(self, states: Collection[PartitionState], timeout_ms: int) -> None:
        """From the committed offset if there is one, else by auto.offset.reset."""
        if not states:
            return
        rounds = {state.tp: state.round for state in states}
        known = {}
        if self.commits is not None:
            known = await self.commits.committed([state.tp for state in states], timeout_ms)
        lost: list[TopicPartition] = []
        for state in states:
            if not self._positions.is_current(state, rounds[state.tp]):
                continue
            committed = known.get(state.tp)
            if committed is not None:
                self._log.info(
                    "%sSetting offset for partition %s to the committed offset %d",
                    *(self._prefix, state.tp, committed.offset),
                )
                state.seek(committed.offset, committed.leader_epoch)
            elif not self.reset_by_policy(state):
                lost.append(state.tp)
        if lost:
            raise NoOffsetForPartitionError(
                "Undefined offset with no reset policy for partitions: "
                + ", ".join(map(str, sorted(lost)))
            )

    async def reset(self, timeout_ms: int) -> None:
        """Look up every position that waits for it; a seek in the meantime wins."""
        waiting = {state.tp: state for state in self._positions.to_reset()}
        times = {tp: state.reset_to for tp, state in waiting.items() if state.reset_to is not None}
        if not times:
            return
        rounds = {tp: state.round for tp, state in waiting.items()}
        found = await self._lookup.find(times, timeout_ms)
        late = [tp for tp, row in found.items() if row.offset < 0 and times[tp] >= 0]
        if late:
            # Nothing is as young as the wanted time: start at the end.
            found |= await self._lookup.find(dict.fromkeys(late, LATEST), timeout_ms)
        for tp, row in found.items():
            state = waiting[tp]
            if self._positions.is_current(state, rounds[tp]):
                state.seek(row.offset)
                self._log.info(
                    "%sResetting offset for partition %s to position %d.",
                    *(self._prefix, tp, row.offset),
                )

    async def validate(self) -> None:
        """Ask the new leaders where the epochs end that were read last."""
        waiting = [s for s in self._positions.partitions.values() if s.is_validating]
        for state in waiting:
            leader = self._cluster.leader(*state.tp)
            if leader is None:
                await self._cluster.refresh([state.tp.topic], allow_auto_create=False)
                continue
            await self._validate(state, *leader)

    async def _validate(self, state: PartitionState, node_id: int, leader_epoch: int) -> None:
        tp, asked_in = state.tp, state.round
        row = OffsetForLeaderPartition(
            partition=tp.partition, current_leader_epoch=leader_epoch, leader_epoch=state.epoch
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=tp.topic, partitions=[row])]
        )
        response = await self._cluster.network.call(coordinator_node(node_id), request)
        answer = response.topics[0].partitions[0]
        if not self._positions.is_current(state, asked_in):
            return
        if answer.error_code:
            if answer.error_code not in RETRIABLE:
                raise error_for(answer.error_code)
            await self._cluster.refresh([tp.topic], allow_auto_create=False)
            return
        state.is_validating = False
        state.leader_epoch = leader_epoch
        assert state.position is not None, tp
        if 0 <= answer.end_offset < state.position:
            text = f"{tp} was truncated to offset {answer.end_offset} below {state.position}"
            if self._policy == "none":
                raise LogTruncationError(f"{text}, and auto.offset.reset is none")
            self._log.warning("%s%s: going on from there", self._prefix, text)
            state.seek(answer.end_offset, answer.leader_epoch)
