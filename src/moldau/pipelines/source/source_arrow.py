"""Record batches as Arrow record batches with the columns of Spark's Kafka connector.

The kernel fills the columns; here they only get Spark's names, order and units. Spark takes Arrow
data as it is, so no row ever becomes a Python object.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from moldau.client.consumer.arrow_tables import load_pyarrow, table_of
from moldau.client.consumer.fetch_buffer import BatchSlice

if TYPE_CHECKING:
    import pyarrow

CREATE_TIME = 0
LOG_APPEND_TIME = 1


def record_batches(
    slices: Sequence[BatchSlice], offset_end: int, schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """The records before `offset_end`, in a few Arrow batches."""
    for kind, some in groupby(slices, key=lambda each: each.header.has_log_append_time):
        stamp_type = LOG_APPEND_TIME if kind else CREATE_TIME
        for batch in table_of(list(some)).to_batches():
            count = batch.num_rows
            if count and batch.column("offset")[count - 1].as_py() >= offset_end:
                count = _count_before(batch.column("offset"), offset_end)
                batch = batch.slice(0, count)
            if count:
                yield _as_spark(batch, stamp_type, schema)


def _count_before(offsets: pyarrow.Array, offset_end: int) -> int:
    return bisect_left(offsets.to_numpy(), offset_end)


def _as_spark(
    batch: pyarrow.RecordBatch, stamp_type: int, schema: pyarrow.Schema
) -> pyarrow.RecordBatch:
    pa = load_pyarrow()
    arrays = [
        batch.column("key"),
        batch.column("value"),
        # One task reads one topic.
        pa.repeat(batch.column("topic").dictionary[0], batch.num_rows),
        batch.column("partition"),
        batch.column("offset"),
        batch.column("timestamp").cast(schema.field("timestamp").type),
        pa.repeat(pa.scalar(stamp_type, pa.int32()), batch.num_rows),
    ]
    if len(schema) > len(arrays):
        arrays.append(_headers(pa, batch.column("headers"), schema.field("headers").type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(pa: Any, lists: Any, kind: Any) -> Any:
    """A record without headers has null there, as with the connector."""
    import pyarrow.compute as compute

    pairs = lists.values
    fields = list(kind.value_type)
    renamed = pa.StructArray.from_arrays([pairs.field(0), pairs.field(1)], fields=fields)
    lengths = compute.list_value_length(lists)
    return pa.ListArray.from_arrays(
        lists.offsets, renamed, type=kind, mask=compute.equal(lengths, 0)
    )
