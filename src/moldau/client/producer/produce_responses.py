"""What becomes of batches: stored, sent again, split, or given up.

On the loop. The rules are those of Kafka's Sender: an error that may pass is retried until
`retries` or delivery.timeout.ms run out, in the order of sequences; a batch too large for the
broker is split; every other error ends the batch, and with it the transaction it belongs to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any

from moldau.client.network.cluster_metadata import Cluster
from moldau.client.network.network_client import backoff_ms
from moldau.client.producer.producer_batch import ProducerBatch
from moldau.client.producer.producer_identity import Identity
from moldau.client.producer.record_append import Pipeline
from moldau.client.shared.client_errors import KafkaError, error_class, error_for
from moldau.model.errors import Error
from moldau.records.batch import NO_TIMESTAMP
from moldau.wire.messages.produce import PartitionProduceResponse, ProduceResponse

STALE_METADATA = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.LEADER_NOT_AVAILABLE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NETWORK_EXCEPTION,
        Error.KAFKA_STORAGE_ERROR,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors after which the leader may be another one."""
SEQUENCE_ERRORS = frozenset({Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.UNKNOWN_PRODUCER_ID})
CONCURRENT_BACKOFF_MS = 20
"""The transaction before is about to end; waiting longer would be felt in every transaction."""


class Answers:
    def __init__(
        self,
        *,
        pipeline: Pipeline[Any],
        cluster: Cluster,
        identity: Identity | None,
        retries: int,
        counters: Counter[str],
        on_room: Callable[[], None],
    ) -> None:
        self.pipeline = pipeline
        self.cluster = cluster
        self.identity = identity
        self.retries = retries
        self.counters = counters
        self._on_room = on_room
        self._accumulator = pipeline.accumulator
        self._loop = asyncio.get_running_loop()

    def answered(self, batches: list[ProducerBatch], response: ProduceResponse | None) -> bool:
        """Whether fresh metadata are needed. No response: none was asked for (acks=0)."""
        if response is None:
            for batch in batches:
                self._stored(batch, -1, NO_TIMESTAMP)
            return False
        self.counters["response-total"] += 1
        rows = {
            (topic.name or self.cluster.topic_name(topic.topic_id), row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        needs_metadata = False
        for batch in batches:
            row = rows.get((batch.topic, batch.partition))
            if row is None:
                row = PartitionProduceResponse(error_code=Error.UNKNOWN_TOPIC_OR_PARTITION)
            code = row.error_code
            if code in (Error.NONE, Error.DUPLICATE_SEQUENCE_NUMBER):
                self._stored(batch, row.base_offset, row.log_append_time_ms)
                continue
            is_news = self._follow(batch, row, response)
            self._refused(batch, error_for(code, row.error_message))
            needs_metadata |= code in STALE_METADATA and not is_news
        return needs_metadata

    def unanswered(self, batches: list[ProducerBatch], fault: KafkaError) -> bool:
        """The connection broke or the request timed out: nobody knows what was stored."""
        for batch in batches:
            self._refused(batch, fault)
        return True

    def give_up(self, batch: ProducerBatch, error: BaseException, *, is_refused: bool) -> None:
        """No further attempt. `is_refused`: the broker surely does not have it."""
        self.counters["record-error-total"] += batch.record_count
        if self.identity is not None and not batch.is_done:
            self.identity.failed(batch, error, is_refused=is_refused)
        self._finish(batch, error)

    def _stored(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        self.counters["record-send-total"] += batch.record_count
        if self.identity is not None:
            self.identity.acked(batch, base_offset)
        if not batch.is_done:
            batch.base_offset = base_offset
            batch.log_append_time_ms = log_append_time_ms
        self._finish(batch, None)

    def _refused(self, batch: ProducerBatch, error: KafkaError) -> None:
        if batch.is_done:
            return
        code = error.code
        if code in (Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE):
            if batch.record_count > 1 and batch.can_split:
                self._split(batch)
                return
        elif self._is_worth_a_retry(batch, error):
            self.counters["record-retry-total"] += batch.record_count
            pause = CONCURRENT_BACKOFF_MS
            if code != Error.CONCURRENT_TRANSACTIONS:
                settings = self.cluster.network.settings
                first, last = settings.retry_backoff_ms, settings.retry_backoff_max_ms
                pause = int(backoff_ms(first, last, batch.attempts))
            with self.pipeline.lock:
                self._accumulator.put_back(batch, int(monotonic() * 1000) + pause)
            return
        is_unknown = code in (Error.NETWORK_EXCEPTION, Error.REQUEST_TIMED_OUT)
        self.give_up(batch, self._explained(batch, error), is_refused=not is_unknown)

    def _is_worth_a_retry(self, batch: ProducerBatch, error: KafkaError) -> bool:
        age_ms = int(monotonic() * 1000) - batch.created_ms
        if batch.attempts > self.retries or age_ms >= self._accumulator.delivery_timeout_ms:
            return False
        if error.code in SEQUENCE_ERRORS and self.identity is not None:
            return self.identity.book.retries_sequence_error(batch, error.code)
        return error_class(error.code).retriable

    def _split(self, batch: ProducerBatch) -> None:
        self.counters["batch-split-total"] += 1
        with self.pipeline.lock:
            parts = self._accumulator.split(batch)
        if self.identity is not None:
            self.identity.book.replace(batch, parts)

    def _follow(
        self, batch: ProducerBatch, row: PartitionProduceResponse, response: ProduceResponse
    ) -> bool:
        """Go where the refusal says that the leader is (KIP-951); whether it said so."""
        leader = row.current_leader
        if leader is None or leader.leader_id < 0:
            return False
        return self.cluster.leader_moved(
            batch.topic,
            batch.partition,
            leader.leader_id,
            leader.leader_epoch,
            response.node_endpoints,
        )

    def _explained(self, batch: ProducerBatch, error: KafkaError) -> KafkaError:
        if error.code == Error.TOPIC_AUTHORIZATION_FAILED:
            return error_for(error.code, f"Not authorized to access topics: [{batch.topic}]")
        return error

    def _finish(self, batch: ProducerBatch, error: BaseException | None) -> None:
        if batch.is_done:
            return
        if batch.callbacks:
            self._loop.call_soon(batch.tell)
        with self.pipeline.lock:
            self._accumulator.release(batch)
        if error is None:
            batch.complete(batch.base_offset, batch.log_append_time_ms)
        else:
            batch.fail(error)
        self._on_room()
