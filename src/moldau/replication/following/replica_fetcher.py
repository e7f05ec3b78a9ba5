"""The loop that replicates from one leader: ask, append what comes, ask again.

What to ask and what an answer means is decided in `fetch_plan.py`; here are the calls, the logs and
the waiting. A broken disk takes the one replica offline; a leader that does not answer costs a
pause. The loop ends when it is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.log_line_limit import LogLimit
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.net.peers import PeerCalls, PeerUnreachable
from moldau.replication.following.fetch_plan import (
    Answered,
    FetchSettings,
    Followed,
    Following,
    Position,
    Range,
    Step,
    out_of_range,
    truncation_point,
)
from moldau.replication.following.replication_throttle import Throttle, names
from moldau.replication.offset_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from moldau.replication.replica import Replica
from moldau.replication.replica_flushing import when_flushed
from moldau.replication.replica_loading import load_all
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.storage_faults import StorageFault
from moldau.wire.messages.fetch import FetchablePartitionResponse, FetchRequest, FetchResponse
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

log = logging.getLogger("kafka.server.ReplicaFetcherThread")
log.addFilter(LogLimit())

LIST_OFFSETS_VERSION = 7
IDLE_MS: Millis = 60_000
THROTTLED_MS: Millis = 100
FLUSH_PATIENCE_MS: Millis = 100
"""How long everything that is fetched from one leader waits for flushes (flush.messages) of some;
where they take longer, only those partitions wait."""


class Fetcher:
    def __init__(
        self,
        leader: BrokerId,
        number: int,
        *,
        peers: PeerCalls,
        clock: Clock,
        timers: Timers,
        settings: Callable[[], FetchSettings],
        timeout_ms: Callable[[], Millis],
        broken: Callable[[Replica, StorageFault], None],
        throttle: Throttle,
    ) -> None:
        """`broken` hears of a replica whose disk failed."""
        self._throttle = throttle
        self.leader = leader
        self._number = number
        self._peers = peers
        self._clock = clock
        self._timers = timers
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._broken = broken
        self._following = Following()
        self._replicas: dict[TopicPartition, Replica] = {}
        self._changed = asyncio.Event()
        self._call: asyncio.Task[FetchResponse] | None = None
        self._lane = 0
        self.requests = 0
        """How many it has sent."""
        self._task: asyncio.Task[None] | None = None
        node_id = settings().node_id
        self._name = f"[ReplicaFetcher replicaId={node_id}, leaderId={leader}, fetcherId={number}]"

    def __len__(self) -> int:
        return len(self._following)

    @property
    def is_dead(self) -> bool:
        """Whether it has ended by a fault and does not run again yet."""
        return self._task is not None and self._task.done()

    def start(self) -> None:
        log.info("%s Starting", self._name)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), name=f"replica-fetcher-{self.leader}")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            log.info("%s Stopped", self._name)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("%s ended by a fault", self._name, exc_info=task.exception())
            if self._task is task:
                # A bug in one round must not leave partitions without a fetcher.
                self._following.start_over()
                self._timers.after(self._settings().backoff_ms, self._restart)

    def _restart(self) -> None:
        if self._task is not None:
            self.start()

    # What is followed

    def follow(self, replica: Replica) -> None:
        partition = replica.partition
        place = partition.topic_partition
        self._replicas[place] = replica
        followed = Followed(
            place, replica.log.topic_id, partition.leader_epoch, position_of(replica)
        )
        self._following.follow(followed)
        self._await_flush(followed, replica)
        self._hurry()

    def unfollow(self, place: TopicPartition) -> bool:
        self._replicas.pop(place, None)
        return self._following.unfollow(place)

    def leader_epoch(self, place: TopicPartition) -> int | None:
        followed = self._following.get(place)
        return None if followed is None else followed.leader_epoch

    def _hurry(self) -> None:
        """A fetch that waits at the leader does not know of a partition that came since: leave it
        and ask anew, over the other of two connections."""
        self._changed.set()
        if self._call is not None and not self._call.done():
            self._call.cancel()

    # The loop

    async def _run(self) -> None:
        while True:
            now, settings = self._clock.monotonic_ms(), self._settings()
            if self._throttle.is_exceeded(now):
                self._slow_down(now)
            request = self._following.request(now, settings)
            if request is None:
                await self._wait(self._following.ready_in_ms(now))
                continue
            response = await self._ask(request)
            if response is None:
                continue
            answered = self._following.answered(response, self._clock.monotonic_ms(), settings)
            await self._load(answered)
            out_of_reach = [each for each in answered if not self._take(each)]
            for each in out_of_reach:
                await self._look_for_range(each.followed)
            await self._await_flushes()

    async def _load(self, answered: Sequence[Answered]) -> None:
        """The logs that are about to change, those of them that are at rest."""
        at_rest = [
            replica
            for step, followed, row in answered
            if (replica := self._replicas.get(followed.place)) is not None
            and not isinstance(replica.log, PartitionLog)
            and (step is Step.TRUNCATE or (step is Step.APPEND and row.records))
        ]
        if at_rest:
            await load_all(at_rest)

    async def _wait(self, ready_in_ms: Millis | None) -> None:
        self._changed.clear()
        timer = self._timers.after(
            IDLE_MS if ready_in_ms is None else max(1, ready_in_ms), self._changed.set
        )
        try:
            await self._changed.wait()
        finally:
            timer.cancel()

    async def _ask(self, request: FetchRequest) -> FetchResponse | None:
        """None if there is no answer: it was left, or the leader cannot be reached."""
        self.requests += 1
        self._changed.clear()
        call = self._call = asyncio.ensure_future(
            self._peers.call(
                self.leader,
                request,
                timeout_ms=self._timeout_ms() + request.max_wait_ms,
                lane=f"replica-{self._number}-{self._lane}",
                version=self._following.version,
            )
        )
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            self._call = None
        if call.cancelled():
            self._lane = 1 - self._lane
            self._following.start_over()
            return None
        try:
            return call.result()
        except PeerUnreachable as fault:
            log.info("%s %s", self._name, fault)
            self._following.unreachable(self._clock.monotonic_ms(), self._settings())
            return None

    def _take(self, answered: Answered) -> bool:
        """Do what the answer means for one partition; False if the leader has to be asked."""
        step, followed, row = answered
        replica = self._replicas.get(followed.place)
        if replica is None or self._following.get(followed.place) is not followed:
            # Not followed any more since the answer came, or anew.
            return True
        try:
            if step is Step.APPEND:
                self._append(replica, row)
            elif step is Step.TRUNCATE:
                self._truncate(replica, row)
            elif step is Step.LOOK_FOR_RANGE:
                return False
            else:
                self._tell_of(step, followed, Error(row.error_code))
        except StorageFault as fault:
            self.unfollow(followed.place)
            self._broken(replica, fault)
            return True
        except ApiError as refusal:
            log.error("%s Found invalid messages in %s: %s", self._name, followed.place, refusal)
            followed.pause(self._clock.monotonic_ms(), self._settings().backoff_ms)
        followed.position = position_of(replica)
        followed.is_behind = followed.position.offset_end < row.high_watermark
        self._await_flush(followed, replica)
        return True

    # flush.messages: the next fetch tells the leader that all before it is on this disk

    def _await_flush(self, followed: Followed, replica: Replica) -> None:
        flushing = self._following.flushing
        flushing.add(followed.place)
        if not when_flushed(replica, partial(self._flushed, followed, replica)):
            flushing.discard(followed.place)

    def _flushed(self, followed: Followed, replica: Replica, fault: StorageFault | None) -> None:
        place = followed.place
        if self._following.get(place) is not followed:
            return
        if fault is not None:
            self.unfollow(place)
            self._broken(replica, fault)
            return
        self._following.flushing.discard(place)
        self._hurry()

    async def _await_flushes(self) -> None:
        deadline = self._clock.monotonic_ms() + FLUSH_PATIENCE_MS
        while self._following.flushing:
            left_ms = deadline - self._clock.monotonic_ms()
            if left_ms <= 0:
                return
            await self._wait(left_ms)

    def _append(self, replica: Replica, row: FetchablePartitionResponse) -> None:
        records = row.records
        assert not isinstance(records, tuple | list)
        loaded = _loaded(replica) if records else None
        replica.append_as_follower(loaded, records or b"", row.high_watermark, row.log_start_offset)
        if records and self._is_throttled(replica):
            self._throttle.record(len(records), self._clock.monotonic_ms())

    def _is_throttled(self, replica: Replica) -> bool:
        entries = replica.settings.follower_replication_throttled_replicas
        partition = replica.partition
        return names(entries, partition.topic_partition.partition, partition.node_id)

    def _slow_down(self, now: Millis) -> None:
        """Leave alone for a moment what may be throttled and is behind."""
        for place, replica in self._replicas.items():
            followed = self._following.get(place)
            if followed is not None and followed.is_behind and self._is_throttled(replica):
                followed.ready_ms = max(followed.ready_ms, now + THROTTLED_MS)

    def _truncate(self, replica: Replica, row: FetchablePartitionResponse) -> None:
        assert row.diverging_epoch is not None
        says = row.diverging_epoch.epoch, row.diverging_epoch.end_offset
        loaded, partition = _loaded(replica), replica.partition
        here = loaded.epoch_end_offset(says[0])
        offset = truncation_point(says, here, loaded.offset_end, partition.high_watermark)
        log.info(
            "%s Truncating partition %s to offset %d, the leader's epoch %d ends at %d",
            self._name,
            partition.topic_partition,
            offset,
            *says,
        )
        if offset < partition.high_watermark:
            log.warning(
                "%s Truncating %s to offset %d below high watermark %d",
                self._name,
                partition.topic_partition,
                offset,
                partition.high_watermark,
            )
        replica.truncate_to(loaded, offset)

    def _tell_of(self, step: Step, followed: Followed, error: Error) -> None:
        if step is Step.FENCED:
            log.info(
                "%s Partition %s has an older epoch (%d) than the current leader. Will await the "
                "new LeaderAndIsr state before resuming fetching.",
                self._name,
                followed.place,
                followed.leader_epoch,
            )
            return
        log.debug("%s Partition %s is refused: %s", self._name, followed.place, error.name)

    # Out of the leader's range

    async def _look_for_range(self, followed: Followed) -> None:
        settings = self._settings()
        try:
            start = await self._offset_at(followed, EARLIEST_TIMESTAMP)
            end = await self._offset_at(followed, LATEST_TIMESTAMP)
        except (PeerUnreachable, ApiError) as fault:
            log.info("%s Offsets of %s are unknown: %s", self._name, followed.place, fault)
            followed.pause(self._clock.monotonic_ms(), settings.backoff_ms)
            return
        replica = self._replicas.get(followed.place)
        if replica is None:
            return
        await load_all([replica])
        if self._following.get(followed.place) is not followed:
            return
        offset_end = replica.log.offset_end
        restart = out_of_range(offset_end, Range(start, end))
        try:
            loaded = _loaded(replica)
            if restart.truncate_to is not None:
                log.warning(
                    "%s Reset fetch offset for partition %s from %d to current leader's latest "
                    "offset %d",
                    *(self._name, followed.place, offset_end, restart.truncate_to),
                )
                replica.truncate_to(loaded, restart.truncate_to)
            elif restart.start_at is not None:
                log.warning(
                    "%s Reset fetch offset for partition %s from %d to current leader's start "
                    "offset %d",
                    *(self._name, followed.place, offset_end, restart.start_at),
                )
                replica.start_over_at(loaded, restart.start_at)
            else:
                followed.pause(self._clock.monotonic_ms(), settings.backoff_ms)
        except StorageFault as fault:
            self.unfollow(followed.place)
            self._broken(replica, fault)
            return
        followed.position = position_of(replica)

    async def _offset_at(self, followed: Followed, timestamp: Millis) -> int:
        place = followed.place
        row = ListOffsetsPartition(
            partition_index=place.partition,
            current_leader_epoch=followed.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._settings().node_id,
            topics=[ListOffsetsTopic(name=place.topic, partitions=[row])],
        )
        response = await self._peers.call(
            self.leader,
            request,
            timeout_ms=self._timeout_ms(),
            lane=f"replica-{self._number}-{self._lane}",
            version=LIST_OFFSETS_VERSION,
        )
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise ApiError(Error(answer.error_code), f"the leader refused to tell of {place}")
        offset: int = answer.offset
        return offset


def _loaded(replica: Replica) -> PartitionLog:
    """Raises StorageFault if the log could not be loaded."""
    if isinstance(replica.log, PartitionLog):
        return replica.log
    raise StorageFault("cannot use", replica.log.directory, reason="its files cannot be loaded")


def position_of(replica: Replica) -> Position:
    log_of = replica.log
    return Position(log_of.offset_end, log_of.latest_epoch, log_of.log_start_offset)
