"""From the accumulator to the brokers: who sends what next, and what an answer means.

Runs on the loop only. `pump` looks at every queue with batches, makes one request per broker and
free place in its window, and sets a timer for what is not due yet. It runs again when records
come, answers come, metadata come or the timer goes off; nothing polls. Requests are written
straight to the connection, so no task is made for one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import monotonic
from typing import Any

from moldau.client.network.broker_connection import Connection
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.network.network_client import Network
from moldau.client.producer.produce_responses import Answers
from moldau.client.producer.producer_batch import UNENCODABLE, ProducerBatch
from moldau.client.producer.producer_identity import Identity
from moldau.client.producer.record_accumulator import Accumulator, PartitionQueue
from moldau.client.producer.record_append import Pipeline
from moldau.client.shared.client_errors import (
    AuthenticationError,
    KafkaError,
    KafkaTimeoutError,
)
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.records.compression import Codec
from moldau.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

log = logging.getLogger("moldau.client")

PRODUCE = 0
VERSION_FIRST = 3
"""The first that carries batches of today's format."""
VERSION_LAST_WITH_NAMES = 12
VERSION_LAST_BEFORE_V2 = 11
"""From version 12 on, a broker adds partitions to transactions by itself (KIP-890)."""
EXPIRY_CHECK_MS = 500
FULL_CONNECTION_MS = 2
"""A connection that takes nothing more does not say when it does again."""


@dataclass(frozen=True, slots=True)
class SenderSettings:
    acks: int
    request_timeout_ms: int
    max_request_bytes: int
    in_flight_max: int
    codec: Codec
    level: int | None
    topic_idle_max_ms: int = 300_000
    transactional_id: str | None = None


