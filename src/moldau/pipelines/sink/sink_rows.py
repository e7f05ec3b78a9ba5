"""From Arrow batches to bodies of record batches, partition by partition: what writing tasks do.

Runs on executors. Columns are named as Spark's Kafka connector names them: key, value, headers,
topic, partition, and timestamp if it is asked for. Text becomes UTF-8 and numbers become the
bytes of Java's serializers. Keys go where Java's producer would send them; the rows without a key
of one Arrow batch go to one partition, the next batch's to the next.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Mapping
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.client.producer.prepared_bodies import Body
from moldau.pipelines.sink.sink_options import SinkError
from moldau.records.column_encoding import Field, Rows, choose_partitions, order_rows
from moldau.records.compression import Codec, compress

if TYPE_CHECKING:
    import pyarrow

BODY_BYTES = 512 * 1024
"""Records of one body before compression: half of what a topic takes by default."""
_NUMBERS = {"int64": "q", "int32": "i", "int16": "h", "int8": "b", "double": "d", "float": "f"}


class RowSettings(NamedTuple):
    """What tasks have to know; plain data, so that Spark can send it to them."""

    topic: str | None
    """Where rows go without a topic of their own."""
    codec: int = Codec.NONE
    level: int | None = None
    has_timestamps: bool = False
    body_bytes: int = BODY_BYTES


def bodies(
    batch: pyarrow.RecordBatch,
    settings: RowSettings,
    partition_count: Callable[[str], int],
    keyless: int,
) -> Iterator[tuple[str, int, Body]]:
    """(topic, partition, body) for all rows; those of one partition in their order."""
    if not batch.num_rows:
        return
    columns = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
    for topic, part in _by_topic(columns, settings.topic):
        yield from (
            (topic, partition, body)
            for partition, body in _of_topic(topic, part, settings, partition_count(topic), keyless)
        )


def _by_topic(
    columns: Mapping[str, Any], topic: str | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if topic is not None:
        yield topic, columns
        return
    import pyarrow.compute as pc

    names = columns["topic"]
    for name in pc.unique(names).to_pylist():
        if name is None:
            raise SinkError(
                "A row has no topic: fill the column topic, or set the option topic for all rows"
            )
        chosen = pc.equal(names, name)
        yield name, {key: column.filter(chosen) for key, column in columns.items()}


def _of_topic(
    topic: str,
    columns: Mapping[str, Any],
    settings: RowSettings,
    partition_count: int,
    keyless: int,
) -> Iterator[tuple[int, Body]]:
    count = len(columns["value"])
    rows, keys = _rows(columns, count, settings)
    partitions = _partitions(columns.get("partition"), count)
    choose_partitions(keys, partition_count, keyless % partition_count, partitions)
    ends = memoryview(array("i", [0]) * partition_count)
    order = memoryview(array("i", [0]) * count)
    try:
        order_rows(partitions, count, ends, order)
    except IndexError as fault:
        raise SinkError(
            f"A row is for partition {fault} of {topic}, which has partitions 0 to "
            f"{partition_count - 1}"
        ) from None
    start = 0
    for partition in range(partition_count):
        while start < ends[partition]:
            first = start
            body, start, base, highest = rows.write(
                order, first, ends[partition], settings.body_bytes
            )
            payload = compress(settings.codec, body, settings.level)
            yield partition, Body(payload, start - first, base, highest)


def _rows(columns: Mapping[str, Any], count: int, settings: RowSettings) -> tuple[Rows, Field]:
    keys = column_field(columns["key"]) if "key" in columns else _nulls(count)
    stamp_column = columns.get("timestamp") if settings.has_timestamps else None
    rows = Rows(keys, column_field(columns["value"]), _stamps(stamp_column, count))
    headers = columns.get("headers")
    if headers is not None and headers.null_count < count:
        _add_headers(rows, headers)
    return rows, keys


def column_field(column: Any) -> Field:
    """A column of bytes, text or numbers as the kernel takes it."""
    kind = str(column.type)
    if kind in _NUMBERS:
        return _numbers_field(column, _NUMBERS[kind])
    if kind == "bool":
        return _numbers_field(column.cast("int8"), "b")
    if kind.startswith("large_"):
        column = column.cast(kind.removeprefix("large_"))
    elif kind not in ("binary", "string"):
        raise SinkError(
            f"A column of type {kind} cannot be a key or value: use text, bytes or a number, or "
            "encode it first, for instance with moldau.pipelines.formats.column_codecs.to_json"
        )
    valid, ends, content = column.buffers()
    first, count = column.offset, len(column)
    return Field(
        memoryview(ends).cast("B").cast("i")[first : first + count + 1]
        if ends is not None and ends.size
        else memoryview(array("i", [0])),
        b"" if content is None else memoryview(content).cast("B"),
        None if valid is None else memoryview(valid).cast("B"),
        first,
    )


def _numbers_field(column: Any, code: str) -> Field:
    """Numbers as Java's serializers write them: the highest byte first."""
    valid, data = column.buffers()
    numbers = array(code)
    size = numbers.itemsize
    numbers.frombytes(
        memoryview(data).cast("B")[column.offset * size : (column.offset + len(column)) * size]
    )
    if sys.byteorder == "little" and size > 1:
        numbers.byteswap()
    ends = array("i", range(0, len(column) * size + 1, size))
    bits = None if valid is None else memoryview(valid).cast("B")
    return Field(memoryview(ends), memoryview(numbers).cast("B"), bits, column.offset)


def _nulls(count: int) -> Field:
    return Field(memoryview(array("i", [0]) * (count + 1)), b"", bytes(count // 8 + 1))


def _stamps(column: Any, count: int) -> memoryview:
    """Milliseconds; rows without a time get the present one."""
    now_ms = time_ns() // 1_000_000
    if column is None:
        return memoryview(array("q", [now_ms]) * count)
    if column.null_count:
        column = column.fill_null(_scalar(column, now_ms))
    import pyarrow as pa

    millis = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    data = memoryview(millis.buffers()[1]).cast("B").cast("q")
    return data[millis.offset : millis.offset + count]


def _scalar(column: Any, now_ms: int) -> Any:
    import pyarrow as pa

    return pa.scalar(now_ms, pa.timestamp("ms", column.type.tz)).cast(column.type)


def _partitions(column: Any, count: int) -> memoryview:
    """What rows say themselves; -1 where they say nothing."""
    if column is None:
        return memoryview(array("i", [-1]) * count)
    filled = column.cast("int32").fill_null(-1)
    data = memoryview(filled.buffers()[1]).cast("B").cast("i")
    return memoryview(array("i", data[filled.offset : filled.offset + count]))


def _add_headers(rows: Rows, headers: Any) -> None:
    if headers.null_count:
        import pyarrow as pa

        headers = pa.array(
            [each or [] for each in headers.to_pylist()], headers.type
        )  # A row without headers has a list of none; only such columns are walked in Python.
    pairs = headers.values
    ends = memoryview(headers.buffers()[1]).cast("B").cast("i")
    rows.add_headers(
        ends[headers.offset : headers.offset + len(headers) + 1],
        column_field(pairs.field(0)),
        column_field(pairs.field(1)),
    )
