"""The two coordinators put together: shards on logs, markers on their way, chores, log lines.

What the machines need is imported with the first partition of their topic that this broker leads:
a broker without groups and transactions does not load any of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.broker.background import Background
from moldau.config.broker import BrokerConfig
from moldau.engine.machine import Machine
from moldau.engine.outbox import Outbox
from moldau.engine.shards import Codec, Shards
from moldau.engine.timers import Timers
from moldau.handlers.producer_ids import ProducerIdSource
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.replication.log_journal import LogJournal
from moldau.replication.markers import MarkerWriter, TransactionEnd
from moldau.replication.replicas import Replicas

if TYPE_CHECKING:
    from moldau.net.peers import PeerCalls
    from moldau.transactions.commands import MarkersWritten, WriteMarkers

log = logging.getLogger("kafka.coordinator.transaction.TransactionMarkerChannelManager")

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
MARKERS_LANE = "markers"
"""Markers wait for replicas; whoever asks a coordinator before it writes must not wait behind."""
ANSWER_AGAIN_MS = 500
ANSWER_TRIES = 60
ROUNDS_MAX = 1_000
"""Of one chore on one partition: each does a piece and says whether there is more."""


class Coordinators:
    def __init__(
        self,
        node_id: BrokerId,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
        replicas: Replicas,
        producer_ids: ProducerIdSource,
        clock: Clock,
        timers: Timers,
        peers: PeerCalls | None = None,
    ) -> None:
        """`peers` are the other brokers of a cluster, for markers in what they lead."""
        self._peers = peers
        self._node_id = node_id
        self._config = config
        self._image = image
        self._replicas = replicas
        self._producer_ids = producer_ids
        self._clock = clock
        self._timers = timers
        self._outbox = Outbox(self._deliver)
        self.groups = Shards(
            OFFSETS_TOPIC,
            node_id,
            open_log=lambda partition, codec: self._open(OFFSETS_TOPIC, partition, codec),
            new_machine=self._new_group_machine,
            new_codec=self._new_group_codec,
            loaded=_groups_loaded,
            clock=clock,
            timers=timers,
            observe=self._log_groups,
            led=lambda: replicas.led(OFFSETS_TOPIC),
        )
        self.transactions = Shards(
            TRANSACTIONS_TOPIC,
            node_id,
            open_log=lambda partition, codec: self._open(TRANSACTIONS_TOPIC, partition, codec),
            new_machine=self._new_transaction_machine,
            new_codec=_new_transaction_codec,
            loaded=_transactions_loaded,
            clock=clock,
            timers=timers,
            observe=self._log_transactions,
            send=self._outbox.send,
            led=lambda: replicas.led(TRANSACTIONS_TOPIC),
        )
        self.markers = MarkerWriter(replicas, clock, timers, self._end_in_groups)

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Called after every change of the cluster, when the replicas have followed it."""
        self.groups.follow(old, new)
        self.transactions.follow(old, new)
        if new.topics is not old.topics:
            self._forget_topics(old, new)

    async def stop(self) -> None:
        """Whoever waits has been answered when this returns."""
        self.transactions.stop()
        self.groups.stop()
        await self._outbox.stop()
        await asyncio.sleep(0)

    def _open(self, topic: str, partition: int, codec: Codec) -> LogJournal:
        return LogJournal(self._replicas.find(topic, partition), codec.encode, self._clock)

    # Groups

    def _new_group_machine(self, partition: int, leader_epoch: int) -> Machine:
        from moldau.groups.machine import GroupMachine
        from moldau.groups.settings import GroupSettings

        config = self._config()
        return GroupMachine(
            GroupSettings(
                session_timeout_min_ms=config.group_min_session_timeout_ms,
                session_timeout_max_ms=config.group_max_session_timeout_ms,
                initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
                members_max=config.group_max_size,
                offset_metadata_max_bytes=config.offset_metadata_max_bytes,
                offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            )
        )

    def _new_group_codec(self) -> Codec:
        from moldau.groups.codec import GroupCodec

        return GroupCodec(self._config().offsets_topic_compression_codec)

    def _end_in_groups(self, partition: int, end: TransactionEnd) -> asyncio.Future[object]:
        from moldau.groups.commands import EndTransaction

        command = EndTransaction(
            end.producer_id, end.producer_epoch, end.coordinator_epoch, end.committed
        )
        return self.groups.submit_to(partition, command)

    def _forget_topics(self, old: ClusterImage, new: ClusterImage) -> None:
        gone = [topic for topic in old.topics.values() if topic.id not in new.topic_names]
        if gone and self.groups.partitions():
            from moldau.groups.commands import DeletedTopic, ForgetTopics

            topics = tuple(DeletedTopic(topic.name, topic.id) for topic in gone)
            self.groups.tell_all(ForgetTopics(topics))

    def _log_groups(self, partition: int, facts: Sequence[object]) -> None:
        from moldau.groups.log_lines import log_line

        for fact in facts:
            line = log_line(fact, self._node_id, partition)
            if line is not None:
                logging.getLogger(line.logger).info("%s", line.text)

    # Transactions

    def _new_transaction_machine(self, partition: int, leader_epoch: int) -> Machine:
        from moldau.transactions.machine import TransactionMachine
        from moldau.transactions.settings import TransactionSettings

        settings = TransactionSettings.of(self._config())
        return TransactionMachine(leader_epoch, settings, self._leader_of)

    def _leader_of(self, place: TopicPartition) -> BrokerId | None:
        topic = self._image().topics.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            return None
        return topic.partitions[place.partition].leader

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
            written = await self.markers.write(ends, timeout_ms)
        else:
            written = await self._write_at(broker, ends, timeout_ms)
        for message, results in zip(messages, written, strict=True):
            self._tell(message.answer(results, self._clock.wall_ms()))

    def _tell(self, answer: MarkersWritten, tries: int = ANSWER_TRIES) -> None:
        """Markers are written once: what the coordinator cannot store of it now it is told again,
        until silence makes it send them anew."""

        def told(future: asyncio.Future[object]) -> None:
            fault = None if future.cancelled() else future.exception()
            is_passing = isinstance(fault, ApiError) and (
                fault.error is Error.COORDINATOR_NOT_AVAILABLE
            )
            if is_passing and tries > 1:
                self._timers.after(ANSWER_AGAIN_MS, lambda: self._tell(answer, tries - 1))

        self.transactions.submit(answer.transactional_id, answer).add_done_callback(told)

    async def _write_at(
        self, broker: BrokerId, ends: list[TransactionEnd], timeout_ms: Millis
    ) -> list[Mapping[TopicPartition, Error]]:
        from moldau.net.peers import PeerUnreachable
        from moldau.replication.remote_markers import markers_request, results_of

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

    def _log_transactions(self, partition: int, facts: Sequence[object]) -> None:
        from moldau.transactions.log_lines import lines

        for line in lines(facts, partition, self._node_id):
            logging.getLogger(line.logger).info("%s", line.text)

    # Chores

    def plan_jobs(self, background: Background) -> None:
        config = self._config()
        background.every(
            "delete-expired-group-metadata",
            config.offsets_retention_check_interval_ms,
            self.expire_offsets,
        )
        background.every(
            "transaction-abort",
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            self.end_timed_out,
        )
        background.every(
            "transactionalId-expiration",
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
            self.expire_transactional_ids,
        )

    def expire_offsets(self) -> None:
        if self.groups.partitions():
            from moldau.groups.commands import ExpireOffsets

            self.groups.tell_all(ExpireOffsets(self._clock.wall_ms()))

    async def end_timed_out(self) -> None:
        """Send markers again that nobody answered, and abort what takes too long."""
        await self._in_all(self._end_timed_out_in)

    async def _end_timed_out_in(self, partition: int) -> None:
        from moldau.transactions.commands import AbortTimedOut, ResendMarkers, TimedOut

        if await self._ask(partition, ResendMarkers(self._clock.wall_ms())) is None:
            return
        ids: tuple[int, ...] = ()
        for _ in range(ROUNDS_MAX):
            done = await self._ask(partition, AbortTimedOut(self._clock.wall_ms(), ids))
            if not isinstance(done, TimedOut) or not (done.producer_ids_needed or done.has_more):
                break
            ids = tuple([await self._producer_ids.next() for _ in range(done.producer_ids_needed)])

    async def expire_transactional_ids(self) -> None:
        await self._in_all(self._expire_transactional_ids_in)

    async def _expire_transactional_ids_in(self, partition: int) -> None:
        from moldau.transactions.commands import Expired, ExpireTransactionalIds

        for _ in range(ROUNDS_MAX):
            done = await self._ask(partition, ExpireTransactionalIds(self._clock.wall_ms()))
            if not isinstance(done, Expired) or not done.has_more:
                break

    async def _in_all(self, chore: Callable[[int], Awaitable[None]]) -> None:
        """Each partition for itself: one whose log stands still, or that gets no producer id,
        holds up no other. Raises the first fault when all are done."""
        chores = [chore(partition) for partition in self.transactions.partitions()]
        for outcome in await asyncio.gather(*chores, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _ask(self, partition: int, command: object) -> object:
        """None if the partition has gone elsewhere meanwhile, or its log stands still."""
        timeout_ms = self._config().request_timeout_ms
        future = self.transactions.submit_to(partition, command)
        try:
            return await self._timers.within(timeout_ms, future, "not stored in time")
        except ApiError:
            return None


def _groups_loaded(wall_ms: Millis) -> object:
    from moldau.groups.commands import Loaded

    return Loaded(wall_ms)


def _transactions_loaded(wall_ms: Millis) -> object:
    from moldau.transactions.commands import Loaded

    return Loaded(wall_ms)


def _new_transaction_codec() -> Codec:
    from moldau.transactions.records import TransactionCodec

    return TransactionCodec()