class Sender:
    def __init__(
        self,
        settings: SenderSettings,
        *,
        network: Network,
        cluster: Cluster,
        pipeline: Pipeline[Any],
        identity: Identity | None,
        answers: Answers,
        counters: Counter[str],
    ) -> None:
        self.settings = settings
        self.network = network
        self.cluster = cluster
        self.pipeline = pipeline
        self.identity = identity
        self.answers = answers
        self.counters = counters
        self.is_closed = False
        self._accumulator: Accumulator = pipeline.accumulator
        self._loop = asyncio.get_running_loop()
        self._in_flight: Counter[int] = Counter()
        self._flying: dict[ProducerBatch, None] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False
        self._expiry_check_ms = 0
        self._refresh_at_ms = 0
        self._refresh_failures = 0
        self._rotation = 0

    @property
    def in_flight_count(self) -> int:
        return sum(self._in_flight.values())

    def wake(self) -> None:
        """Pump soon, once however often this is called. On the loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        self._is_scheduled = False
        self.pipeline.slept()
        if self.is_closed:
            return
        now_ms = int(monotonic() * 1000)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # In case that something raises: whatever becomes of batches then, they still expire.
        wake_ms = now_ms + EXPIRY_CHECK_MS
        try:
            wake_ms = self._send_due(now_ms)
        finally:
            self._set_timer(now_ms, wake_ms)

    def _send_due(self, now_ms: int) -> int:
        """One round; when the next one is due."""
        if self.identity is not None and not self._identify():
            self._expire(now_ms)
            return now_ms + EXPIRY_CHECK_MS
        if now_ms >= self._expiry_check_ms:
            self._expire(now_ms)
        due, wake_ms = self._survey(now_ms)
        for node_id, queues in due.items():
            if not self._serve(node_id, queues, now_ms):
                wake_ms = min(wake_ms, now_ms + FULL_CONNECTION_MS)
        if self.cluster.is_old and self.pipeline.lanes:
            self.refresh(now_ms)
        return wake_ms

    def refresh(self, now_ms: int) -> None:
        """Ask for metadata, one request at a time and not in a tight loop."""
        if now_ms >= self._refresh_at_ms:
            self._start("metadata", self._refresh())

    def stop(self) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks.values():
            task.cancel()

    def drop(self, batches: list[ProducerBatch], error: BaseException) -> None:
        """Fail batches that were taken out of their queues and will not be sent."""
        for batch in batches:
            self.answers.give_up(batch, error, is_refused=not batch.attempts)

    def drop_everything(self, error: BaseException) -> None:
        """Also what is in flight, whose fate nobody will know."""
        with self.pipeline.lock:
            waiting = self._accumulator.drop_all()
        self.drop([*waiting, *self._flying], error)
        self._flying.clear()

    def _identify(self) -> bool:
        """Whether producer id and transaction let us send; starts what is missing if not."""
        identity = self.identity
        assert identity is not None
        refusal = identity.refusal()
        if refusal is not None:
            with self.pipeline.lock:
                doomed = self._accumulator.drop_all()
            self.drop(doomed, refusal)
        work = identity.work()
        if work is not None:
            self._start(*work)
        return identity.is_known

    def _survey(self, now_ms: int) -> tuple[dict[int, list[PartitionQueue]], int]:
        """Queues whose first batch may go, by leader, and when to look again."""
        due: dict[int, list[PartitionQueue]] = {}
        wake_ms = now_ms + 1000 * EXPIRY_CHECK_MS
        unled = False
        accumulator, cluster = self._accumulator, self.cluster
        with self.pipeline.lock:
            for queue in accumulator.waiting:
                ready_ms = accumulator.ready_at(queue, now_ms)
                if ready_ms > now_ms:
                    wake_ms = min(wake_ms, ready_ms)
                    continue
                leader = cluster.leader(queue.topic, queue.partition)
                if leader is None:
                    unled = True
                    cluster.add_interest((queue.topic,))
                else:
                    due.setdefault(leader[0], []).append(queue)
            if accumulator.incomplete:
                wake_ms = min(wake_ms, self._expiry_check_ms)
        if unled:
            self.refresh(now_ms)
            wake_ms = min(wake_ms, max(self._refresh_at_ms, now_ms + 1))
        return due, wake_ms

    def _serve(self, node_id: int, queues: list[PartitionQueue], now_ms: int) -> bool:
        """Fill the broker's window with requests; False if the connection is full before it."""
        connection = self.network.ready(node_id)
        if connection is None:
            self._start(f"connect {node_id}", self._connect(node_id))
            return True
        self._rotation += 1
        start = self._rotation % len(queues)
        queues = queues[start:] + queues[:start]
        while self._in_flight[node_id] < self.settings.in_flight_max:
            if not connection.has_room:
                return False
            batches = self._collect(queues, now_ms)
            if not batches:
                return True
            try:
                version = connection.version_for(PRODUCE, self._version_max(batches), VERSION_FIRST)
            except KafkaError as fault:
                self.answers.unanswered(batches, fault)
                return True
            self._send(node_id, connection, version, batches)
        return True

    def _collect(self, queues: list[PartitionQueue], now_ms: int) -> list[ProducerBatch]:
        """One batch of every partition that may send one, as far as they fit into a request."""
        batches: list[ProducerBatch] = []
        room = self.settings.max_request_bytes
        one_at_a_time = self.settings.in_flight_max == 1
        accumulator, identity = self._accumulator, self.identity
        with self.pipeline.lock:
            for queue in queues:
                if not queue.batches or (one_at_a_time and queue.in_flight):
                    continue
                head = queue.batches[0]
                if accumulator.ready_at(queue, now_ms) > now_ms:
                    continue
                if identity is not None and not identity.may_send(head):
                    continue
                if batches and head.size_bytes > room:
                    continue
                room -= head.size_bytes
                batch = accumulator.take(queue)
                if identity is not None:
                    identity.assign(batch)
                batches.append(batch)
        return batches

    def _version_max(self, batches: list[ProducerBatch]) -> int | None:
        if self.identity is not None and self.identity.is_v1:
            return VERSION_LAST_BEFORE_V2
        if any(self.cluster.topic_id(batch.topic) == NO_TOPIC_ID for batch in batches):
            return VERSION_LAST_WITH_NAMES
        return None

    def _send(
        self, node_id: int, connection: Connection, version: int, batches: list[ProducerBatch]
    ) -> None:
        settings = self.settings
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            encoded = self._encoded(batch)
            if encoded is None:
                continue
            topic = topics.get(batch.topic)
            if topic is None:
                topic = topics[batch.topic] = TopicProduceData(
                    name=batch.topic, topic_id=self.cluster.topic_id(batch.topic)
                )
            if settings.codec and not batch.attempts:
                self._accumulator.compressed(batch, len(encoded))
            topic.partition_data.append(
                PartitionProduceData(index=batch.partition, records=encoded)
            )
            batch.attempts += 1
            self._flying[batch] = None
            self.counters["byte-total"] += len(encoded)
        batches = [batch for batch in batches if batch in self._flying]
        if not batches:
            return
        request = ProduceRequest(
            transactional_id=settings.transactional_id,
            acks=settings.acks,
            timeout_ms=settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        self._in_flight[node_id] += 1
        self.counters["request-total"] += 1
        answer = connection.request(request, version, expects_answer=settings.acks != 0)
        answer.add_done_callback(lambda future: self._answered(node_id, batches, future))

    def _encoded(self, batch: ProducerBatch) -> bytearray | None:
        """None if its records cannot be written: then it has failed, and only it."""
        try:
            return batch.encode(self.settings.codec, self.settings.level)
        except UNENCODABLE as fault:
            log.error("a batch for %s cannot be encoded", batch.topic_partition, exc_info=fault)
            error = KafkaError(
                f"The records for {batch.topic_partition} cannot be encoded: {fault}"
            )
            self.answers.give_up(batch, error, is_refused=True)
            return None

    def _answered(
        self, node_id: int, batches: list[ProducerBatch], future: asyncio.Future[Any]
    ) -> None:
        self._in_flight[node_id] -= 1
        for batch in batches:
            self._flying.pop(batch, None)
        fault = future.exception()
        if isinstance(fault, KafkaError):
            needs_metadata = self.answers.unanswered(batches, fault)
        elif fault is not None:
            raise fault
        else:
            needs_metadata = self.answers.answered(batches, future.result())
        if needs_metadata:
            self.refresh(int(monotonic() * 1000))
        self.wake()

    def _expire(self, now_ms: int) -> None:
        """Fail what took longer than delivery.timeout.ms, sent or not."""
        timeout_ms = self._accumulator.delivery_timeout_ms
        self._expiry_check_ms = now_ms + min(EXPIRY_CHECK_MS, timeout_ms // 8 + 1)
        with self.pipeline.lock:
            late = self._accumulator.expired(now_ms)
            # Whatever state they are in: in flight, or lost by a fault.
            known = set(late)
            late += [
                batch
                for batch in self._accumulator.incomplete
                if now_ms - batch.created_ms >= timeout_ms and batch not in known
            ]
        for batch in late:
            self._flying.pop(batch, None)
            where = TopicPartition(batch.topic, batch.partition)
            error = KafkaTimeoutError(
                f"Expiring {batch.record_count} record(s) for {where}:{now_ms - batch.created_ms} "
                "ms has passed since batch creation"
            )
            self.answers.give_up(batch, error, is_refused=not batch.attempts)

    async def _refresh(self) -> None:
        try:
            await self.cluster.refresh(timeout_ms=self.settings.request_timeout_ms)
            self._refresh_failures = 0
        except KafkaError as fault:
            self._refresh_failures += 1
            log.debug("metadata were not refreshed: %s", fault)
        settings = self.network.settings
        pause = min(
            settings.retry_backoff_ms * 2 ** min(self._refresh_failures, 10),
            settings.retry_backoff_max_ms,
        )
        self._refresh_at_ms = int(monotonic() * 1000) + pause
        idle_since_ms = int(monotonic() * 1000) - self.settings.topic_idle_max_ms
        self.cluster.drop_interest(self.pipeline.forget_idle(idle_since_ms))
        for name in list(self.pipeline.lanes):
            learn_topic(self.pipeline, self.cluster, name)

    async def _connect(self, node_id: int) -> None:
        try:
            await self.network.connection(node_id)
        except AuthenticationError as fault:
            # Records would wait for nothing until delivery.timeout.ms.
            with self.pipeline.lock:
                waiting = self._accumulator.drop_all()
            self.drop(waiting, fault)
        except KafkaError as fault:
            log.debug("node %d is not connected: %s", node_id, fault)
            self.refresh(int(monotonic() * 1000))

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """One task of a kind at a time; each ends with a pump."""
        if name in self._tasks or self.is_closed:
            work.close()
            return
        task = self._tasks[name] = self._loop.create_task(work)
        task.add_done_callback(self._finish(name))

    def _finish(self, name: str) -> Callable[[asyncio.Task[None]], None]:
        def finished(task: asyncio.Task[None]) -> None:
            del self._tasks[name]
            if not task.cancelled() and task.exception() is not None:
                log.error("%s failed", name, exc_info=task.exception())
            self.wake()

        return finished

    def _set_timer(self, now_ms: int, wake_ms: int) -> None:
        if self._accumulator.incomplete:
            delay_s = max(wake_ms - now_ms, 1) / 1000
            self._timer = self._loop.call_later(delay_s, self.wake)


def learn_topic(pipeline: Pipeline[Any], cluster: Cluster, name: str) -> None:
    """Tell the pipeline what the metadata say of a topic."""
    known = cluster.topic(name)
    if known is not None and known.partitions:
        available = [p for p in sorted(known.partitions) if known.partitions[p].leader >= 0]
        pipeline.know(name, max(known.partitions) + 1, available)
