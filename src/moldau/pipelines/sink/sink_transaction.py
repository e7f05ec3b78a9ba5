"""The transactions of one pipeline: fence, look, write, mark, commit. Plain client code, no Spark.

    pipeline.open()                      # fence older drivers, then look what they have done
    if not pipeline.has_done(query, n, plan_of):
        session = pipeline.begin()       # goes to whoever writes
        pipeline.commit(Marker(...), [what they brought back])

After anything that went wrong `reopen` fences again, which ends the open transaction and raises the
epoch: a slow writer of the failed attempt can never write into the next one. Since every opening
looks at the marker, a commit whose answer was lost is found to be done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from moldau.client.admin.blocking_admin import Admin
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.producer.blocking_producer import Producer
from moldau.client.producer.producer_session import ProducerSession
from moldau.client.shared.client_errors import KafkaError
from moldau.pipelines.hidden_settings import HiddenSettings
from moldau.pipelines.sink.batch_continuation import Plan, is_written
from moldau.pipelines.sink.batch_markers import (
    Marker,
    common_settings,
    ensure_topic,
    find_last,
    find_markers,
    marker_topic,
    note_of,
)
from moldau.pipelines.sink.sink_options import SinkError
from moldau.pipelines.source.source_offsets import offsets_to

log = logging.getLogger("moldau.pipelines.sink")

TRANSACTION_TIMEOUT_MS = 600_000
"""How long a batch may take; brokers allow 15 minutes unless told otherwise."""
MARKER_SECONDS_MAX = 60.0


class PipelineTransactions:
    def __init__(
        self,
        app: str,
        settings: Mapping[str, str],
        *,
        group: str | None = None,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    ) -> None:
        self.app = app
        self.group = group or app
        self.last: Marker | None = None
        """Of the last batch that is known to be committed."""
        self._settings = HiddenSettings(settings)
        self._timeout_ms = timeout_ms
        self._producer: Producer | None = None
        self._admin: Admin | None = None

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    def open(self) -> None:
        """Fence, then look. The other way round, an older driver could commit in between."""
        self._admin = Admin(common_settings(self._settings))
        ensure_topic(self._admin, self.app)
        producer = Producer(
            {
                **self._settings,
                "transactional.id": self.app,
                "transaction.timeout.ms": str(self._timeout_ms),
            }
        )
        self._producer = producer
        producer.init_transactions()
        self.last = find_last(self.app, self.group, self._settings)
        log.info("pipeline opened app=%s last=%s", self.app, self.last and self.last.batch_id)

    def reopen(self) -> None:
        """After a failure: end what is open, under a new epoch, and look what was committed."""
        self.close()
        self.open()

    def has_done(self, query_id: str, batch_id: int, plan_of: Callable[[int], Plan]) -> bool:
        """Whether the batch is in its topic; ContinuationError if nobody can tell for sure."""
        last = self.last
        if last is None:
            markers = []
        elif last.query_id == query_id and batch_id >= last.batch_id:
            markers = [last]
        else:
            markers = find_markers(self.app, self._settings, query_id)
            if not markers and not batch_id:
                log.warning(
                    "pipeline %s begins anew with another checkpoint; the one before came up to %s",
                    *(self.app, offsets_to(last.offsets)),
                )
        return is_written(self.app, batch_id, markers, plan_of)

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """As of now: a topic may have got more since the pipeline was started."""
        names = list(topics)
        if not names:
            return {}
        self._opened()
        assert self._admin is not None, "it is opened with the producer"
        found = self._admin.describe_topics(names).check()
        return {name: len(topic.partitions) for name, topic in found.items()}

    def begin(self) -> ProducerSession:
        producer = self._opened()
        producer.begin_transaction()
        return producer.session()

    def commit(self, marker: Marker, sessions: Iterable[ProducerSession]) -> None:
        """Write the marker and the group's offsets, then end the transaction."""
        producer = self._opened()
        for session in sessions:
            producer.adopt(session)
        self.mark(producer, marker)
        self.end(producer)
        self.last = marker

    def mark(self, producer: Producer, marker: Marker) -> None:
        written = producer.send(
            marker_topic(self.app), marker.encode(), key=marker.query_id.encode(), partition=0
        )
        producer.flush(MARKER_SECONDS_MAX)
        note = note_of(self.app, written.result(MARKER_SECONDS_MAX).offset)
        offsets = {
            tp: OffsetAndMetadata(offset, metadata=note) for tp, offset in marker.offsets.items()
        }
        if offsets:
            producer.send_offsets_to_transaction(offsets, self.group)

    def end(self, producer: Producer) -> None:
        producer.commit_transaction()

    def close(self) -> None:
        """Let go without a word to the coordinator: who opens next ends what is open."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(0)
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def abort(self) -> None:
        """As good as can be: what cannot be aborted now is ended by who opens next."""
        producer = self._producer
        if producer is None:
            return
        try:
            producer.abort_transaction()
        except KafkaError as fault:
            log.info("the transaction of %s was not aborted: %s", self.app, fault)

    def _opened(self) -> Producer:
        if self._producer is None:
            raise SinkError(f"The pipeline {self.app} is not open")
        return self._producer
