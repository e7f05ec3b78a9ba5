"""Record batches as Arrow record batches with the columns of Spark's Kafka connector.

The kernel fills the columns; here they only get Spark's names, order and units. Spark takes Arrow
data as it is, so no row ever becomes a Python object.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from moldau.client.arrow import load_pyarrow, table_of
from moldau.client.consumer_buffer import BatchSlice

if TYPE_CHECKING:
    import pyarrow

CREATE_TIME = 0
LOG_APPEND_TIME = 1


def record_batches(
    slices: Sequence[BatchSlice], offset_end: int, schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """The records before `offset_end`; one Arrow batch unless the kind of timestamps changes."""
    for kind, some in groupby(slices, key=lambda each: each.header.has_log_append_time):
        table = table_of(list(some))
        columns = {name: table.column(name) for name in table.column_names}
        columns = {name: each.chunk(0) for name, each in columns.items() if each.num_chunks}
        if not columns:
            continue
        count = len(columns["offset"])
        if count and columns["offset"][count - 1].as_py() >= offset_end:
            count = _count_before(columns["offset"], offset_end)
            columns = {name: each.slice(0, count) for name, each in columns.items()}
        if count:
            stamp_type = LOG_APPEND_TIME if kind else CREATE_TIME
            yield _as_spark(columns, count, stamp_type, schema)


def _count_before(offsets: pyarrow.Array, offset_end: int) -> int:
    return bisect_left(offsets.to_numpy(), offset_end)


def _as_spark(
    columns: dict[str, Any], count: int, stamp_type: int, schema: pyarrow.Schema
) -> pyarrow.RecordBatch:
    pa = load_pyarrow()
    topic = columns["topic"].dictionary[0]
    arrays = [
        columns["key"],
        columns["value"],
        pa.repeat(topic, count),
        columns["partition"],
        columns["offset"],
        columns["timestamp"].cast(schema.field("timestamp").type),
        pa.repeat(pa.scalar(stamp_type, pa.int32()), count),
    ]
    if len(schema) > len(arrays):
        arrays.append(_headers(pa, columns["headers"], schema.field("headers").type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(pa: Any, lists: Any, kind: Any) -> Any:
    """A record without headers has null there, as with the connector."""
    import pyarrow.compute as compute

    pairs = lists.values
    fields = list(kind.value_type)
    renamed = pa.StructArray.from_arrays([pairs.field(0), pairs.field(1)], fields=fields)
    lengths = compute.list_value_length(lists)
    offsets = lists.offsets
    if offsets.offset:
        # A mask needs offsets that start where their memory does.
        offsets = pa.concat_arrays([offsets])
    return pa.ListArray.from_arrays(offsets, renamed, type=kind, mask=compute.equal(lengths, 0))
