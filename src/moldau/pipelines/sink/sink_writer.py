"""The writers behind `format("moldau")`, for batches and streams: at least once.

Tasks get Arrow batches, never rows, and write with a producer of their own. A task that is tried
again writes its rows again; whoever wants none twice uses `Kafka.to` with exactly_once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from moldau.client.shared.client_errors import KafkaError
from moldau.pipelines.sink.sink_options import SinkError, check_columns, parse_sink_options
from moldau.pipelines.sink.sink_plan import check_topic, plan
from moldau.pipelines.sink.sink_tasks import WriterSettings, write_rows

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


@dataclass
class Written(WriterCommitMessage):
    records: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, work: WriterSettings) -> None:
        self.work = work

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        return write_task(self.work, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, work: WriterSettings) -> None:
        self.work = work

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        return write_task(self.work, iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Brokers have everything when tasks return."""

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """What is written stays: at least once."""


def write_task(work: WriterSettings, batches: Iterator[pyarrow.RecordBatch]) -> Written:
    from pyspark import TaskContext

    context = TaskContext.get()
    try:
        return Written(write_rows(work, batches, context.partitionId() if context else 0))
    except KafkaError as fault:
        raise SinkError(f"The rows could not be written: {fault}") from None


def writer(schema: StructType, options: dict[str, str], overwrite: bool) -> BatchWriter:
    """For `DataSource.writer`."""
    if overwrite:
        raise SinkError("A topic cannot be overwritten: use mode('append')")
    return BatchWriter(_work(schema, options))


def stream_writer(schema: StructType, options: dict[str, str], overwrite: bool) -> StreamWriter:
    """For `DataSource.streamWriter`."""
    return StreamWriter(_work(schema, options))


def _work(schema: StructType, options: dict[str, str]) -> WriterSettings:
    chosen = parse_sink_options(options)
    check_columns(schema, chosen.topic, numbers=True)
    if chosen.topic is not None:
        check_topic(chosen.settings, chosen.topic)
    return plan(chosen)
