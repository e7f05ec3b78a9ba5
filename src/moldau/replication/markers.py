"""The end of a transaction in the partitions that this broker leads: a control batch in each.

Readers of committed data wait for it, so their parked fetches are looked at again. In the topic of
group offsets the marker also makes the transaction's offsets valid or drops them: there it goes
through the group coordinator, which writes it as a fact of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis, Offset, TopicPartition
from moldau.records.codec import ControlType, EndMarker, encode_marker
from moldau.replication.replica import Replica
from moldau.replication.replicas import Replicas
from moldau.replication.waiting import Watched

OFFSETS_TOPIC = "__consumer_offsets"

_TOLD_AS = {
    Error.COORDINATOR_NOT_AVAILABLE: Error.NOT_LEADER_OR_FOLLOWER,
    Error.COORDINATOR_LOAD_IN_PROGRESS: Error.NOT_LEADER_OR_FOLLOWER,
    Error.NOT_COORDINATOR: Error.NOT_LEADER_OR_FOLLOWER,
}
"""A transaction coordinator asks for markers in partitions; of group coordinators it knows
nothing."""


class TransactionEnd(NamedTuple):
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int
    """From 2 on the epoch must be newer than that of the records it decides about (KIP-890)."""
    partitions: tuple[TopicPartition, ...]

    @property
    def marker(self) -> EndMarker:
        kind = ControlType.COMMIT if self.committed else ControlType.ABORT
        return EndMarker(kind, self.coordinator_epoch)


Results = dict[TopicPartition, Error]
EndInGroups = Callable[[int, TransactionEnd], asyncio.Future[object]]
"""By partition of the offsets topic."""


class _Uncommitted(NamedTuple):
    results: Results
    place: TopicPartition
    replica: Replica
    offset_end: Offset
    tenure: int


class MarkerWriter:
    def __init__(
        self, replicas: Replicas, clock: Clock, timers: Timers, end_in_groups: EndInGroups
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._timers = timers
        self._end_in_groups = end_in_groups

    async def write(
        self, ends: Sequence[TransactionEnd], timeout_ms: Millis
    ) -> list[Mapping[TopicPartition, Error]]:
        """What became of every partition of every transaction, in the order of the ends; in time,
        because other transactions wait behind these."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        written: list[Mapping[TopicPartition, Error]] = []
        uncommitted: list[_Uncommitted] = []
        by_groups: list[tuple[Results, TopicPartition, asyncio.Future[object]]] = []
        for end in ends:
            results: Results = {}
            written.append(results)
            for place in end.partitions:
                try:
                    replica = self._replicas.find(*place)
                    if place.topic == OFFSETS_TOPIC:
                        future = self._submit(end, place, replica)
                        by_groups.append((results, place, future))
                        continue
                    offset_end = self._append(end, replica)
                except ApiError as refusal:
                    results[place] = refusal.error
                    continue
                results[place] = Error.NONE
                partition = replica.partition
                if partition.high_watermark < offset_end:
                    uncommitted.append(
                        _Uncommitted(results, place, replica, offset_end, partition.tenure)
                    )
        if uncommitted:
            await self._commit(uncommitted, deadline_ms)
        for results, place, future in by_groups:
            results[place] = await self._outcome(future, deadline_ms)
        return written

    def _append(self, end: TransactionEnd, replica: Replica) -> Offset:
        batch = encode_marker(
            end.marker,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            timestamp=self._clock.wall_ms(),
        )
        appended = replica.append_as_coordinator(bytearray(batch), end.transaction_version)
        return appended.offset_last + 1

    def _submit(
        self, end: TransactionEnd, place: TopicPartition, replica: Replica
    ) -> asyncio.Future[object]:
        replica.partition.check_leader()
        # The coordinator's journal knows nothing of versions; nothing can come between this check
        # and its append.
        replica.log.producers.check_marker(
            end.producer_id,
            end.producer_epoch,
            end.marker,
            replica.log.offset_end,
            end.transaction_version,
        )
        return self._end_in_groups(place.partition, end)

    async def _commit(self, uncommitted: list[_Uncommitted], deadline_ms: Millis) -> None:
        """Wait for the in-sync replicas; what they do not get in time is told as such."""
        left = list(uncommitted)

        def settle(_: Watched | None = None) -> bool:
            left[:] = [each for each in left if not _is_settled(each)]
            return not left

        while not settle():
            remaining_ms = deadline_ms - self._clock.monotonic_ms()
            watched = [each.replica for each in left]
            if not await self._replicas.waiting.until(watched, settle, remaining_ms):
                break
        for each in left:
            each.results[each.place] = Error.REQUEST_TIMED_OUT

    async def _outcome(self, future: asyncio.Future[object], deadline_ms: Millis) -> Error:
        remaining_ms = deadline_ms - self._clock.monotonic_ms()
        try:
            await self._timers.within(remaining_ms, future, "the offsets are not stored in time")
        except ApiError as refusal:
            return _TOLD_AS.get(refusal.error, refusal.error)
        return Error.NONE


def _is_settled(each: _Uncommitted) -> bool:
    try:
        return each.replica.is_committed(each.offset_end, each.tenure)
    except ApiError as refusal:
        each.results[each.place] = refusal.error
        return True
