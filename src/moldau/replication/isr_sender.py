"""What leaders on this broker propose about their ISRs, on its way to the controller and back.

Proposals that come while a request is under way leave together with the next one. Whatever keeps
the controller from answering, they are sent again until it does or the partition has moved on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage
from moldau.model.errors import Error
from moldau.model.log_line_limit import LogLimit
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.net.peers import PeerCalls, PeerUnreachable
from moldau.replication.delayed_requests import Waiting
from moldau.replication.in_sync_replicas import (
    AfterRefusal,
    IsrAnswer,
    IsrProposal,
    PendingShrink,
    isr_text,
)
from moldau.replication.replica import Replica
from moldau.storage.storage_faults import StorageFault
from moldau.wire.messages.partitions import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
    BrokerState,
)

log = logging.getLogger("kafka.cluster.Partition")
sender_log = logging.getLogger("kafka.server.DefaultAlterPartitionManager")
sender_log.addFilter(LogLimit())

RETRY_MS: Millis = 50
LANE = "controller"


class IsrSender:
    def __init__(
        self,
        node_id: BrokerId,
        peers: PeerCalls,
        waiting: Waiting,
        *,
        image: Callable[[], ClusterImage],
        broker_epoch: Callable[[], int],
        timeout_ms: Callable[[], Millis],
        clock: Clock,
        timers: Timers,
        lost: Callable[[Replica, StorageFault], None] = lambda replica, fault: None,
    ) -> None:
        """`lost` hears of a leader whose disk failed."""
        self._lost = lost
        self._node_id = node_id
        self._peers = peers
        self._waiting = waiting
        self._image = image
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._timers = timers
        self._proposals: dict[TopicPartition, tuple[Replica, IsrProposal]] = {}
        self._sending: asyncio.Task[None] | None = None
        self._is_stopped = False
        self.shrinks = self.expands = self.failures = 0
        """How often the controller has granted such a change, and how often it refused one."""

    # What leaders want

    def join(self, replica: Replica, follower: BrokerId) -> None:
        partition = replica.partition
        if follower not in self._image().brokers:
            # Its last fetch came after the news of its end.
            if partition.look_again(self._clock.monotonic_ms(), (follower,)):
                self._waiting.changed(replica)
            return
        log.info(
            "%s Expanding ISR from %s to %s",
            self._prefix(replica),
            isr_text(sorted(partition.isr)),
            isr_text(sorted(partition.isr | {follower})),
        )
        now = self._clock.monotonic_ms()
        self._submit(replica, partition.propose_join(follower, replica.log.topic_id, now))

    def lose(self, replica: Replica, fault: StorageFault) -> None:
        self._lost(replica, fault)

    def shrink(self, replicas: Iterable[Replica]) -> None:
        """Called from time to time: who has lagged for too long leaves the ISR."""
        now = self._clock.monotonic_ms()
        for replica in replicas:
            partition = replica.partition
            if not partition.is_leader or not partition.is_replicated:
                continue
            gone = partition.followers().keys() - self._image().brokers.keys()
            if partition.look_again(now, gone):
                self._waiting.changed(replica)
            lagging = partition.lagging(now, partition.lag_max_ms)
            if not lagging or partition.is_isr_pending:
                continue
            self._tell_of_shrink(replica, lagging)
            self._submit(replica, partition.propose_shrink(lagging, replica.log.topic_id))

    def _tell_of_shrink(self, replica: Replica, lagging: frozenset[BrokerId]) -> None:
        partition = replica.partition
        now = self._clock.monotonic_ms()
        wall_ms = self._clock.wall_ms()
        followers = partition.followers()
        rows = " ".join(
            f"(brokerId: {broker}, endOffset: {followers[broker].offset_end}, "
            f"lastCaughtUpTimeMs: {max(0, wall_ms - (now - followers[broker].caught_up_ms))})"
            for broker in sorted(lagging)
        )
        log.info(
            "%s Shrinking ISR from %s to %s. Leader: (highWatermark: %d, endOffset: %d). "
            "Out of sync replicas: %s.",
            self._prefix(replica),
            isr_text(sorted(partition.isr)),
            isr_text(sorted(partition.isr - lagging)),
            partition.high_watermark,
            partition.offset_end,
            rows,
        )

    def _submit(self, replica: Replica, proposal: IsrProposal) -> None:
        self._proposals[proposal.topic_partition] = replica, proposal
        self._start()

    def _start(self) -> None:
        if self._sending is None and not self._is_stopped:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())
            self._sending.add_done_callback(self._sent)

    async def stop(self) -> None:
        self._is_stopped = True
        sending = self._sending
        if sending is not None:
            sending.cancel()
            await asyncio.wait([sending])

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending = None
        if not task.cancelled() and task.exception() is not None:
            sender_log.error("ISR changes could not be sent", exc_info=task.exception())
        if self._proposals:
            # They came after the task had looked for the last time, before it was known to end.
            self._start()

    # On the way

    async def _send_all(self) -> None:
        while self._proposals:
            batch, self._proposals = self._proposals, {}
            answers = await self._send(batch)
            if answers is None:
                self._keep(batch)
                await self._timers.pause(RETRY_MS)
                continue
            again = {}
            try:
                for place in list(batch):
                    replica, proposal = batch.pop(place)
                    answer = answers.get(place, IsrAnswer(Error.UNKNOWN_SERVER_ERROR))
                    if self._answered(replica, proposal, answer) is AfterRefusal.RETRY:
                        again[place] = replica, proposal
            finally:
                # An answer that cannot be taken must not cost the others theirs.
                self._keep(batch)
            if again:
                self._keep(again)
                await self._timers.pause(RETRY_MS)

    def _keep(self, batch: dict[TopicPartition, tuple[Replica, IsrProposal]]) -> None:
        """For another try, unless the partition has moved on to another state."""
        for place, (replica, proposal) in batch.items():
            if replica.partition.isr_state is proposal.state:
                self._proposals.setdefault(place, (replica, proposal))

    async def _send(
        self, batch: dict[TopicPartition, tuple[Replica, IsrProposal]]
    ) -> dict[TopicPartition, IsrAnswer] | None:
        proposals = [proposal for _, proposal in batch.values()]
        controller = self._image().controller_id
        try:
            response: AlterPartitionResponse = await self._peers.call(
                controller,
                _request(self._node_id, self._broker_epoch(), proposals),
                timeout_ms=self._timeout_ms(),
                lane=LANE,
            )
        except PeerUnreachable as fault:
            sender_log.info("The controller did not take ISR changes: %s", fault)
            return None
        if response.error_code:
            error = Error(response.error_code)
            sender_log.info("Broker %d refused ISR changes: %s", controller, error.name)
            return None
        return _answers(response, proposals)

    def _answered(
        self, replica: Replica, proposal: IsrProposal, answer: IsrAnswer
    ) -> AfterRefusal | None:
        partition = replica.partition
        is_current = partition.isr_state is proposal.state
        before = partition.high_watermark
        after = partition.answered(proposal, answer, self._clock.monotonic_ms())
        if partition.high_watermark != before or isinstance(proposal.state, PendingShrink):
            self._waiting.changed(replica)
        if after is None and is_current:
            is_shrink = isinstance(proposal.state, PendingShrink)
            self.shrinks += is_shrink
            self.expands += not is_shrink
            log.info(
                "%s ISR updated to %s %s and version updated to %d",
                self._prefix(replica),
                isr_text(sorted(partition.isr)),
                "" if partition.has_enough_in_sync else "(under-min-isr)",
                partition.partition_epoch,
            )
        elif after is not None:
            self.failures += 1
            log.info(
                "%s Failed to change the ISR to %s: %s",
                self._prefix(replica),
                isr_text(proposal.isr),
                answer.error.name,
            )
        return after

    def _prefix(self, replica: Replica) -> str:
        return f"[Partition {replica.partition.topic_partition} broker={self._node_id}]"


def _request(
    node_id: BrokerId, broker_epoch: int, proposals: Iterable[IsrProposal]
) -> AlterPartitionRequest:
    topics: dict[str, AlterPartitionRequestTopic] = {}
    for proposal in proposals:
        name = proposal.topic_partition.topic
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AlterPartitionRequestTopic(
                topic_id=proposal.topic_id, topic_name=name, partitions=[]
            )
        topic.partitions.append(
            AlterPartitionRequestPartition(
                partition_index=proposal.topic_partition.partition,
                leader_epoch=proposal.leader_epoch,
                new_isr=list(proposal.isr),
                new_isr_with_epochs=[
                    BrokerState(broker_id=broker, broker_epoch=-1) for broker in proposal.isr
                ],
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=node_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )


def _answers(
    response: AlterPartitionResponse, proposals: Iterable[IsrProposal]
) -> dict[TopicPartition, IsrAnswer]:
    names = {proposal.topic_id: proposal.topic_partition.topic for proposal in proposals}
    return {
        TopicPartition(topic.topic_name or names.get(topic.topic_id, ""), row.partition_index): (
            IsrAnswer(Error(row.error_code), row.leader_epoch, row.partition_epoch, tuple(row.isr))
        )
        for topic in response.topics
        for row in topic.partitions
    }
