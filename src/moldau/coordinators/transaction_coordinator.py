"""The transaction coordinator of a broker: a machine on each partition of `__transaction_state`.

Built by the broker, asked by handlers and before transactional writes. It opens the logs, carries
the machines' markers to the leaders of partitions and their answers back, ends what takes too long,
and writes the log lines of what the machines decided.

What the machines need is imported with the first partition that this broker leads: a broker without
transactions does not load any of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.config.broker_config import BrokerConfig
from moldau.coordinators.coordinator import Coordinator, PlanJob
from moldau.coordinators.local_markers import MarkerWriter, TransactionEnd, Writing
from moldau.coordinators.producer_id_source import ProducerIdSource
from moldau.engine.machine import Command
from moldau.engine.outbox import Outbox
from moldau.engine.shards import Codec, ShardMachine
from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.cluster import NO_LEADER, ClusterImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.replication.replicas import Replicas

if TYPE_CHECKING:
    from moldau.net.peers import PeerCalls
    from moldau.transactions.transaction_commands import (
        AddPartitions,
        EndTransaction,
        InitProducer,
        MarkersWritten,
        ProducerGranted,
        WriteMarkers,
    )

log = logging.getLogger("kafka.coordinator.transaction.TransactionMarkerChannelManager")

R = TypeVar("R")
Results = Mapping[TopicPartition, Error]

TRANSACTIONS_TOPIC = "__transaction_state"
MARKERS_LANE = "markers"
"""Markers wait for replicas; whoever asks a coordinator before it writes must not wait behind."""
ANSWER_AGAIN_MS = 500
ANSWER_TRIES = 60
ROUNDS_MAX = 1_000
"""Of one chore on one partition: each does a piece and says whether there is more."""


class TransactionCoordinator(Coordinator):
    key_type = 1

    def __init__(
        self,
        node_id: BrokerId,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
        replicas: Replicas,
        producer_ids: ProducerIdSource,
        markers: MarkerWriter,
        clock: Clock,
        timers: Timers,
        peers: PeerCalls | None = None,
    ) -> None:
        """`markers` writes where this broker leads; `peers` are the other brokers of a cluster."""
        self._peers = peers
        self._cluster_image = image
        self._producer_ids = producer_ids
        self._markers = markers
        self._outbox = Outbox(self._deliver)
        self._settling: set[asyncio.Task[None]] = set()
        """Markers written here that wait for replicas."""
        super().__init__(
            TRANSACTIONS_TOPIC,
            node_id,
            config=config,
            replicas=replicas,
            clock=clock,
            timers=timers,
            send=self._outbox.send,
        )

    def _stored_within_ms(self) -> Millis:
        return self._config().request_timeout_ms

    async def close(self) -> None:
        """After `stop`: no marker is on its way any more when this returns."""
        await self._outbox.stop()
        for settling in self._settling:
            settling.cancel()
        await asyncio.sleep(0)

    @property
    def markers_waiting(self) -> int:
        """Messages with markers that are not on their way yet."""
        return sum(self._outbox.all_waiting().values())

    # Asking

    async def stored(self, future: asyncio.Future[R], deadline_ms: Millis | None = None) -> R:
        is_elsewhere = isinstance(future, asyncio.Task)
        if is_elsewhere:
            # The call to another broker has its own end.
            return await future
        return await super().stored(future, deadline_ms)

    async def ask(self, transactional_id: str, command: Command[R]) -> R:
        """The answer, when it is durable."""
        _check_id(transactional_id)
        return await self.stored(self.submit(transactional_id, command))

    async def ask_for_producer(self, command: InitProducer | EndTransaction) -> ProducerGranted:
        """Who the producer is from now on; a producer id is fetched if one is needed."""
        from moldau.transactions.transaction_commands import ProducerIdNeeded

        answer = await self.ask(command.transactional_id, command)
        if isinstance(answer, ProducerIdNeeded):
            again = replace(command, new_producer_id=await self._producer_ids.next())
            answer = await self.ask(command.transactional_id, again)
        assert not isinstance(answer, ProducerIdNeeded), "it was given one"
        return answer

    async def ask_of_partitions(self, command: AddPartitions) -> Results:
        """As `ask`, for what may be coordinated by another broker."""
        _check_id(command.transactional_id)
        return await self.stored(self.submit_partitions(command))

    async def ask_patiently(self, command: AddPartitions) -> Results:
        """As `ask_of_partitions`, but wait a little while the last transaction is still being
        completed: that is soon done, and the client would only have to come back."""
        config = self._config()
        wait_ms = config.add_partitions_to_txn_retry_backoff_max_ms
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            try:
                return await self.ask_of_partitions(command)
            except ApiError as refusal:
                is_passing = refusal.error is Error.CONCURRENT_TRANSACTIONS
                if not is_passing or self._clock.monotonic_ms() >= deadline_ms:
                    raise
            await self._timers.pause(config.add_partitions_to_txn_retry_backoff_ms)

    def submit_partitions(self, command: AddPartitions) -> asyncio.Future[Results]:
        """Whoever leads a partition, or a group's offsets, asks before it writes; in a cluster the
        coordinator is often elsewhere. Refusals are in the future, an error for each partition is
        its result."""
        coordinator = self._coordinator_of(command.transactional_id)
        if self._peers is None or coordinator in (self._node_id, NO_LEADER):
            return self.submit(command.transactional_id, command)
        from moldau.coordinators.remote_verification import add_partitions

        asked: Coroutine[Any, Any, Results] = add_partitions(
            command, self._peers, coordinator, self._config().request_timeout_ms
        )
        asking = asyncio.get_running_loop().create_task(asked)
        # Whoever asked may have gone meanwhile, or may ask anew: then nobody looks at a refusal.
        asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return asking

    def _coordinator_of(self, transactional_id: str) -> BrokerId:
        topic = self._cluster_image().topics.get(self.topic)
        if topic is None:
            return NO_LEADER
        return topic.partitions[self.partition_of(transactional_id)].leader

    # Markers

    async def _deliver(self, broker: BrokerId, messages: Sequence[WriteMarkers]) -> None:
        """Markers to the leader of their partitions: this very broker, or another one."""
        ends = [
            TransactionEnd(
                message.producer_id,
                message.producer_epoch,
                message.committed,
                message.coordinator_epoch,
                message.transaction_version,
                message.partitions,
            )
            for message in messages
        ]
        timeout_ms = self._config().request_timeout_ms
        if broker == self._node_id:
            for message, end in zip(messages, ends, strict=True):
                await self._write_here(message, end, timeout_ms)
            return
        written = await self._write_at(broker, ends, timeout_ms)
        for message, results in zip(messages, written, strict=True):
            self._tell_machine(message.answer(results))

    async def _write_here(
        self, message: WriteMarkers, end: TransactionEnd, timeout_ms: Millis
    ) -> None:
        """Each transaction waits for its own partitions: one that the in-sync replicas do not take
        holds up no other."""
        writing = await self._markers.begin(end)
        if writing.is_settled:
            self._tell_machine(message.answer(writing.results))
            return
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        settling = asyncio.get_running_loop().create_task(
            self._settle(message, writing, deadline_ms)
        )
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)

    async def _settle(self, message: WriteMarkers, writing: Writing, deadline_ms: Millis) -> None:
        results = await self._markers.settled(writing, deadline_ms)
        self._tell_machine(message.answer(results))

    async def _write_at(
        self, broker: BrokerId, ends: list[TransactionEnd], timeout_ms: Millis
    ) -> list[Results]:
        from moldau.coordinators.remote_markers import markers_request, results_of
        from moldau.net.peers import PeerUnreachable

        try:
            if self._peers is None:
                raise PeerUnreachable(f"broker {broker} is not in the cluster")
            response = await self._peers.call(
                broker, markers_request(ends), timeout_ms=timeout_ms, lane=MARKERS_LANE
            )
        except PeerUnreachable as fault:
            log.info("Markers did not reach broker %d: %s", broker, fault)
            return [dict.fromkeys(end.partitions, Error.NETWORK_EXCEPTION) for end in ends]
        return results_of(response, ends)

    def _tell_machine(self, answer: MarkersWritten, tries: int = ANSWER_TRIES) -> None:
        """Markers are written once: what the machine cannot store of it now it is told again,
        until silence makes it send them anew."""

        def told(future: asyncio.Future[None]) -> None:
            fault = None if future.cancelled() else future.exception()
            is_passing = isinstance(fault, ApiError) and (
                fault.error is Error.COORDINATOR_NOT_AVAILABLE
            )
            if is_passing and tries > 1:
                self._timers.after(ANSWER_AGAIN_MS, lambda: self._tell_machine(answer, tries - 1))

        self.submit(answer.transactional_id, answer).add_done_callback(told)

    # What happens by itself

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        super().follow(old, new)
        if new.topics is not old.topics and self.partitions():
            from moldau.transactions.transaction_commands import TopicsChanged

            self.tell_all(TopicsChanged(new.topics))

    def plan_jobs(self, plan: PlanJob) -> None:
        config = self._config()
        plan(
            "transaction-abort",
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            self.end_timed_out,
        )
        plan(
            "transactionalId-expiration",
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
            self.expire_transactional_ids,
        )

    async def end_timed_out(self) -> None:
        """Send markers again that nobody answered, and abort what takes too long."""
        await self._in_all(self._end_timed_out_in)

    async def _end_timed_out_in(self, partition: int) -> None:
        from moldau.transactions.transaction_commands import AbortTimedOut, ResendMarkers

        if await self._ask_partition(partition, ResendMarkers()) is None:
            return
        ids: tuple[int, ...] = ()
        for _ in range(ROUNDS_MAX):
            command = AbortTimedOut(ids)
            done = await self._ask_partition(partition, command)
            if done is None or not (done.producer_ids_needed or done.has_more):
                break
            ids = tuple([await self._producer_ids.next() for _ in range(done.producer_ids_needed)])

    async def expire_transactional_ids(self) -> None:
        await self._in_all(self._expire_transactional_ids_in)

    async def _expire_transactional_ids_in(self, partition: int) -> None:
        from moldau.transactions.transaction_commands import ExpireTransactionalIds

        for _ in range(ROUNDS_MAX):
            command = ExpireTransactionalIds()
            done = await self._ask_partition(partition, command)
            if done is None or not done.has_more:
                break

    async def _in_all(self, chore: Callable[[int], Awaitable[None]]) -> None:
        """Each partition for itself: one whose log stands still, or that gets no producer id,
        holds up no other. Raises the first fault when all are done."""
        chores = [chore(partition) for partition in self.partitions()]
        for outcome in await asyncio.gather(*chores, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _ask_partition(self, partition: int, command: Command[R]) -> R | None:
        """None if the partition has gone elsewhere meanwhile, or its log stands still."""
        timeout_ms = self._config().request_timeout_ms
        future = self.submit_to(partition, command)
        try:
            return await self._timers.within(timeout_ms, future, "not stored in time")
        except ApiError:
            return None

    # What the shards need

    def _machine(self, partition: int, leader_epoch: int) -> ShardMachine:
        from moldau.transactions.transaction_machine import TransactionMachine
        from moldau.transactions.transaction_settings import TransactionSettings

        return TransactionMachine(leader_epoch, TransactionSettings.of(self._config()))

    def _state_bytes_max(self) -> int:
        return self._config().transaction_state_max_bytes

    def _new_record_codec(self) -> Codec:
        from moldau.transactions.transaction_records import TransactionCodec

        return TransactionCodec()

    def _loaded_command(self) -> object:
        from moldau.transactions.transaction_commands import Loaded

        return Loaded(self._cluster_image().topics)

    def _write_log_lines(self, partition: int, facts: Sequence[object]) -> None:
        from moldau.transactions.transaction_log_lines import lines

        for line in lines(facts, partition, self._node_id):
            logging.getLogger(line.logger).info("%s", line.text)


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise ApiError(Error.INVALID_REQUEST, "the transactional id is empty")
