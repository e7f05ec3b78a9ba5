"""`format("moldau")`: topics as DataFrames and streams, in place of Spark's Kafka connector.

Spark makes a `MoldauSource` from the options, on the driver and in its workers; readers are
pickled and so keep options only. Offsets are planned on the driver (`source_plan`), tasks fetch
and decode (`source_fetch`, `source_arrow`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from moldau.pipelines.source.pushed_filters import Bounds, push
from moldau.pipelines.source.source_arrow import record_batches
from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_fetch import RangeReader
from moldau.pipelines.source.source_offsets import (
    LATEST,
    OffsetRange,
    Offsets,
    Position,
    limit_rows,
    offsets_from,
    offsets_to,
    rows_between,
)
from moldau.pipelines.source.source_options import (
    ENDINGS,
    STARTINGS,
    SourceError,
    SourceOptions,
    parse_options,
)
from moldau.pipelines.source.source_plan import NOWHERE, SourcePlan

if TYPE_CHECKING:
    import pyarrow


def schema_of(options: SourceOptions) -> StructType:
    """The connector's columns and types."""
    columns = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if options.include_headers:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        columns.add("headers", ArrayType(header))
    return columns


class PlainMoldauSource(DataSource):
    """The source for sessions whose user has switched the push-down of filters off."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> StructType:
        # What is wrong for a batch and for a stream shows here already, with `load()`.
        options = parse_options(_without_edges(self.options), is_stream=True)
        return schema_of(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(_checked(parse_options(self.options, is_stream=False), schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(_checked(parse_options(self.options, is_stream=True), schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from moldau.pipelines.sink.sink_writer import writer

        return writer(schema, dict(self.options), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from moldau.pipelines.sink.sink_writer import stream_writer

        return stream_writer(schema, dict(self.options), overwrite)


class MoldauSource(PlainMoldauSource):
    def reader(self, schema: StructType) -> DataSourceReader:
        options = _checked(parse_options(self.options, is_stream=False), schema)
        return FilteringBatchReader(options, schema)


class RangePartition(InputPartition):
    """What a task reads, and of which topic: a name may mean another one by then."""

    def __init__(self, part: OffsetRange, topic_id: bytes) -> None:
        super().__init__((tuple(part), topic_id))


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.spark_schema = schema
        self.bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        with closing(SourceClient(self.options)) as client:
            plan = SourcePlan(client)
            ranges = plan.batch_ranges(self.bounds)
            return [RangePartition(part, plan.topic_id(part.tp.topic)) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_part(self.options, self.spark_schema, partition)


class FilteringBatchReader(BatchReader):
    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        self.bounds, left = push(filters)
        return left


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives as long as the query, in a Python process of the driver; tasks have copies of it
    that only read."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.spark_schema = schema
        self._plan: SourcePlan | None = None
        self._initial: Position | None = None
        self._has_marked_start = False
        self._target: Position | None = None
        self._committed: Offsets = {}
        self._latest: Offsets = {}
        self._triggered_at = 0.0

    @property
    def plan(self) -> SourcePlan:
        if self._plan is None:
            self._plan = SourcePlan(SourceClient(self.options))
        return self._plan

    def initialOffset(self) -> dict[str, Any]:
        self._initial = self.plan.first()
        return self._initial.encode()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark takes one limit; that of the least rows is then known here.
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.min_offsets is not None:
            return ReadMinRows(self.options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.plan.latest(NOWHERE)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = Position.decode(start)
        self._commit(begin.offsets)
        if self._is_start_to_be_kept(begin):
            return start
        end = self._end(begin)
        self._latest = end.offsets
        known = begin.offsets_in(end.topic_ids)
        offsets = end.offsets
        if isinstance(limit, ReadMaxRows | ReadMinRows):
            if self._is_too_little(known, offsets):
                return start
            if isinstance(limit, ReadMaxRows):
                offsets = limit_rows(self.plan.with_new(known, offsets), offsets, limit.max_rows)
        if offsets == known and not begin.topic_ids:
            # A checkpoint without ids gets them with the next records, not with an empty batch.
            return start
        return Position(offsets, end.topic_ids).encode()

    def _end(self, begin: Position) -> Position:
        if self._target is None:
            return self.plan.latest(begin)
        self.plan.check_same(self._target.topic_ids, begin)
        return self._target

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return offsets_to(self._latest) or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, until = Position.decode(start), Position.decode(end)
        # Of a topic that was made anew, which the user has allowed, all that there is.
        known = begin.offsets_in(until.topic_ids)
        if known == until.offsets:
            return []
        initial = self._initial
        is_first = initial is not None and begin.offsets == initial.offsets
        is_first = is_first and self.options.start.is_at(LATEST)
        ranges = self.plan.stream_ranges(known, until.offsets, is_first=is_first)
        return [RangePartition(part, self._topic_id(part.tp.topic, until)) for part in ranges]

    def _topic_id(self, topic: str, until: Position) -> bytes:
        return until.topic_ids.get(topic) or self.plan.topic_id(topic)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_part(self.options, self.spark_schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._commit(offsets_from(end))

    def stop(self) -> None:
        if self._plan is not None:
            self._plan.client.close()
            self._plan = None

    def _commit(self, done: Offsets) -> None:
        """Spark tells of a batch's end when the next one is planned, and of the last one never;
        but it asks for more from there, so both calls count."""
        group = self.options.commit_group
        if group is not None and done != self._committed:
            self.plan.client.commit(group, done)
            self._committed = done

    def _is_start_to_be_kept(self, begin: Position) -> bool:
        """Whether to let an empty batch go first, which writes the start into the checkpoint.

        Spark keeps ends only. Were the first batch to fail, a start at the latest offset would be
        asked for again, and what had come in between would be skipped.
        """
        initial = self._initial
        is_new = initial is not None and begin.offsets == initial.offsets
        is_new = is_new and not self._has_marked_start
        self._has_marked_start = True
        return is_new and self._target is None and self.options.start.is_at(LATEST)

    def _is_too_little(self, begin: Offsets, end: Offsets) -> bool:
        """Whether to wait for minOffsetsPerTrigger; never with AvailableNow, and not for ever."""
        least = self.options.min_offsets
        if least is None or self._target is not None:
            return False
        now = time.monotonic()
        if self._triggered_at == 0.0:
            self._triggered_at = now
        has_waited = (now - self._triggered_at) * 1000 >= self.options.max_trigger_delay_ms
        if rows_between(begin, end) < least and not has_waited:
            return True
        self._triggered_at = now
        return False

    def __getstate__(self) -> dict[str, Any]:
        # Connections stay on the driver.
        return {**self.__dict__, "_plan": None}


def read_part(
    options: SourceOptions, schema: StructType, partition: InputPartition
) -> Iterator[pyarrow.RecordBatch]:
    """A task: the records of one range as Arrow batches."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if partition.value is None:
        # Spark's stand-in where there is nothing to read.
        return
    planned, topic_id = partition.value
    part = OffsetRange(*planned)
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    with closing(SourceClient(options)) as client:
        for slices in RangeReader(client, part, topic_id).read():
            yield from record_batches(slices, part.end, arrow_schema)


def _without_edges(options: Any) -> dict[str, str]:
    """Options whose meaning depends on whether a batch or a stream is read are looked at later."""
    late = {name.lower() for name in (*STARTINGS, *ENDINGS)}
    return {name: value for name, value in options.items() if name.lower() not in late}


def _checked(options: SourceOptions, schema: StructType) -> SourceOptions:
    if schema != schema_of(options):
        raise SourceError(
            "The format moldau has a schema of its own, so .schema() cannot give it"
            f" {schema.simpleString()}: leave it out, and decode key and value with DataFrame code"
        )
    return options
