"""Where reading starts: from committed offsets, by auto.offset.reset, after a seek to an edge.

Also the check whether a new leader's log still has what was read from the old one (KIP-320).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from time import time

from moldau.client.consumer.offset_commits import Commits
from moldau.client.consumer.partition_offsets import OffsetLookup
from moldau.client.consumer.subscription_state import (
    LATEST,
    PartitionState,
    Positions,
    reset_timestamp,
)
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.network.network_client import coordinator_node
from moldau.client.shared.client_errors import (
    KafkaError,
    LogTruncationError,
    NoOffsetForPartitionError,
    UnsupportedVersionError,
    error_for,
)
from moldau.model.errors import RETRIABLE, Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.offsets import (
    EpochEndOffset,
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

    def meet_leaders(self) -> None:
        """Inside a poll, so while nobody takes records: forget what old leaders sent ahead."""
        for tp, state in self._positions.partitions.items():
            if state.has_new_leader:
                state.meet_leader(self._cluster.topic_id(tp.topic))

    async def validate(self) -> None:
        """Ask the new leaders where the epochs end that were read last."""
        waiting = {s.tp: s for s in self._positions.partitions.values() if s.is_validating}
        if not waiting:
            return
        led, unknown = self._cluster.group_by_leader(waiting)
        truncated: list[str] = []
        for node_id, some in led.items():
            truncated += await self._validate(node_id, [waiting[tp] for tp in some])
        if any(state.is_validating for state in waiting.values()) or unknown:
            await self._cluster.refresh({tp.topic for tp in waiting}, allow_auto_create=False)
        if truncated:
            raise LogTruncationError(
                f"{', '.join(truncated)}, and auto.offset.reset is none: seek to go on"
            )

    async def _validate(self, node_id: int, states: Collection[PartitionState]) -> list[str]:
        """What was truncated and must be told to the user."""
        asked = {state.tp: (state, state.round, self._epoch(state.tp)) for state in states}
        topics: dict[str, OffsetForLeaderTopic] = {}
        for tp, (state, _, epoch) in asked.items():
            row = OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=epoch, leader_epoch=state.epoch
            )
            topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic))
            topic.partitions.append(row)
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
        truncated: list[str] = []
        try:
            response = await self._cluster.network.call(coordinator_node(node_id), request)
        except UnsupportedVersionError:
            # A broker that cannot say where epochs end is believed.
            for state, _, epoch in asked.values():
                state.believe(epoch)
            return truncated
        except KafkaError as fault:
            if not fault.retriable and fault.code is not Error.BROKER_NOT_AVAILABLE:
                raise
            return truncated
        for topic_row in response.topics:
            for answer in topic_row.partitions:
                tp = TopicPartition(topic_row.topic, answer.partition)
                state, round, epoch = asked[tp]
                if not self._positions.is_current(state, round):
                    continue
                if answer.error_code:
                    if answer.error_code not in RETRIABLE:
                        raise error_for(answer.error_code)
                elif text := self._judge(state, answer, epoch):
                    truncated.append(text)
        return truncated

    def _epoch(self, tp: TopicPartition) -> int:
        leader = self._cluster.leader(*tp)
        return -1 if leader is None else leader[1]

    def _judge(self, state: PartitionState, answer: EpochEndOffset, epoch: int) -> str | None:
        """Go on, or from where the logs part; what to tell if the user wants to decide that."""
        position, end = state.position, answer.end_offset
        assert position is not None, state.tp
        if end >= position:
            state.believe(epoch)
            return None
        text = f"{state.tp} was truncated to offset {end} below {position}"
        if end < 0:
            text = f"{state.tp} was truncated, nothing is left of epoch {state.epoch}"
        if self._policy == "none":
            # The position stays in doubt, so the next poll says so again.
            return text
        self._log.warning("%s%s: going on from there", self._prefix, text)
        if end < 0:
            self.reset_by_policy(state)
        else:
            state.seek_valid(end, answer.leader_epoch)
            state.believe(epoch)
        return None
