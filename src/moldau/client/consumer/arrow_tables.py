"""Batches as an Arrow table, without a Python object per record.

pyarrow is an extra (`pip install 'moldau[arrow]'`), imported when the first table is made. The
kernel in `records/column_decoding.py` fills plain buffers; Arrow takes them as they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moldau.client.consumer.fetch_buffer import BatchRun, BatchSlice
from moldau.records.batch_runs import add_run
from moldau.records.column_decoding import Columns, Measure, fresh_bytes

if TYPE_CHECKING:
    import pyarrow

CHUNK_BYTES = 4 * 1024 * 1024
"""Larger tables are made of several chunks: each is still in the processor's cache while it is
made, and its buffers have sizes that the next table can use again."""

_schema: Any = None


def load_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "poll_arrow needs pyarrow: install it with pip install 'moldau[arrow]'"
        ) from None
    return pyarrow


def schema() -> pyarrow.Schema:
    """What every table looks like. A record without a timestamp has -1 ms."""
    global _schema
    if _schema is None:
        pa = load_pyarrow()
        header = pa.struct(
            [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
        )
        _schema = pa.schema(
            [
                pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
                pa.field("partition", pa.int32(), nullable=False),
                pa.field("offset", pa.int64(), nullable=False),
                pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
                pa.field("key", pa.binary()),
                pa.field("value", pa.binary()),
                pa.field("headers", pa.list_(pa.field("item", header, nullable=False))),
            ]
        )
    return _schema


def table_of(
    slices: Sequence[BatchRun | BatchSlice], allocate: Callable[[int], Any] = fresh_bytes
) -> pyarrow.Table:
    """One table with the records of all batches, in their order, in chunks of about 4 MB.

    `allocate` makes the room for the columns."""
    pa = load_pyarrow()
    runs = [piece.run() if isinstance(piece, BatchSlice) else piece for piece in slices]
    names = list(dict.fromkeys(run.tp.topic for run in runs))
    # All chunks have the same dictionary, so that nothing has to be unified.
    topics = {name: place for place, name in enumerate(names)}
    dictionary = pa.array(names, pa.string())
    batches = []
    for some in chunks(runs):
        measure, rows = measured(some)
        columns = Columns(measure, allocate)
        for run in some:
            add_run(columns, run.body, run.parts, run.offset_first)
        places = [topics[run.tp.topic] for run in some]
        first = pa.DictionaryArray.from_arrays(_repeated(pa, places, rows), dictionary)
        partitions = _repeated(pa, [run.tp.partition for run in some], rows)
        arrays = [first, partitions, *arrays_of(pa, columns)]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema()))
    return pa.Table.from_batches(batches, schema())


def chunks(runs: Sequence[BatchRun]) -> Iterator[Sequence[BatchRun]]:
    start = size_bytes = 0
    for index, run in enumerate(runs):
        size_bytes += run.size_bytes
        if size_bytes >= CHUNK_BYTES:
            yield runs[start : index + 1]
            start, size_bytes = index + 1, 0
    if start < len(runs):
        yield runs[start:]


def measured(runs: Sequence[BatchRun]) -> tuple[Measure, list[int]]:
    """How much all hold together, and the rows of each."""
    measures = [run.measure for run in runs]
    _, *totals = map(sum, zip(*measures, strict=True))
    return (-1, *totals), [measure[1] for measure in measures]  # type: ignore[return-value]


def _repeated(pa: Any, numbers: Sequence[int], rows: Sequence[int]) -> Any:
    """Each number so many times."""
    column = array("i")
    if len(set(numbers)) == 1:
        column = array("i", numbers[:1]) * sum(rows)
    else:
        for number, count in zip(numbers, rows, strict=True):
            column.extend(array("i", [number]) * count)
    return pa.Array.from_buffers(pa.int32(), len(column), [None, pa.py_buffer(column)])


def arrays_of(pa: Any, columns: Columns) -> list[Any]:
    """Offsets, timestamps, keys, values, headers."""
    count = columns.rows
    buffer = pa.py_buffer

    def numbers(kind: Any, data: Any) -> Any:
        return pa.Array.from_buffers(kind, count, [None, buffer(data)])

    def blobs(valid: Any, nulls: int, ends: Any, data: Any) -> Any:
        validity = buffer(valid) if nulls else None
        return pa.Array.from_buffers(
            pa.binary(), count, [validity, buffer(ends), buffer(data)], null_count=nulls
        )

    return [
        numbers(pa.int64(), columns.offsets),
        numbers(pa.timestamp("ms", "UTC"), columns.timestamps),
        blobs(columns.keys_valid, columns.null_keys, columns.key_ends, columns.keys),
        blobs(columns.values_valid, columns.null_values, columns.value_ends, columns.values),
        _headers(pa, columns),
    ]


def _headers(pa: Any, columns: Columns) -> Any:
    count = columns.headers
    buffer = pa.py_buffer
    keys = pa.Array.from_buffers(
        pa.binary(),
        count,
        [None, buffer(columns.header_key_ends), buffer(columns.header_keys)],
    )
    validity = buffer(columns.header_values_valid) if columns.null_header_values else None
    values = pa.Array.from_buffers(
        pa.binary(),
        count,
        [validity, buffer(columns.header_value_ends), buffer(columns.header_values)],
        null_count=columns.null_header_values,
    )
    kind = schema().field("headers").type
    try:
        # Casting checks the text, and loads a good part of pyarrow when first used.
        texts = keys.cast(pa.string()) if count else keys.view(pa.string())
    except pa.ArrowInvalid:
        # Nobody checks that header keys are UTF-8.
        texts = pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    pairs = pa.StructArray.from_arrays([texts, values], fields=list(kind.value_type))
    ends = pa.Array.from_buffers(pa.int32(), columns.rows + 1, [None, buffer(columns.header_ends)])
    return pa.ListArray.from_arrays(ends, pairs, type=kind)
