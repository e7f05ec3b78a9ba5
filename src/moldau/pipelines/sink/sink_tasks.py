"""What a writing task does with its rows: on executors, in processes of their own.

At least once: each task has a producer of its own and writes what it gets. Exactly once: first
every task turns its rows into bodies of record batches; Spark then brings all bodies for one
partition to one task, which writes them in the driver's transaction as the driver's producer, and
says how far it came. So every record is touched once, and only whole bodies are moved, or the
places where they lie.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from moldau.client.producer.blocking_producer import Producer
from moldau.client.producer.prepared_bodies import Body, send_body
from moldau.client.producer.producer_batch import ProducerBatch
from moldau.client.producer.producer_session import ProducerSession
from moldau.client.shared.client_errors import KafkaError
from moldau.model.names import TopicPartition
from moldau.pipelines.sink.sink_options import SinkError
from moldau.pipelines.sink.sink_rows import RowSettings, bodies
from moldau.pipelines.sink.sink_spool import SpooledPayload, SpoolFile, SpoolReader

if TYPE_CHECKING:
    import pyarrow

BODY_SCHEMA = (
    "writer int, task int, number int, topic string, partition int, records int, "
    "base_timestamp long, max_timestamp long, payload binary, file string, position long, "
    "length int"
)
BODY_KINDS = (
    *("int32", "int32", "int32", "string", "int32", "int32", "int64", "int64"),
    *("binary", "string", "int64", "int32"),
)
RESULT_SCHEMA = "stage int, records long, session string"
FLUSH_SECONDS_MAX = 120.0
PENDING_MAX = 64
"""Batches whose outcome a task keeps in mind; the oldest are looked at first."""


class WriterSettings(NamedTuple):
    rows: RowSettings
    settings: dict[str, str]
    """The producer's."""
    writers: int = 1
    partitions: Mapping[str, int] = {}
    """How many partitions topics have, as far as the driver knows."""
    spool: str | None = None
    """The folder that all tasks see, if there is one."""


def make_bodies(work: WriterSettings) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow`: rows in, bodies out."""

    def run(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task, number = context.partitionId(), 0
        counts = PartitionCounts(work)
        with body_store(work, f"{task}-{context.taskAttemptId()}") as store:
            for place, batch in enumerate(batches):
                columns: list[list[Any]] = [[] for _ in BODY_KINDS]
                for topic, partition, body in bodies(batch, work.rows, counts, task + place):
                    writer = (crc32(topic.encode()) + partition) % work.writers
                    fields = (
                        *(writer, task, number, topic, partition, body.record_count),
                        *(body.base_timestamp, body.max_timestamp, *store(body.payload)),
                    )
                    number += 1
                    for column, value in zip(columns, fields, strict=True):
                        column.append(value)
                arrays = [
                    pa.array(column, pa.type_for_alias(kind))
                    for column, kind in zip(columns, BODY_KINDS, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, _names(BODY_SCHEMA))
        counts.close()

    return run


@contextmanager
def body_store(
    work: WriterSettings, name: str
) -> Iterator[Callable[[bytes], tuple[bytes | None, str | None, int | None, int | None]]]:
    """What becomes of a payload: the last four fields of its row."""
    if work.spool is None:
        yield lambda payload: (payload, None, None, None)
        return
    with closing(SpoolFile(work.spool, name)) as file:
        yield lambda payload: (None, *file.put(payload))


def write_bodies(
    work: WriterSettings, session: ProducerSession
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow`: bodies in, one row with what was written out."""

    def run(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber():
            # Sequences that the first attempt may have used must not be used again.
            raise SinkError("A task that writes in a transaction is not tried twice")
        records = 0
        spool = SpoolReader()
        with closing(spool), Writing(Producer.attach(session, work.settings)) as writing:
            for batch in batches:
                for row in batch.to_pylist():
                    payload = row["payload"]
                    if payload is None:
                        payload = spool.get(
                            SpooledPayload(row["file"], row["position"], row["length"])
                        )
                    body = Body(
                        payload, row["records"], row["base_timestamp"], row["max_timestamp"]
                    )
                    writing.send(row["topic"], row["partition"], body)
                    records += body.record_count
            writing.finish()
            result = session_text(writing.producer.session())
        row = [[context.stageId()], [records], [result]]
        kinds = (pa.int32(), pa.int64(), pa.string())
        arrays = [pa.array(v, kind) for v, kind in zip(row, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, _names(RESULT_SCHEMA))

    return run


def write_rows(work: WriterSettings, batches: Iterator[pyarrow.RecordBatch], task: int) -> int:
    """At least once: rows in, records written. Returns when brokers have them all."""
    records = 0
    with Writing(Producer(work.settings)) as writing:

        def partition_count(topic: str) -> int:
            return len(writing.producer.partitions_for(topic))

        for place, batch in enumerate(batches):
            for topic, partition, body in bodies(batch, work.rows, partition_count, task + place):
                writing.send(topic, partition, body)
                records += body.record_count
        writing.finish()
    return records


class Writing:
    """A producer for the length of a task, and the batches whose outcome is open."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self._pending: list[ProducerBatch] = []
        self._is_done = False

    def send(self, topic: str, partition: int, body: Body) -> None:
        try:
            self._pending.append(send_body(self.producer, topic, partition, body))
        except KafkaError as fault:
            raise SinkError(f"Writing to {topic}-{partition} failed: {fault}") from None
        if len(self._pending) >= PENDING_MAX:
            self._check()

    def finish(self) -> None:
        try:
            self.producer.flush(FLUSH_SECONDS_MAX)
        except KafkaError as fault:
            raise SinkError(f"Not all records were written: {fault}") from None
        self._check()
        self._is_done = True

    def _check(self) -> None:
        for batch in self._pending:
            if batch.error is not None:
                where = batch.topic_partition
                raise SinkError(f"Writing to {where} failed: {batch.error}") from None
        self._pending = [batch for batch in self._pending if not batch.is_done]

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *outcome: object) -> None:
        # What a task that failed has not sent yet must not be sent any more.
        self.producer.close(None if self._is_done else 0)


class PartitionCounts:
    """How many partitions a topic has: what the driver said, or the cluster if it did not."""

    def __init__(self, work: WriterSettings) -> None:
        self._known = dict(work.partitions)
        self._settings = work.settings
        self._producer: Producer | None = None

    def __call__(self, topic: str) -> int:
        if topic not in self._known:
            if self._producer is None:
                self._producer = Producer(self._settings)
            self._known[topic] = len(self._producer.partitions_for(topic))
        return self._known[topic]

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(0)


def session_text(session: ProducerSession) -> str:
    """As a row of Spark can carry it."""
    document = {
        **session._asdict(),
        "sequences": [(*tp, number) for tp, number in session.sequences.items()],
    }
    return json.dumps(document)


def session_from(text: str) -> ProducerSession:
    document = json.loads(text)
    document["sequences"] = {
        TopicPartition(topic, partition): number
        for topic, partition, number in document["sequences"]
    }
    document["partitions"] = tuple(TopicPartition(*tp) for tp in document["partitions"])
    return ProducerSession(**document)


def _names(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(", ")]
