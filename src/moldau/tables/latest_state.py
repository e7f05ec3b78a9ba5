"""The last value of every key, as a compacted topic means it: a value of null takes the key away.

Keys are compared within their partition, as compaction does. Records without a key are left out.
What is held is one row for each living key, and a part of what is being read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moldau.tables.table_faults import load

if TYPE_CHECKING:
    import pyarrow

ROWS_AT_LEAST = 1 << 17
"""New rows are looked at together with what is held once there are as many, so that each row is
looked at a few times at most."""
ROWS_PER_BATCH = 1 << 16


def latest(
    batches: Iterator[pyarrow.RecordBatch], schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """The batches of a partition come in order; those of several may be mixed."""
    pa = load("pyarrow", "arrow")
    held = schema.empty_table()
    fresh: list[pyarrow.RecordBatch] = []
    count = 0
    for batch in batches:
        fresh.append(batch)
        count += batch.num_rows
        if count >= max(ROWS_AT_LEAST, held.num_rows):
            held = _newest(pa, pa.concat_tables([held, pa.Table.from_batches(fresh, schema)]))
            fresh, count = [], 0
    held = _newest(pa, pa.concat_tables([held, pa.Table.from_batches(fresh, schema)]))
    yield from held.to_batches(ROWS_PER_BATCH)


def _newest(pa: Any, rows: pyarrow.Table) -> pyarrow.Table:
    """The rows that no later one has replaced, without those that take a key away."""
    compute = load("pyarrow.compute", "arrow")
    count = rows.num_rows
    if not count:
        return rows
    counted = pa.py_buffer(array("q", range(count)))
    numbers = pa.Array.from_buffers(pa.int64(), count, [None, counted])
    found = (
        pa.table(
            {
                "topic": rows["topic"],
                "partition": rows["partition"],
                "key": rows["key"],
                "row": numbers,
            }
        )
        .group_by(["topic", "partition", "key"])
        .aggregate([("row", "max")])
    )
    places = found["row_max"].combine_chunks()
    places = places.take(compute.sort_indices(places))
    kept = rows.take(places)
    living = compute.and_(compute.is_valid(kept["key"]), compute.is_valid(kept["value"]))
    return kept.filter(living)
