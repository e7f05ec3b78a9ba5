"""Keeps records coming: one fetch per broker is always under way while there is room for more.

`pump` looks at all partitions and starts the fetches that make sense; everything that may change
the picture calls it: an answer, a seek, a new assignment, records taken. Fetches run ahead of the
user up to fetch.max.bytes in all and a few fetches per partition. What arrives waits as bytes in
`ready`; decoding is left to whoever takes it, so `ready` may be emptied from another thread. What
went wrong waits too, until the user has read up to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from moldau.client.consumer.fetch_errors import FetchFailures
from moldau.client.consumer.fetch_session import EPOCH_NONE, FetchSession, FetchSettings, Want
from moldau.client.consumer.subscription_state import PartitionState, Positions
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.network.network_client import coordinator_node
from moldau.client.serialization.fetched_batches import Fetched, batches_of
from moldau.client.shared.client_errors import (
    KafkaError,
    NoOffsetForPartitionError,
    code_of,
    error_for,
)
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchRequest,
    FetchResponse,
)

AHEAD_FETCHES = 4
"""How many fetches of a partition may wait to be read."""

Rounds = dict[TopicPartition, tuple[int, int]]
"""For each partition that was asked for, in which round and from which offset."""

_STALE_LEADER = {
    Error.NOT_LEADER_OR_FOLLOWER,
    Error.REPLICA_NOT_AVAILABLE,
    Error.KAFKA_STORAGE_ERROR,
    Error.FENCED_LEADER_EPOCH,
    Error.OFFSET_NOT_AVAILABLE,
    Error.UNKNOWN_LEADER_EPOCH,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.UNKNOWN_TOPIC_ID,
    Error.INCONSISTENT_TOPIC_ID,
    Error.LEADER_NOT_AVAILABLE,
}


class Fetcher:
    """Belongs to the loop; of its methods only `ready` is for other threads."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        settings: FetchSettings,
        *,
        on_ready: Callable[[], None],
        reset: Callable[[PartitionState], bool],
        prefix: str,
    ) -> None:
        """`on_ready` is told of data and failures; `reset` has a lost position looked up, or
        says that the user wants to be told."""
        self._cluster = cluster
        self._positions = positions
        self._settings = settings
        self._on_ready = on_ready
        self._reset = reset
        self._log = logging.getLogger("moldau.consumer.fetcher")
        self._prefix = prefix
        self._sessions: dict[int, FetchSession] = {}
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._asked: dict[int, Rounds] = {}
        self._probed: Rounds = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._version = -1
        self.ready: deque[Fetched] = deque()
        self.failures = FetchFailures(positions)
        self.is_full = False
        """Whether something was not fetched for want of room: taking records should pump."""

    def pump(self) -> None:
        if self._is_closed:
            return
        wanted: dict[int, dict[TopicPartition, Want]] = {}
        held = self._held()
        is_full = held.total() >= max(self._settings.max_bytes, 1)
        self.is_full = is_full
        now, failures = self._loop.time(), self.failures
        for tp, state in self._positions.partitions.items():
            if state.fetch_offset is None or state in failures:
                continue
            if self._is_led_anew(state) or not state.is_readable:
                continue
            if state.retry_at > now:
                self._loop.call_at(state.retry_at, self.pump)
                continue
            if is_full or held[tp] >= AHEAD_FETCHES * self._settings.partition_max_bytes > 0:
                self.is_full = True
                continue
            node_id = self._node_for(state, now)
            if node_id is not None:
                wanted.setdefault(node_id, {})[tp] = self._want(tp, state)
        for node_id, wants in wanted.items():
            if node_id in self._under_way:
                self._probe(node_id, wants)
            else:
                self._start(node_id, wants)

    def _held(self) -> Counter[TopicPartition]:
        """How many bytes wait to be read; what is stale is dropped, what is paused holds up
        nobody else."""
        held = Counter[TopicPartition]()
        for fetched in list(self.ready):
            state = self._positions.partitions.get(fetched.tp)
            if state is None or state.round != fetched.round:
                with suppress(ValueError):
                    # Whoever takes records may have found it first.
                    self.ready.remove(fetched)
            elif not state.is_paused:
                held[fetched.tp] += fetched.size_bytes
        return held

    def _want(self, tp: TopicPartition, state: PartitionState) -> Want:
        assert state.fetch_offset is not None, tp
        return Want(
            self._cluster.topic_id(tp.topic),
            state.fetch_offset,
            state.leader_epoch,
            self._settings.partition_max_bytes,
        )

    def notice_leaders(self) -> None:
        """If there is news of the cluster: stop handing out what other leaders sent ahead."""
        if self.has_news:
            self._version = self._cluster.version
            for state in self._positions.partitions.values():
                self._is_led_anew(state)

    @property
    def has_news(self) -> bool:
        return self._version != self._cluster.version

    def _is_led_anew(self, state: PartitionState) -> bool:
        """Whether the position must be checked: another leader may have a shorter log than the
        one that was read (KIP-320), and a topic made anew another log."""
        found = self._cluster.leader(*state.tp)
        if found is None or state.is_validating or state.has_new_leader:
            return state.has_new_leader
        topic_id, epoch = self._cluster.topic_id(state.tp.topic), found[1]
        if state.topic_id == NO_TOPIC_ID:
            state.topic_id = topic_id
        is_known = state.leader_epoch >= 0 or state.epoch >= 0
        is_other = epoch >= 0 and epoch != state.leader_epoch and is_known
        if is_other or topic_id not in (state.topic_id, NO_TOPIC_ID):
            state.has_new_leader = True
            self._on_ready()
        else:
            state.leader_epoch = max(epoch, state.leader_epoch)
        return state.has_new_leader

    def _node_for(self, state: PartitionState, now: float) -> int | None:
        found = self._cluster.leader(*state.tp)
        if found is None:
            self.refresh_soon()
            return None
        if state.replica >= 0:
            if state.replica_until > now and state.replica in self._cluster.network.nodes:
                return state.replica
            state.replica = -1
        return found[0]

    def _start(self, node_id: int, wants: dict[TopicPartition, Want]) -> None:
        request = self._settings.request()
        session = self._sessions.setdefault(node_id, FetchSession())
        version_max = session.fill(request, wants)
        rounds = self._rounds(wants)
        task = self._loop.create_task(self._fetch(node_id, session, request, version_max, rounds))
        self._under_way[node_id] = task
        self._asked[node_id] = rounds

    def _probe(self, node_id: int, wants: dict[TopicPartition, Want]) -> None:
        """Fetch what the fetch under way does not: it may wait long for data of others.

        Goes over the broker's second connection, does not wait, and asks for an offset once.
        """
        lane = coordinator_node(node_id)
        if lane in self._under_way:
            return
        rounds = self._rounds(wants)
        asked, probed = self._asked[node_id], self._probed
        left = {
            tp: want
            for tp, want in wants.items()
            if asked.get(tp) != rounds[tp] and probed.get(tp) != rounds[tp]
        }
        if left:
            probed.update({tp: rounds[tp] for tp in left})
            request = self._settings.request()
            request.max_wait_ms = 0
            session = FetchSession()
            version_max = session.fill(request, left)
            request.session_epoch = EPOCH_NONE
            self._under_way[lane] = self._loop.create_task(
                self._fetch(lane, session, request, version_max, rounds)
            )

    def _rounds(self, wants: dict[TopicPartition, Want]) -> Rounds:
        partitions = self._positions.partitions
        return {tp: (partitions[tp].round, want.fetch_offset) for tp, want in wants.items()}

    async def _fetch(
        self,
        node_id: int,
        session: FetchSession,
        request: FetchRequest,
        version_max: int | None,
        rounds: Rounds,
    ) -> None:
        try:
            response = await self._cluster.network.call(
                node_id,
                request,
                version_max=version_max,
                version_min=4,
                timeout_ms=self._settings.request_timeout_ms + self._settings.max_wait_ms,
            )
        except KafkaError as fault:
            session.failed()
            self._failed(fault, rounds)
        else:
            if session.answered(response.error_code, response.session_id):
                self._take_in(session, response, rounds)
            else:
                name = Error(response.error_code).name
                self._log.info(
                    "%sNode %d was unable to process the fetch request with (sessionId=%d,"
                    " epoch=%d): %s.",
                    *(self._prefix, node_id, request.session_id, request.session_epoch, name),
                )
        finally:
            del self._under_way[node_id]
        self.pump()

    def _failed(self, fault: KafkaError, rounds: Rounds) -> None:
        """The broker did not answer: all its partitions wait a little, and may have moved."""
        if self._is_closed:
            return
        if not fault.retriable and fault.code is not Error.BROKER_NOT_AVAILABLE:
            self.failures.of_all = fault
            self._on_ready()
        for tp in rounds:
            state = self._positions.partitions.get(tp)
            if state is not None:
                self._pause(state)
                state.replica = -1
        self.refresh_soon()

    def _pause(self, state: PartitionState) -> None:
        state.retry_at = self._loop.time() + self._settings.retry_backoff_ms / 1000

    def _fail(self, state: PartitionState, error: KafkaError) -> None:
        self._pause(state)
        self.failures.add(state, error)
        self._on_ready()

    def _take_in(
        self,
        session: FetchSession,
        response: FetchResponse,
        rounds: Rounds,
    ) -> None:
        has_data = False
        for topic in response.responses:
            name = session.name_of(topic.topic_id, topic.topic)
            for row in topic.partitions:
                tp = TopicPartition(name, row.partition_index)
                state = self._positions.partitions.get(tp)
                if state is None or tp not in rounds:
                    continue
                asked_in, offset = rounds[tp]
                if state.round != asked_in or state.fetch_offset != offset:
                    continue
                if row.error_code:
                    self._refused(state, row, response)
                else:
                    has_data |= self._add(state, row, offset)
        if has_data:
            self._on_ready()

    def _add(self, state: PartitionState, row: FetchablePartitionResponse, offset: int) -> bool:
        state.high_watermark = row.high_watermark
        state.last_stable_offset = row.last_stable_offset
        if row.log_start_offset >= 0:
            state.log_start_offset = row.log_start_offset
        if row.preferred_read_replica >= 0:
            age_s = self._settings.metadata_max_age_ms / 1000
            state.replica = row.preferred_read_replica
            state.replica_until = self._loop.time() + age_s
        if row.diverging_epoch is not None and row.diverging_epoch.end_offset >= 0:
            state.has_new_leader = True
            return True
        if not row.records:
            return False
        aborted = None
        if self._settings.is_read_committed:
            aborted = row.aborted_transactions or []
        view: Any = row.records
        try:
            fetched = batches_of(state.tp, state.round, view, offset, aborted)
        except KafkaError as fault:
            self._fail(state, fault)
            return True
        state.fetch_offset = fetched.next_offset
        self.ready.append(fetched)
        return True

    def _refused(
        self, state: PartitionState, row: FetchablePartitionResponse, response: FetchResponse
    ) -> None:
        code = row.error_code
        tp = state.tp
        if code == Error.OFFSET_OUT_OF_RANGE:
            self._out_of_range(state)
        elif code in _STALE_LEADER:
            hint = row.current_leader
            moved = hint is not None and self._cluster.leader_moved(
                *tp, hint.leader_id, hint.leader_epoch, response.node_endpoints
            )
            if not moved:
                self._pause(state)
                self.refresh_soon()
        else:
            self._fail(state, error_for(code, f"{tp}: {code_of(code).sentence}"))

    def _out_of_range(self, state: PartitionState) -> None:
        offset = state.fetch_offset
        if state.replica >= 0:
            # The follower may lag behind; the leader knows.
            state.replica = -1
        elif offset != state.position:
            # Found out while fetching ahead: what is buffered comes first.
            self._pause(state)
        elif self._reset(state):
            self._log.info(
                "%sFetch position %s is out of range for partition %s, resetting offset",
                *(self._prefix, offset, state.tp),
            )
            self._on_ready()
        else:
            text = (
                f"Offset {offset} of {state.tp} is out of range and no reset"
                " policy is set (auto.offset.reset=none)"
            )
            self._fail(state, NoOffsetForPartitionError(text))

    def refresh_soon(self) -> None:
        """Ask for metadata, if that is not under way; pump when it is there."""
        if self._refreshing is None and not self._is_closed:
            self._refreshing = self._loop.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            topics = {tp.topic for tp in self._positions.partitions}
            await self._cluster.refresh(topics, allow_auto_create=False)
            missing = any(self._cluster.leader(*tp) is None for tp in self._positions.partitions)
            if missing:
                await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        except KafkaError as fault:
            self._log.warning("%sNo metadata: %s", self._prefix, fault)
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        finally:
            self._refreshing = None
        self.pump()

    async def close(self) -> None:
        self._is_closed = True
        tasks: list[asyncio.Task[None]] = list(self._under_way.values())
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self.ready.clear()
