"""The columns that every topic has, and record batches with those of them that are wanted.

The compiled kernel fills them, a batch of Kafka at a time. What nobody asks for is not copied out
of the batches, and a whole batch of which only its place is asked is not even opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moldau.client.consumer.arrow_tables import arrays_of, chunks, measured
from moldau.client.consumer.fetch_buffer import BatchSlice
from moldau.records.batch_runs import add_run
from moldau.records.column_decoding import Columns, fresh_bytes
from moldau.tables.table_faults import load

if TYPE_CHECKING:
    import pyarrow

PLACE = ("topic", "partition")
CONTENT = ("offset", "timestamp", "key", "value", "headers")
"""In the order in which the kernel gives them."""


def kafka_schema() -> pyarrow.Schema:
    """A record without a time has -1 ms. `timestamp_type`: 0 the producer's time, 1 the broker's,
    as in Spark's Kafka connector."""
    pa = load("pyarrow", "arrow")
    header = pa.struct(
        [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
    )
    return pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
            pa.field("timestamp_type", pa.int32(), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("item", header, nullable=False))),
        ]
    )


def record_batches(
    slices: Sequence[BatchSlice], offset_end: int, schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """The records before `offset_end` of batches of one partition, with the schema's columns."""
    pa = load("pyarrow", "arrow")
    wanted = set(schema.names)
    if wanted <= {*PLACE, "timestamp_type"} and all(_is_whole(each, offset_end) for each in slices):
        for each in slices:
            if each.header.record_count:
                yield _batch(pa, each, each.header.record_count, {}, schema)
        return
    runs = [each.run() for each in slices]
    flags = {id(run): each for run, each in zip(runs, slices, strict=True)}
    for some in chunks(runs):
        for piece in _of_one_kind(some, flags):
            measure, _ = measured(piece)
            columns = Columns(measure, fresh_bytes, _wanted(wanted))
            for run in piece:
                add_run(columns, run.body, run.parts, run.offset_first)
            arrays = dict(zip(CONTENT, arrays_of(pa, columns), strict=True))
            count = _count_before(columns, offset_end)
            arrays = {name: array[:count] for name, array in arrays.items() if name in wanted}
            if count:
                yield _batch(pa, flags[id(piece[0])], count, arrays, schema)


def _is_whole(each: BatchSlice, offset_end: int) -> bool:
    return each.offset_first <= each.header.base_offset and each.header.last_offset < offset_end


def _of_one_kind(runs: Sequence[Any], flags: dict[int, BatchSlice]) -> Iterator[Sequence[Any]]:
    """Parts in which all records have the same kind of timestamp."""
    start = 0
    for index in range(1, len(runs) + 1):
        if index == len(runs) or _kind(flags[id(runs[index])]) != _kind(flags[id(runs[start])]):
            yield runs[start:index]
            start = index


def _kind(each: BatchSlice) -> int:
    return int(each.header.has_log_append_time)


def _wanted(names: Collection[str]) -> tuple[bool, bool, bool]:
    return "key" in names, "value" in names, "headers" in names


def _count_before(columns: Columns, offset_end: int) -> int:
    from bisect import bisect_left

    offsets = memoryview(columns.offsets)
    if columns.rows and offsets[columns.rows - 1] < offset_end:
        return columns.rows
    return bisect_left(offsets, offset_end, 0, columns.rows)


def _batch(
    pa: Any, place: BatchSlice, count: int, arrays: dict[str, Any], schema: pyarrow.Schema
) -> pyarrow.RecordBatch:
    same = {
        "topic": lambda: pa.repeat(pa.scalar(place.tp.topic, pa.string()), count),
        "partition": lambda: pa.repeat(pa.scalar(place.tp.partition, pa.int32()), count),
        "timestamp_type": lambda: pa.repeat(pa.scalar(_kind(place), pa.int32()), count),
    }
    columns = [same[name]() if name in same else arrays[name] for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
