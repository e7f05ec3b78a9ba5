"""User code around every record: sees it before it is serialized, and what became of it.

`on_send` may return another record (or None to keep the one given); one that raises is logged and
passed over, as Kafka's producer does.
`on_acknowledgement` runs on the background loop, so it must be quick.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.consumer.consumer_records import ConsumerRecords, OffsetAndMetadata
from moldau.client.shared.configured_classes import instance_of
from moldau.client.shared.user_callbacks import tried, warn
from moldau.model.names import TopicPartition
from moldau.records.batch_kernel import Headers

log = logging.getLogger("moldau.client")


class ProducerRecord(NamedTuple):
    """A record as the user gave it, before serialization."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class RecordMetadata(NamedTuple):
    """Where a record went. Offset -1: the broker was not asked, or has said it before."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class ProducerInterceptor:
    """Sees what a producer sends, and what became of it."""

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Called once, with all settings of the producer."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Before serialization and partitioning."""

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """When the record is stored, or will not be."""

    def close(self) -> None:
        """Called when the producer closes."""


class ConsumerInterceptor:
    """Sees what a consumer reads and commits; any object with some of the methods will do."""

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords | None:
        """Before `poll` returns them; what is returned takes their place."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """When the group's coordinator has stored them."""

    def close(self) -> None:
        """Called when the consumer closes."""


def load_interceptors(
    given: Iterable[Any], settings: Mapping[str, Any]
) -> tuple[ProducerInterceptor, ...]:
    chain = tuple(instance_of(item) for item in given)
    for interceptor in chain:
        if hasattr(interceptor, "configure"):
            interceptor.configure(settings)
    return chain


def intercept(chain: Sequence[ProducerInterceptor], record: ProducerRecord) -> ProducerRecord:
    for interceptor in chain:
        changed, fault = tried(interceptor.on_send, record)
        if fault is not None:
            warn(interceptor.on_send, fault, log=log, prefix="")
        if changed is not None:
            record = changed
    return record
