"""The end of a transaction in the partitions that this broker leads: a control batch in each.

Readers of committed data wait for it, so their parked fetches are looked at again. In the topic of
group offsets the marker also makes the transaction's offsets valid or drops them: there it goes
through the group coordinator, which writes it as a fact of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from moldau.coordinators.coordinator_errors import of_partition
from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis, Offset, TopicPartition
from moldau.records.batch_codec import ControlType, EndMarker, encode_marker
from moldau.replication.replica import Replica
from moldau.replication.replica_flushing import Flushing, flushing
from moldau.replication.replica_loading import at_rest, load
from moldau.replication.replicas import Replicas
from moldau.storage.log_state.producer_state import ProducerStates

OFFSETS_TOPIC = "__consumer_offsets"

MARKERS_PER_TURN = 100
"""Written before others are served in between."""


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
EndInGroups = Callable[[int, TransactionEnd], asyncio.Future[None]]
"""By partition of the offsets topic."""


class _Uncommitted(NamedTuple):
    results: Results
    place: TopicPartition
    replica: Replica
    offset_end: Offset
    tenure: int


class Writing(NamedTuple):
    """One end, written to the logs here; not every in-sync replica may have it yet."""

    end: TransactionEnd
    results: Results
    at_rest: list[tuple[TopicPartition, Replica]]
    """Not written yet: their logs have to be loaded first."""
    unflushed: list[tuple[TopicPartition, Replica, Flushing]]
    uncommitted: list[_Uncommitted]
    by_groups: list[tuple[TopicPartition, asyncio.Future[None]]]

    @property
    def is_settled(self) -> bool:
        waits = self.at_rest or self.unflushed or self.uncommitted or self.by_groups
        return not waits


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
        begun: list[Writing] = []
        for number, end in enumerate(ends, 1):
            begun.append(await self.begin(end))
            if number % MARKERS_PER_TURN == 0:
                await asyncio.sleep(0)
        return [await self.settled(each, deadline_ms) for each in begun]

    async def begin(self, end: TransactionEnd) -> Writing:
        """Write the markers; whether all are settled then says the result. A marker that comes so
        late that another coordinator has begun is refused: it carries the coordinator's epoch."""
        writing = Writing(end, {}, [], [], [], [])
        for number, place in enumerate(end.partitions, 1):
            self._begin_at(writing, place)
            if number % MARKERS_PER_TURN == 0:
                await asyncio.sleep(0)
        return writing

    def _begin_at(self, writing: Writing, place: TopicPartition) -> None:
        try:
            replica = self._replicas.find(*place)
            if replica.is_mirror:
                # Nothing of a transaction of this cluster is in it, or that is cut off.
                writing.results[place] = Error.NONE
                return
            if replica.producers is None:
                # In the transaction, but never written to by it.
                writing.at_rest.append((place, replica))
                return
            if place.topic == OFFSETS_TOPIC:
                submitted = self._submit(writing.end, place, replica, replica.producers)
                writing.by_groups.append((place, submitted))
                return
            offset_end = self._append(writing.end, replica)
        except ApiError as refusal:
            writing.results[place] = refusal.error
            return
        writing.results[place] = Error.NONE
        if replica.flushes and (under_way := flushing(replica)) is not None:
            writing.unflushed.append((place, replica, under_way))
        partition = replica.partition
        if partition.high_watermark < offset_end:
            writing.uncommitted.append(
                _Uncommitted(writing.results, place, replica, offset_end, partition.tenure)
            )

    async def settled(self, writing: Writing, deadline_ms: Millis) -> Results:
        """What became of every partition, when the in-sync replicas have it or time is up."""
        for place, replica in writing.at_rest[:]:
            try:
                await load(replica)
            except ApiError as refusal:
                writing.results[place] = refusal.error
            else:
                self._begin_at(writing, place)
        if writing.uncommitted:
            await self._commit(writing.uncommitted, deadline_ms)
        for place, replica, under_way in writing.unflushed:
            error = await self._flush(replica, under_way, deadline_ms)
            if error is not Error.NONE:
                writing.results[place] = error
        for place, future in writing.by_groups:
            writing.results[place] = await self._outcome(future, deadline_ms)
        return writing.results

    async def _flush(self, replica: Replica, under_way: Flushing, deadline_ms: Millis) -> Error:
        remaining_ms = deadline_ms - self._clock.monotonic_ms()
        try:
            fault = await self._timers.within(remaining_ms, under_way, "it is not flushed in time")
        except ApiError as refusal:
            return of_partition(refusal.error)
        return Error.NONE if fault is None else of_partition(replica.refuse(fault).error)

    def _append(self, end: TransactionEnd, replica: Replica) -> Offset:
        batch = encode_marker(
            end.marker,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            timestamp=self._clock.wall_ms(),
        )
        appended = replica.append_as_coordinator(bytearray(batch), end.transaction_version)
        if appended is None:
            raise at_rest(replica)
        return appended.offset_last + 1

    def _submit(
        self,
        end: TransactionEnd,
        place: TopicPartition,
        replica: Replica,
        producers: ProducerStates,
    ) -> asyncio.Future[None]:
        replica.partition.check_leader()
        # The coordinator's journal knows nothing of versions; nothing can come between this check
        # and its append.
        producers.check_marker(
            end.producer_id,
            end.producer_epoch,
            end.marker,
            replica.log.offset_end,
            end.transaction_version,
        )
        return self._end_in_groups(place.partition, end)

    async def _commit(self, uncommitted: list[_Uncommitted], deadline_ms: Millis) -> None:
        """Wait for the in-sync replicas; what they do not get in time is told as such."""
        left = await self._replicas.waiting.until_settled(
            uncommitted,
            lambda each: each.replica,
            _is_settled,
            deadline_ms - self._clock.monotonic_ms(),
        )
        for each in left:
            each.results[each.place] = Error.REQUEST_TIMED_OUT

    async def _outcome(self, future: asyncio.Future[None], deadline_ms: Millis) -> Error:
        remaining_ms = deadline_ms - self._clock.monotonic_ms()
        try:
            await self._timers.within(remaining_ms, future, "the offsets are not stored in time")
        except ApiError as refusal:
            return of_partition(refusal.error)
        return Error.NONE


def _is_settled(each: _Uncommitted) -> bool:
    try:
        return each.replica.is_committed(each.offset_end, each.tenure)
    except ApiError as refusal:
        each.results[each.place] = refusal.error
        return True
